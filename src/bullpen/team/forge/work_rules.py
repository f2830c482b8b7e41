"""Rules for the work of a task on a forge: pushed, returned, ended, held for a person. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bullpen.errors import Refused
from bullpen.protocol.forge import (
    ASKED_MAX,
    HEARD_MAX,
    ForgeAsked,
    ForgeOutcome,
    ForgeSettings,
    ForgeWork,
)
from bullpen.protocol.request import Voice
from bullpen.protocol.task import STEPS_MAX, Forced, ReturnedFor, Step, Task
from bullpen.team.forge import outbox_rules
from bullpen.team.forge.answers import answers_in
from bullpen.team.forge.outbox_rules import Wish, work_of
from bullpen.team.tasks import merge_rules
from bullpen.team.tasks.check_rules import is_done, is_queued, landing, missing
from bullpen.team.tasks.rules import released, resolved

_WORDS: dict[ForgeOutcome, str] = {
    "merged": "its pull request was merged",
    "pull_closed": "its pull request was closed without being merged",
    "issue_closed": "its issue was closed",
    "gone": "its branch or its pull request is gone from the forge",
}


CI_SILENT = "CI says nothing about it, although it does about other work"
CI_NOT_DONE = "CI is not done after an hour"
NOT_TESTED = (
    "nothing says that it works: CI says nothing about it, and the team has no merge gate. Merge "
    "it on the forge, or set a gate: bullpen merge set --gate COMMAND"
)
OF_CI = frozenset({CI_SILENT, CI_NOT_DONE, NOT_TESTED})
"""Why a person is asked while CI is silent. It is over as soon as CI has said what was missing."""

NOT_OURS = "others pushed what the merge gate has not seen: merge it on the forge"
"""Why a person is asked who lets the work go on from what others pushed."""


@dataclass(frozen=True, slots=True)
class Heard:
    """What a forge says that somebody has to act on, with the text that is told."""

    asked: Sequence[ForgeAsked]
    text: str
    why: ReturnedFor = "review"
    files: Sequence[str] = ()
    # The head that it is about; None if it is about any.
    head: str | None = None


def repository_of(settings: ForgeSettings) -> str:
    """Return the repository as HOST/OWNER/NAME."""
    address = settings.repository.partition("://")[2] or settings.repository
    return address.rpartition("@")[2].strip("/").removesuffix(".git").casefold()


def work_or_new(task: Task, settings: ForgeSettings | None) -> ForgeWork:
    """Return what is known of a task on the forge; of one without an issue, that it may go there.

    Raises:
        Refused: not_on_forge, if the team uses no forge.
    """
    if task.facts.forge is None and not task.facts.has("forge") and settings is not None:
        return ForgeWork.new(repository=repository_of(settings))
    return work_of(task)


def refuse_configuring(voice: Voice) -> None:
    """Refuse to let an agent choose where its work goes or whose words count.

    Raises:
        Refused: not_a_person.
    """
    if voice != "human":
        raise Refused(
            "An agent cannot change how this team uses a forge.",
            reason="not_a_person",
            remedy="Ask a person to run: bullpen forge set",
        )


def finished(task: Task, n: int, *, there: str | None, digest: str | None, now_ms: int) -> Task:
    """Return the task with a write to the forge done, and with what follows from it due.

    After a push, what the owner was asked is answered, and its threads are resolved if the commit
    is another one.
    """
    before = work_of(task)
    was = outbox_rules.numbered(before, n)
    work = outbox_rules.finished(before, n, there=there, digest=digest, now_ms=now_ms)
    if was.state != "done" and was.kind == "pull" and there is not None:
        work = work.evolve(pull=int(there))
    elif was.state != "done" and was.kind == "push":
        attempt = outbox_rules.attempt_of(was)
        work = work.evolve(head=was.target, branch=there or before.branch, attempt=attempt)
        handed_in = task.facts.merge
        if handed_in is not None and handed_in.attempt == attempt and task.status == "completed":
            changed = was.target != before.head
            work = _answered(work, task.facts.report, changed=changed, now_ms=now_ms)
    return task if work == before else task.with_facts(forge=work)


def _answered(work: ForgeWork, report: str | None, *, changed: bool, now_ms: int) -> ForgeWork:
    """Return the work with an answer due to everything that was asked, and nothing asked."""
    answers = answers_in(report, [each.number for each in work.asked])
    wishes: list[Wish] = []
    for each in work.asked:
        if each.kind == "thread" and each.target is not None:
            wishes.append(Wish("reply", each.heard, each.target, answers[each.number]))
            if changed:
                wishes.append(Wish("resolve", each.heard, each.target))
        elif each.kind in ("comment", "review") and each.target is not None:
            wishes.append(Wish("answer", each.heard, each.target, answers[each.number]))
    try:
        work = outbox_rules.begun(work, wishes, now_ms=now_ms)
    except Refused as refused:
        work = work.evolve(person=work.person or refused.message)
    return work.evolve(asked=None)


def unheard(work: ForgeWork, heard: Heard) -> list[ForgeAsked]:
    """Return what was not acted on before, as far as it is about the pushed commit."""
    if work.outcome is not None or (heard.head is not None and heard.head != work.head):
        return []
    known = set(work.heard)
    fresh = {each.heard: each for each in heard.asked if each.heard not in known}
    return list(fresh.values())


def may_return(task: Task, work: ForgeWork, fresh: Sequence[ForgeAsked], rounds: int) -> bool:
    """Return whether there is a round left for this work, and room to record it."""
    room = len(_remembered(work, fresh)) < HEARD_MAX and len(fresh) <= ASKED_MAX
    room = room and outbox_rules.can_answer(work, len(fresh))
    return room and work.person is None and work.rounds < rounds


def is_returnable(task: Task) -> bool:
    """Return whether the work of a task can go back: it is handed in and not on the target."""
    return is_queued(task) and task.facts.merge is not None


def returned(
    task: Task, heard: Heard, fresh: Sequence[ForgeAsked], *, owner: str | None, now_ms: int
) -> Task:
    """Return the task as pending with its owner, who is asked these things."""
    work = work_of(task)
    merge = task.facts.merge
    attempt = task.facts.attempt if merge is None else merge.attempt
    said = f"{len(fresh)} to answer" if heard.why == "review" else ", ".join(heard.files)
    step = Step.new(at_ms=now_ms, what="returned", commit=work.head, passed=False, detail=said)
    back = merge_rules.returned(
        task, attempt, heard.why, said, heard.files, [step], owner=owner
    ).with_facts(released="came back from the forge")
    told = work.evolve(rounds=work.rounds + 1, asked=list(fresh), heard=_remembered(work, fresh))
    return back.with_facts(forge=told)


def heard_of_ci(task: Task) -> Task:
    """Return the task without the question to a person that CI has answered meanwhile."""
    work = work_of(task)
    return task.with_facts(forge=work.evolve(person=None)) if work.person in OF_CI else task


def held(task: Task, why: str, fresh: Sequence[ForgeAsked]) -> Task:
    """Return the task with the reason why a person has to look. The first reason stays."""
    work = work_of(task)
    known = _remembered(work, fresh)
    withheld = [*work.withheld, *(word for word in known if word not in set(work.heard))]
    changed = work.evolve(person=work.person or why, heard=known, withheld=withheld or None)
    return task if changed == work else task.with_facts(forge=changed)


def _remembered(work: ForgeWork, fresh: Sequence[ForgeAsked]) -> list[str]:
    # A flood beyond the limit is not remembered: a person looks after this work already.
    words = [word for each in fresh for word in (each.heard, *each.also)]
    return list(dict.fromkeys([*work.heard, *words]))[:HEARD_MAX]


def resumed(task: Task, *, head: str | None) -> Task:
    """Return the task with new rounds, after a person looked at it.

    With `head`, what others pushed counts as the head of its work. Work that had ended without a
    merge begins again, with another pull request. A task that was completed without a change is
    open again.

    Raises:
        Refused: already_resolved, if it was merged.
    """
    work = work_of(task)
    if work.outcome == "merged" or landing(task) in ("changed", "vouched"):
        raise resolved(task)
    if landing(task) == "unchanged":
        task = released(task, "a person sent it back: nothing was changed for it")
    known = [word for word in work.heard if word not in set(work.withheld)]
    again = work.evolve(person=None, rounds=0, head=head or work.head, heard=known, withheld=None)
    if work.outcome is not None:
        again = again.evolve(
            outcome=None, life=work.life + 1, pull=None, head=None, attempt=None, labelled=None
        )
        task = task.with_facts(given_up=None)
    return task if again == work else task.with_facts(forge=again)


def settled(
    task: Task, outcome: ForgeOutcome, *, commit: str | None, why: str | None, now_ms: int
) -> Task | None:
    """Return the task after its work ended on the forge. None if it had ended already.

    Merged work is done, whatever its owner does at that time. Otherwise nobody is offered the task
    until a person retries it, unless it was done before.
    """
    work = work_of(task)
    if work.outcome == "merged" or (work.outcome is not None and outcome != "merged"):
        return None
    over = outbox_rules.ended(work, now_ms=now_ms).evolve(outcome=outcome, person=None, asked=None)
    if is_done(task):
        return task.with_facts(forge=over)
    reason = why or _WORDS[outcome]
    if outcome == "merged":
        return _merged(task, commit, reason, now_ms).with_facts(forge=over, given_up=None)
    merge = task.facts.merge
    given_up = released(task, reason).with_facts(given_up=reason, forge=over)
    if merge is None:
        return given_up
    step = Step.new(at_ms=now_ms, what="returned", commit=merge.commit, detail=reason)
    return given_up.with_facts(
        merge=merge.evolve(
            state="returned",
            candidate=None,
            why="review",
            detail=reason,
            steps=[*merge.steps, step][-STEPS_MAX:],
        )
    )


def _merged(task: Task, commit: str | None, reason: str, now_ms: int) -> Task:
    done = task.evolve(status="completed").with_facts(lease_until_ms=None)
    merge = done.facts.merge
    if merge is not None:
        landed = commit or merge.commit
        step = Step.new(at_ms=now_ms, what="merged", commit=landed, passed=True)
        merge = merge.evolve(
            state="merged",
            candidate=landed,
            landed=landed,
            why=None,
            detail=None,
            files=[],
            steps=[*merge.steps, step][-STEPS_MAX:],
        )
        done = done.with_facts(merge=merge)
    if missing(done):
        # The forge has it: what people merged there is merged, whatever its checks say here.
        done = done.with_facts(forced=Forced.new(by="forge", reason=reason, at_ms=now_ms))
    return done


def rounds_of(settings: ForgeSettings | None) -> int:
    """Return how many times work goes back before a person is asked."""
    return ForgeSettings.rounds if settings is None else settings.rounds


def too_often(work: ForgeWork) -> str:
    """Return why a person is asked instead of the owner once more."""
    if work.rounds:
        times = "once" if work.rounds == 1 else f"{work.rounds} times"
        return f"it went back to its owner {times}, and the forge still asks for changes"
    return "the forge asks for more than goes back to its owner"


def told(task: Task, heard: Heard) -> str:
    """Return what the owner of returned work reads."""
    what = {
        "checks": "CI fails with your work",
        "conflict": "your work conflicts with the target branch",
    }.get(heard.why, "reviewers ask for changes")
    return (
        f"Task #{task.id} came back from the forge: {what}. It is pending and still assigned to "
        "you. When you claim it, your worktree will hold your work on top of the newest target. "
        "Fix it and complete the task again. Begin a line of your report with [1], [2] and so on "
        f"to answer that number.\n\n{heard.text}"
    )


def ended_text(task: Task, outcome: ForgeOutcome, why: str | None) -> str:
    """Return what whoever works on a task reads when its work ended on the forge."""
    then = "It is done" if outcome == "merged" else "It is given up"
    return f"Stop working on task #{task.id}: {why or _WORDS[outcome]}. {then}."


def reopened(task: Task) -> Task:
    """Return the task that ended with its issue, now that the issue is open again."""
    return resumed(task, head=None) if work_of(task).outcome == "issue_closed" else task
