"""What Bullpen writes on a forge: titles, branches, pull requests, comments, labels. Pure.

The words of agents and of strangers are in it only as quotations that a forge does not act on. What
a text is about is written by code.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from bullpen.protocol.forge import ForgeWork
from bullpen.protocol.task import Check, Task
from bullpen.team.forge.markers import Mark, marked
from bullpen.team.forge.outside_words import defused_line, fenced, inline, quoted
from bullpen.team.tasks.check_rules import is_done, is_queued, landing
from bullpen.team.tasks.merge_rules import last_proof

TITLE_MAX = 255
BODY_MAX = 65_536
"""What GitHub takes. Gitea takes as much or more."""

IssueState = Literal["waiting", "working", "review", "returned", "person", "merged", "given_up"]

LABELS: Mapping[IssueState, str] = {
    "waiting": "bullpen: waiting",
    "working": "bullpen: working",
    "review": "bullpen: in review",
    "returned": "bullpen: changes asked for",
    "person": "bullpen: needs you",
    "merged": "bullpen: merged",
    "given_up": "bullpen: given up",
}
"""The label of each state of an issue."""

_STATES: Mapping[IssueState, str] = {
    "waiting": "The task waits for a teammate.",
    "working": "A teammate works on it.",
    "review": "The work is done and waits for review.",
    "returned": "The work went back to a teammate.",
    "person": "A person has to look at it.",
    "merged": "The work is merged.",
    "given_up": "The task was given up.",
}

_UNCHANGED = (
    "A person has to look at it: the task was completed without a change.",
    "The task was completed without a change, and its issue was closed.",
)

_DRAFT = re.compile(r"\s*[\[(]?\s*(?:wip|draft)\b", re.IGNORECASE)
_SAFE = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,62}[A-Za-z0-9_])?\Z")
_REPORT_MAX = 12_000
_DETAIL_MAX = 600
_CHECKS_MAX = 32
_TEXT_MAX = 8_000
_NAMES_MAX = 20


@dataclass(frozen=True, slots=True)
class Made:
    """Who made the work of a task, and what it cost. None where that is not known."""

    agents: Sequence[str] = ()
    usd: float | None = None
    tokens: int | None = None


def branch_name(team: str, task_id: str) -> str:
    """Return the branch of a task. It is made of ids only, and is a safe ref whatever they are."""
    return f"bullpen/{_component(team)}/task-{_component(task_id)}"


def night_branch(team: str, n: int) -> str:
    """Return the branch of a night. No task has it."""
    return f"bullpen/{_component(team)}/night-{n}"


def _component(name: str) -> str:
    if _SAFE.match(name):
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    plain = re.sub(r"[^A-Za-z0-9_]+", "-", name)[:40].strip("-")
    return f"{plain}-{digest}" if plain else digest


def pull_title(task: Task) -> str:
    """Return the title of the pull request of a task. It never makes it a draft."""
    subject = defused_line(task.subject, TITLE_MAX - 40) or "No subject"
    return f"Task {inline_id(task.id)}: {subject}" if _DRAFT.match(subject) else subject


def inline_id(task_id: str) -> str:
    """Return the id of a task, which another program may have made of anything."""
    return task_id if _SAFE.match(task_id) else inline(task_id, 30)


def cleaned(task: Task, clean: Callable[[str], str]) -> Task:
    """Return a task whose words went through `clean`, which removes secrets.

    In a finished text it would not find them all: there, their characters are escaped.
    """
    facts = task.facts
    changes: dict[str, Any] = {}
    if facts.report:
        changes["report"] = clean(facts.report)
    if facts.given_up:
        changes["given_up"] = clean(facts.given_up)
    if facts.checks:
        changes["checks"] = [_cleaned_check(check, clean) for check in facts.checks]
    if facts.forced is not None:
        by, reason = clean(facts.forced.by), clean(facts.forced.reason)
        changes["forced"] = facts.forced.evolve(by=by, reason=reason)
    if facts.forge is not None and facts.forge.person:
        changes["forge"] = facts.forge.evolve(person=clean(facts.forge.person))
    found = task.evolve(subject=clean(task.subject))
    return found.with_facts(**changes) if changes else found


def _cleaned_check(check: Check, clean: Callable[[str], str]) -> Check:
    said = {"name": check.name, "run": check.run, "path": check.path, "ref": check.ref}
    return check.evolve(**{key: clean(text) for key, text in said.items() if text})


def pull_body(task: Task, made: Made, mark: Mark, key: bytes) -> str:
    """Return the text of the pull request of a task, with its marker."""
    work = task.facts.forge
    parts = [f"Task {inline_id(task.id)} of team {inline(mark.team, 100)}.", *_closes(work)]
    if pull_title(task) != task.subject:
        parts += [quoted(task.subject, 500)]
    parts += ["### Checks", *checks_of(task), *_tested(task)]
    if task.facts.report:
        parts += ["### Report", quoted(task.facts.report, _REPORT_MAX)]
    parts += ["### Made by", made_by(task, made)]
    return bounded(parts, mark, key)


def _closes(work: ForgeWork | None) -> list[str]:
    return [] if work is None or work.issue is None else [f"Closes #{work.issue}"]


def _tested(task: Task) -> list[str]:
    """Return on which commit of the target the work was tested, if it was."""
    proof = None if task.facts.merge is None else last_proof(task.facts.merge)
    if proof is None or proof.onto is None:
        return []
    onto = inline(proof.onto[:12], 12)
    return [f"The merge gate and the task's checks passed with this work on {onto}."]


def checks_of(task: Task) -> list[str]:
    """Return what the checks of a task found."""
    checks = task.facts.checks
    if not checks:
        return ["No checks were asked for."]
    said = [_check(check, task.facts.attempt) for check in checks[:_CHECKS_MAX]]
    if task.facts.forced is not None:
        said.append(f"Completed without its checks by {inline(task.facts.forced.by, 100)}:")
        said.append(quoted(task.facts.forced.reason, _DETAIL_MAX))
    return said


def _check(check: Check, attempt: int) -> str:
    passed = check.passed is True and check.attempt == attempt
    result = "passed" if passed else "did not pass"
    head = f"- **{inline(check.name, 100)}** {result}"
    words = check.run or check.path or check.ref
    return head if words is None else f"{head}\n\n{fenced(words, _DETAIL_MAX)}"


def made_by(task: Task, made: Made) -> str:
    """Return who made the work of a task, in how many attempts, and what that cost."""
    merge = task.facts.merge
    names = list(dict.fromkeys([*made.agents, *([] if merge is None else [merge.by])]))
    who = ", ".join(inline(name, 100) for name in names[:_NAMES_MAX]) or "nobody that is known"
    if len(names) > _NAMES_MAX:
        who += f" and {len(names) - _NAMES_MAX} more"
    cost = [f"{made.tokens} tokens"] if made.tokens is not None else []
    cost += [f"{made.usd:.2f} USD"] if made.usd is not None else []
    attempts = max(task.facts.attempt, 1)
    tries = "1 attempt" if attempts == 1 else f"{attempts} attempts"
    return f"{who}, in {tries}{', ' if cost else ''}{', '.join(cost)}."


def answer_body(text: str | None, *, by: str | None, mark: Mark, key: bytes) -> str:
    """Return what is posted as the answer of an agent, with its marker."""
    who = f"Agent {inline(by, 100)}" if by else "The team"
    return bounded([f"{who} answers:", quoted(text or "", _TEXT_MAX)], mark, key)


def state_of(task: Task) -> IssueState:
    """Return what the issue of a task shows."""
    work = task.facts.forge
    if work is not None and work.outcome == "merged":
        return "merged"
    if work is not None and work.person is not None:
        return "person"
    if task.facts.given_up is not None or (work is not None and work.outcome is not None):
        return "given_up"
    if landing(task) == "unchanged":
        # Nobody has read yet why nothing was changed.
        return "person"
    if is_done(task):
        return "review" if work is not None and work.night is not None else "merged"
    if is_queued(task):
        return "review"
    if work is not None and work.rounds and work.asked:
        return "returned"
    return "working" if task.status == "in_progress" else "waiting"


def state_comment(task: Task, mark: Mark, key: bytes) -> str:
    """Return the comment on the issue of a task that says where its work is, with its marker."""
    work, state = task.facts.forge, state_of(task)
    said = _STATES[state]
    if state == "merged" and task.facts.merge is None:
        said = "The task is done."
    unchanged = landing(task) == "unchanged"
    if unchanged:
        said = _UNCHANGED[state == "given_up"]
    parts = [f"{said} It is task {inline_id(task.id)} of team {inline(mark.team, 100)}."]
    if work is not None and work.pull is not None:
        parts.append(f"Pull request: #{work.pull}")
    if state == "merged" and task.facts.merge is not None and task.facts.merge.landed:
        parts.append(f"Commit: {inline(task.facts.merge.landed, 64)}")
    why = {
        "person": None if work is None else work.person,
        "given_up": task.facts.given_up,
    }.get(state)
    if why:
        parts.append(quoted(why, _DETAIL_MAX))
    if unchanged:
        parts += ["### Report", quoted(task.facts.report or "There is no report.", _REPORT_MAX)]
    return bounded(parts, mark, key)


def labels_for(state: IssueState) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the labels that an issue gets in this state, and those that it loses."""
    own = LABELS[state]
    return (own,), tuple(label for label in LABELS.values() if label != own)


def bounded(parts: Sequence[str], mark: Mark, key: bytes) -> str:
    """Return the parts as one text with its marker; whole parts are left out if it is too long."""
    kept = list(parts)
    left_out = "Some of it is left out: it is too long."
    while len(marked("\n\n".join(kept), mark, key).encode()) > BODY_MAX and len(kept) > 1:
        # What says most is longest; the first line says what it is about.
        longest = max(range(1, len(kept)), key=lambda index: len(kept[index]))
        kept[longest] = left_out
        if all(part == left_out for part in kept[1:]):
            kept = kept[:1]
    return marked("\n\n".join(kept), mark, key)
