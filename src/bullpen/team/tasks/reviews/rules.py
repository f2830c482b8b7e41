"""Rules for reviews: who may review, how many rounds there are, and when a person decides. Pure.

A review is about a difference, not about a commit: the same difference on a newer target has the
same verdict. A reviewer that gives no verdict has approved nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from bullpen.errors import Refused
from bullpen.protocol.agent import REVIEWER, AgentSpec, Spent, sums
from bullpen.protocol.record.review import REVIEWS_MAX, Review, is_review
from bullpen.protocol.request import Request, Voice
from bullpen.protocol.task import Check, Task
from bullpen.protocol.team import TeamConfig
from bullpen.store.contract import View
from bullpen.team.lookup import Actor, owner_of, task_of
from bullpen.team.tasks import rules
from bullpen.team.tasks.check_rules import is_queued

ROUNDS = 2
"""How often work comes back from its review before a person is asked, by default."""

FAILURES_MAX = 3
"""How often in a row a review may give no verdict before a person is asked."""

WORDS_CHARS_MAX = 6_000
"""How much of a review its author is told."""

_AS_IT_IS = "The same work is not reviewed twice: change it, then complete the task again."

Act = Literal["pass", "fail", "review", "ask", "wait"]
"""`ask`: a person has to be asked. `wait`: one was asked and has not answered."""


@dataclass(frozen=True, slots=True)
class NextStep:
    """What happens with some work that has to be reviewed, and why."""

    act: Act
    why: str
    # The number of the review, if there is one.
    round: int = 1
    request: Request | None = None


def digest_of(difference: str) -> str:
    """Return a digest of a difference, without its line numbers and the ids of text files.

    It is the same after a rebase that does not change the lines around it.
    """
    kept: list[str] = []
    index = ""
    for line in difference.split("\n"):
        if line.startswith("index "):
            index = line
            continue
        if line.startswith("Binary files "):
            # The content of these is only in their ids.
            kept.append(index)
        kept.append("@@" if line.startswith("@@ ") else line)
    return hashlib.sha256("\n".join(kept).encode("utf-8", "surrogateescape")).hexdigest()


def asked_of(check: Check) -> str:
    """Return a digest of what a check asks of its reviewer."""
    asked = [check.by, check.model, check.run, check.rubric]
    return hashlib.sha256(json.dumps(asked).encode("utf-8", "surrogatepass")).hexdigest()


def name_of(check: Check) -> str:
    """Return what a reviewer is called: its driver and its model."""
    return " ".join(part for part in (check.by, check.model) if part)


def same_as_author(check: Check, author: AgentSpec | None) -> Refused | None:
    """Return the refusal of a reviewer that has, or may have, the author's driver and model.

    A model that is not named is the default of its program, which nobody here knows.
    """
    if author is None or check.same_model or check.by != author.driver:
        return None
    if check.model is not None and author.model is not None and not _alike(check, author):
        return None
    known = check.model is not None and author.model is not None
    what = "which also made the work" if known else "which may also have made the work"
    return Refused(
        f"Review {check.name!r} asks {name_of(check)}, {what}.",
        reason="same_reviewer",
        remedy="Name another driver or model in the check (`by`, `model`), give the task to a"
        " member with another one, or allow it with `same_model = true`.",
    )


def _alike(check: Check, author: AgentSpec) -> bool:
    one, other = str(check.model), str(author.model)
    return one == other or one.partition(":")[2] == other or other.partition(":")[2] == one


def reviews_of(task: Task, check: Check) -> list[Review]:
    """Return the reviews that were made for this check as it is now, oldest first."""
    asked = asked_of(check)
    return [each for each in task.facts.reviews if each.check == check.name and each.asked == asked]


def next_step(task: Task, check: Check, work: str, requests: Iterable[Request]) -> NextStep:
    """Return what happens with work, given by the digest of its difference."""
    mine = [each for each in requests if _is_about(each, task.id, check)]
    accepted = next((each for each in mine if _is_accepted(each) and _work(each) == work), None)
    if accepted is not None:
        return NextStep("pass", f"a person accepted this work (request {accepted.id})")
    pending = _newest(each for each in mine if each.state == "pending")
    if pending is not None:
        return NextStep("wait", "a person was asked", request=pending)
    denied = _newest(each for each in mine if each.state == "denied")
    if denied is not None and _work(denied) == work:
        return NextStep("fail", _denied_words(denied), request=denied)
    reviews = reviews_of(task, check)
    since_ms = 0 if denied is None else denied.answered_ms or denied.created_ms
    counted = [each for each in reviews if each.at_ms > since_ms]
    same = next((r for r in reversed(reviews) if r.work == work and r.verdict != "none"), None)
    if same is not None and same.verdict == "approve":
        return NextStep("pass", words_of(same))
    rounds = check.rounds or ROUNDS
    came_back = [each for each in counted if each.verdict == "change"]
    veto = next((each for each in reversed(counted) if each.verdict == "veto"), None)
    if veto is not None:
        return NextStep("ask", words_of(veto))
    if len(came_back) >= rounds:
        many = "its one round" if rounds == 1 else f"its {rounds} rounds"
        return NextStep("ask", f"not approved in {many}; {words_of(came_back[-1])}")
    if len(counted) >= FAILURES_MAX and all(r.verdict == "none" for r in counted[-FAILURES_MAX:]):
        return NextStep(
            "ask", f"{FAILURES_MAX} reviews in a row gave no verdict: {counted[-1].summary}"
        )
    number = len(came_back) + 1
    if same is not None:
        return NextStep("fail", f"{words_of(same)}\n{_AS_IT_IS}")
    return NextStep("review", f"round {number} of {rounds}", round=number)


def words_of(review: Review) -> str:
    """Return what a reviewer said, for the author."""
    who = " ".join(part for part in (review.by, review.model) if part)
    said = {
        "approve": "approves the work",
        "change": "asks for changes",
        "veto": "vetoes the work",
        "none": "gave no verdict",
    }[review.verdict]
    head = f"{who} {said}: {review.summary}".rstrip(": ")
    lines = [head, *(f"- {comment.words}" for comment in review.comments)]
    text = "\n".join(lines)
    return text if len(text) <= WORDS_CHARS_MAX else f"{text[:WORDS_CHARS_MAX]}\n[... cut]"


def recorded(
    view: View, task_id: str, review: Review, *, by: str, voice: Voice, now_ms: int
) -> Task:
    """Return the task with one more review, as whoever completes it, or for the merge queue.

    Raises:
        Refused: as completing the task does; not_owner for queued work and everybody but the lead;
            same_reviewer.
    """
    task = task_of(view, task_id)
    if is_queued(task):
        rules.refuse_others(task.evolve(owner=None), Actor.of(view.team, by))
    else:
        rules.provable(view, task_id, by=by, voice=voice, now_ms=now_ms)
    author = author_of(task, view.team) or author_of(task.evolve(owner=by), view.team)
    for check in task.facts.checks:
        same = same_as_author(check, author) if check.name == review.check else None
        if same is not None:
            raise same
    kept = [each.raw for each in task.facts.reviews]
    return task.with_facts(reviews=[*kept, review.raw][-REVIEWS_MAX:])


def author_of(task: Task, team: TeamConfig) -> AgentSpec | None:
    """Return the spec of the agent whose work a task is; None if a person does it."""
    name = owner_of(task, team.name)
    if name is None and task.facts.merge is not None:
        name = task.facts.merge.by
    member = None if name is None else team.member(name)
    agent = None if member is None else member.agent
    return None if agent is None else agent.spec


def booked(team: TeamConfig, task: Task, used: Iterable[Spent]) -> list[dict[str, Any]]:
    """Return what members that are gone and reviewers used, with the cost of a review."""
    owner = owner_of(task, team.name)
    rows = list(team.facts.spent)
    for each in used:
        new = each.evolve(task=task.id, agent=REVIEWER, parent=owner)
        for number, row in enumerate(rows):
            if (row.agent, row.task, row.model) == (REVIEWER, task.id, new.model):
                rows[number] = row.evolve(**sums(row, new))
                break
        else:
            rows.append(new)
    return [row.raw for row in rows]


# What a person is asked.


def request_input(task: Task, check: Check, work: str, why: str, look: str) -> Mapping[str, Any]:
    """Return what a person sees and decides about."""
    return {
        "task": task.id,
        "subject": task.subject,
        "check": check.name,
        "asked": asked_of(check),
        "work": work,
        "why": why,
        "look": look,
    }


def task_of_request(request: Request) -> str | None:
    """Return the task whose review a person was asked about."""
    task = _given(request).get("task") if is_review(request) else None
    return task if isinstance(task, str) else None


def pending_for(task: Task, requests: Iterable[Request]) -> Request | None:
    """Return the request about any review of a task that nobody has answered."""
    asked = [each for each in requests if task_of_request(each) == task.id]
    return _newest(each for each in asked if each.state == "pending")


def park_reason(request: Request) -> str:
    """Return why a task is given up whose owner completed it again before a person decided."""
    return f"a person decides about its review: bullpen approve {request.id}"


def refuse_waiting(task: Task, request: Request) -> Refused:
    """Return the refusal of work that a person has yet to decide about."""
    return Refused(
        f"Task #{task.id} is not done: a person decides about its review (request {request.id}).",
        reason="review_waits",
        remedy="The task is no longer yours, and your work is saved. Go on with other work.",
    )


def asked_words(step: NextStep, request: Request) -> str:
    """Return what the author reads when a person was asked."""
    return (
        f"{step.why}\nNo more reviews: a person decides about this work (request {request.id})."
        " End your turn. You get a message when a person has answered."
    )


def answer_text(request: Request) -> str:
    """Return what the asker reads when a person has answered."""
    task, answer = task_of_request(request), request.answer or {}
    if request.state == "approved":
        return (
            f"A person accepted the work of task #{task} in place of its reviewer. If the task is"
            " yours, complete it again with exactly this work."
        )
    words = f": {answer['feedback']}" if answer.get("feedback") else "."
    return (
        f"A person did not accept the work of task #{task} after its review{words}\n"
        "If the task is yours, change the work and complete it again. It is then reviewed again."
    )


def _is_about(request: Request, task_id: str, check: Check) -> bool:
    given = _given(request)
    return (
        is_review(request)
        and given.get("task") == task_id
        and given.get("check") == check.name
        and given.get("asked") == asked_of(check)
    )


def _is_accepted(request: Request) -> bool:
    changed = (request.answer or {}).get("updatedInput") is not None
    by_person = request.approver == "human" and request.voice == "human"
    return by_person and request.state == "approved" and not changed


def _denied_words(request: Request) -> str:
    words = (request.answer or {}).get("feedback")
    said = f": {words}" if words else ""
    return f"a person did not accept this work (request {request.id}){said}"


def _work(request: Request) -> object:
    return _given(request).get("work")


def _given(request: Request) -> Mapping[str, Any]:
    given = request.subject.get("input")
    return given if isinstance(given, dict) else {}


def _newest(requests: Iterable[Request]) -> Request | None:
    return max(requests, key=lambda each: (each.created_ms, each.id), default=None)
