"""Rules for nights: which work is in one, what is written for it, and how it ends. Pure.

A night begins with the first work that our queue merges while no night is open, and ends when its
pull request is merged or closed. One night is open at a time: its branch is the target here.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from bullpen.errors import Refused, Unreadable
from bullpen.protocol.forge import (
    HEARD_MAX,
    ForgeAsked,
    ForgeFix,
    ForgeNight,
    ForgeOutcome,
    ForgeSettings,
    ForgeWork,
)
from bullpen.protocol.task import Task
from bullpen.protocol.team import TeamFacts
from bullpen.team.forge import outbox_rules, work_rules
from bullpen.team.forge.answers import answers_in
from bullpen.team.forge.bodies import night_branch
from bullpen.team.forge.outbox_rules import Wish, made, write_of
from bullpen.team.forge.work_rules import repository_of, work_or_new
from bullpen.team.tasks.check_rules import is_done

NIGHTS_MAX = 20
"""How many nights are remembered. Tasks know themselves how they ended."""

TOO_MANY_WRITES = "it made too many writes to the forge"
"""Why a person has to go on with a night."""

_PUSHES_MAX = 30
"""How many done pushes of a night are remembered."""

_ID = re.compile(r"\+?night-([1-9][0-9]{0,8})\Z")

_ENDS: dict[ForgeOutcome, str] = {
    "pull_closed": "was closed without a merge",
    "issue_closed": "was closed without a merge",
    "gone": "is gone from the forge",
    "merged": "was merged",
}


class Asking(Protocol):
    """What is asked for together."""

    @property
    def asked(self) -> Sequence[ForgeAsked]:
        """Return the words."""
        ...


@dataclass(frozen=True, slots=True)
class Gathered:
    """The nights after work was put into one, and the tasks that changed."""

    nights: list[ForgeNight]
    tasks: list[Task]


def nights_of(facts: TeamFacts) -> list[ForgeNight]:
    """Return the nights that are remembered, oldest first. Raises Unreadable."""
    if facts.nights is None and facts.has("nights"):
        raise Unreadable("the nights of the team", "they are not valid")
    return list(facts.nights or ())


def night_id(night: ForgeNight) -> str:
    """Return what a night is called: in marks, in commands and to people."""
    return f"night-{night.n}"


def number_in(text: str) -> int | None:
    """Return which night a text names; None if it names a task."""
    found = _ID.match(text)
    return None if found is None else int(found[1])


def open_night(nights: Iterable[ForgeNight]) -> ForgeNight | None:
    """Return the night that work goes into now, if one is open."""
    return next((night for night in nights if night.work.outcome is None), None)


def numbered(nights: Iterable[ForgeNight], n: int) -> ForgeNight:
    """Return the night with that number.

    Raises:
        Refused: not_on_forge.
    """
    found = next((night for night in nights if night.n == n), None)
    if found is None:
        raise Refused(
            f"There is no night {n} on the forge.",
            reason="not_on_forge",
            remedy="Show what is there: bullpen forge status",
        )
    return found


def replaced(nights: Iterable[ForgeNight], night: ForgeNight) -> list[ForgeNight]:
    """Return the nights with one in a later state."""
    return [night if each.n == night.n else each for each in nights]


def as_task(night: ForgeNight) -> Task:
    """Return a night as what writes and judges work takes. It is in no list of tasks."""
    task = Task.new(id=f"+{night_id(night)}", subject=f"Night {night.n}", description="")
    return task.with_facts(forge=night.work)


def landed_at(task: Task) -> tuple[int, int] | None:
    """Return when the queue merged the work of a task, in an order; None if it did not."""
    record = task.facts.merge
    if record is None or record.state != "merged" or record.landed is None or not is_done(task):
        return None
    times = [step.at_ms for step in record.steps if step.what == "merged"]
    return max(times, default=record.at_ms), record.order


def landed_commit(task: Task) -> str:
    """Return the commit that the work of a merged task has on the target."""
    record = task.facts.merge
    return "" if record is None else record.landed or record.commit


def waiting(tasks: Iterable[Task], nights: Sequence[ForgeNight]) -> list[Task]:
    """Return the merged tasks whose work is in no pull request, in the order of their merging."""
    over = {night.n for night in nights if night.work.outcome is not None}
    found = []
    for task in tasks:
        at, work = landed_at(task), task.facts.forge
        if at is None or (work is None and task.facts.has("forge")):
            continue
        if work is None or (work.outcome is None and (work.night is None or work.night in over)):
            found.append((at, task))
    return [task for _, task in sorted(found, key=lambda pair: pair[0])]


def fresh(tasks: Iterable[Task], nights: Sequence[ForgeNight]) -> list[Task]:
    """Return the merged tasks that were in no night yet."""
    return [
        task
        for task in waiting(tasks, nights)
        if task.facts.forge is None or task.facts.forge.night is None
    ]


def gathered(
    tasks: Mapping[str, Task],
    nights: Sequence[ForgeNight],
    settings: ForgeSettings,
    *,
    there: Collection[str],
    now_ms: int,
) -> Gathered | None:
    """Return the nights with all work that our queue merged; None if there is no more of it.

    `there` are the tasks whose commit the forge's target has already. What a person refused with
    an earlier pull request is in the next one again: the new work is on top of it.
    """
    found = [task for task in waiting(tasks.values(), nights) if task.id not in there]
    if not any(task.facts.forge is None or task.facts.forge.night is None for task in found):
        return None
    night = open_night(nights)
    kept = [*nights]
    if night is None:
        n = max((each.n for each in nights), default=0) + 1
        work = ForgeWork.new(repository=repository_of(settings))
        night = ForgeNight.new(n=n, at_ms=now_ms, work=work)
        kept = [*nights, night][-NIGHTS_MAX:]
    ids = [*night.tasks, *(task.id for task in found if task.id not in set(night.tasks))]
    night = night.evolve(tasks=ids)
    changed = [
        task.with_facts(
            forge=work_or_new(task, settings).evolve(
                night=night.n, pull=night.work.pull, branch=night.work.branch, person=None
            )
        )
        for task in found
    ]
    return Gathered(replaced(kept, night), changed)


def tip_of(night: ForgeNight, tasks: Mapping[str, Task]) -> str | None:
    """Return the commit that the branch of a night should have: the newest on the target here."""
    landed = [
        (at, landed_commit(task))
        for id_ in night.tasks
        if (task := tasks.get(id_)) is not None and (at := landed_at(task)) is not None
    ]
    if night.joined is not None:
        landed.append(((night.joined_ms or 0, 0), night.joined))
    return max(landed, default=((0, 0), None))[1]


def wishes_of(night: ForgeNight, tasks: Mapping[str, Task], team: str) -> list[Wish]:
    """Return the writes that are wanted now for a night and were not made."""
    work = night.work
    if work.outcome is not None:
        key = str(work.life)
        # It is tried once: a branch that the forge keeps is no reason to ask for ever.
        ends = work.outcome == "merged" and write_of(work, "delete", key) is None
        wanted = [Wish("delete", key, work.branch)] if ends and work.branch else []
    elif work.person is not None:
        wanted = []
    else:
        wanted = _going(night, tasks, team)
    return [each for each in wanted if not made(work, each.kind, each.key)]


def _going(night: ForgeNight, tasks: Mapping[str, Task], team: str) -> list[Wish]:
    work, tip = night.work, tip_of(night, tasks)
    if tip is None:
        return []
    if work.head != tip:
        return [Wish("push", f"{work.life}:0:{tip}", tip)]
    if work.pull is None:
        return [Wish("pull", str(work.life), work.branch or night_branch(team, night.n))]
    return _answers(night, tasks)


def _answers(night: ForgeNight, tasks: Mapping[str, Task]) -> list[Wish]:
    """Return what is answered: each thing once its task is done and its work is on the branch."""
    wishes: list[Wish] = []
    for fix in night.fixes:
        task, asked = tasks.get(fix.task), fix.asked
        if task is None or asked.target is None or not is_done(task):
            continue
        has_work = task.facts.merge is not None
        if has_work and fix.task not in night.tasks:
            continue
        said = answers_in(task.facts.report, [asked.number])[asked.number]
        if asked.kind == "thread":
            wishes.append(Wish("reply", asked.heard, asked.target, said))
            if has_work:
                wishes.append(Wish("resolve", asked.heard, asked.target))
        elif asked.kind in ("comment", "review"):
            wishes.append(Wish("answer", asked.heard, asked.target, said))
    # What was given up once, because its thread is gone, stays so.
    known = {(each.kind, each.key) for each in night.work.writes if each.state == "dropped"}
    return [each for each in wishes if (each.kind, each.key) not in known]


def answered_by(night: ForgeNight, heard: str, tasks: Mapping[str, Task]) -> str | None:
    """Return which agent did what was asked for."""
    for fix in night.fixes:
        if fix.asked.heard == heard and (task := tasks.get(fix.task)) is not None:
            return task.owner if task.facts.merge is None else task.facts.merge.by
    return None


def begun(night: ForgeNight, wishes: Iterable[Wish], *, now_ms: int) -> ForgeNight:
    """Return the night with these writes due. Pushes that were made long ago are forgotten."""
    work = night.work
    pushes = [each.n for each in work.writes if (each.kind, each.state) != ("push", "due")]
    pushes = [n for n in pushes if outbox_rules.numbered(work, n).kind == "push"]
    old = set(pushes[:-_PUSHES_MAX])
    if old:
        work = work.evolve(writes=[each for each in work.writes if each.n not in old])
    return night.evolve(work=outbox_rules.begun(work, wishes, now_ms=now_ms))


def finished(
    night: ForgeNight, n: int, *, there: str | None, digest: str | None, now_ms: int
) -> ForgeNight:
    """Return the night with a write done, and with what follows from it."""
    was = outbox_rules.numbered(night.work, n)
    work = outbox_rules.finished(night.work, n, there=there, digest=digest, now_ms=now_ms)
    if was.state != "done" and was.kind == "pull" and there is not None:
        work = work.evolve(pull=int(there))
    elif was.state != "done" and was.kind == "push":
        work = work.evolve(head=was.target, branch=there or night.work.branch)
    return night.evolve(work=work)


def dropped(night: ForgeNight, n: int, *, now_ms: int) -> ForgeNight:
    """Return the night with a due write that is not wanted any more."""
    return night.evolve(work=outbox_rules.dropped(night.work, n, now_ms=now_ms))


def shown_in(night: ForgeNight, tasks: Mapping[str, Task]) -> list[Task]:
    """Return the tasks of a night that have to say which pull request they are in."""
    return [
        task.with_facts(forge=work.evolve(pull=night.work.pull, branch=night.work.branch))
        for id_ in night.tasks
        if (task := tasks.get(id_)) is not None
        and (work := task.facts.forge) is not None
        and (work.night, work.outcome) == (night.n, None)
        and (work.pull, work.branch) != (night.work.pull, night.work.branch)
    ]


def rounds_left(night: ForgeNight, settings: ForgeSettings | None) -> bool:
    """Return whether more may be asked of agents: the rounds of each task count together."""
    return night.work.rounds < work_rules.rounds_of(settings) * max(1, len(night.tasks))


def unheard(night: ForgeNight, asked: Iterable[ForgeAsked]) -> list[ForgeAsked]:
    """Return what was not acted on before."""
    known = set(night.work.heard)
    return list({each.heard: each for each in asked if each.heard not in known}.values())


def has_room(night: ForgeNight, fixes: Iterable[Asking]) -> bool:
    """Return whether what is asked for can be remembered, and answered with what is open."""
    asked = [each for fix in fixes for each in fix.asked]
    words = sum(1 + len(each.also) for each in asked)
    written = {each.key for each in night.work.writes}
    open_words = sum(fix.asked.heard not in written for fix in night.fixes)
    is_answerable = outbox_rules.can_answer(night.work, len(asked) + open_words)
    return is_answerable and len(night.work.heard) + words < HEARD_MAX


def asked_for(night: ForgeNight, fixes: Sequence[ForgeFix]) -> ForgeNight:
    """Return the night with what somebody does about it now."""
    said = [word for fix in fixes for word in (fix.asked.heard, *fix.asked.also)]
    heard = list(dict.fromkeys([*night.work.heard, *said]))
    work = night.work.evolve(rounds=night.work.rounds + 1, heard=heard)
    return night.evolve(fixes=[*night.fixes, *fixes], work=work)


def held(night: ForgeNight, why: str) -> ForgeNight:
    """Return the night with the reason why a person has to look. The first reason stays."""
    return night.evolve(work=night.work.evolve(person=night.work.person or why))


def resumed(night: ForgeNight, *, head: str | None) -> ForgeNight:
    """Return the night with new rounds, after a person looked at it.

    Raises:
        Refused: already_resolved, if it is over.
    """
    if night.work.outcome is not None:
        raise Refused(
            f"Night {night.n} is over.",
            reason="already_resolved",
            remedy="What is merged next begins another night.",
        )
    work = night.work.evolve(person=None, rounds=0, head=head or night.work.head)
    return night.evolve(work=work)


def settled(
    night: ForgeNight,
    tasks: Mapping[str, Task],
    outcome: ForgeOutcome,
    *,
    commit: str | None,
    now_ms: int,
) -> tuple[ForgeNight, list[Task]] | None:
    """Return the night after its end, and the tasks that end with it. None if it was over.

    Merged work ends on the forge. If a person refused it, its issues say so: the work is on the
    target here, and only a person can decide what becomes of it.
    """
    work = night.work
    if work.outcome == "merged" or (work.outcome is not None and outcome != "merged"):
        return None
    over = outbox_rules.ended(work, now_ms=now_ms).evolve(outcome=outcome, person=None, asked=None)
    changed: list[Task] = []
    for id_ in night.tasks:
        task = tasks.get(id_)
        on = None if task is None else task.facts.forge
        if task is None or on is None or on.night != night.n or on.outcome is not None:
            continue
        if not is_done(task):
            # A person began it again: it goes to the forge with its next work.
            changed.append(task.with_facts(forge=on.evolve(night=None, pull=None, branch=None)))
        elif outcome == "merged":
            ended = work_rules.settled(task, "merged", commit=commit, why=None, now_ms=now_ms)
            changed += [] if ended is None else [ended]
        else:
            changed.append(task.with_facts(forge=on.evolve(person=refused_text(night, outcome))))
    return night.evolve(work=over), changed


def refused_text(night: ForgeNight, outcome: ForgeOutcome) -> str:
    """Return why a person has to look at work whose pull request ended without a merge."""
    return (
        f"pull request #{night.work.pull} of night {night.n} {_ENDS[outcome]}; its work is still "
        "on the target here"
    )


def _is_in_night(task: Task) -> bool:
    """Return whether the work of a task is in the pull request of a night that is not over."""
    work = task.facts.forge
    return work is not None and work.night is not None and work.outcome is None and is_done(task)


def is_of_night(task: Task, settings: ForgeSettings) -> bool:
    """Return whether what becomes of a task is decided with its night."""
    work = task.facts.forge
    if work is None or _is_in_night(task):
        return work is not None
    merged = settings.pull_request == "night" and landed_at(task) is not None
    return merged and work.pull is None


def is_busy(night: ForgeNight, tasks: Mapping[str, Task], team: str) -> bool:
    """Return whether something is to be written, or somebody does what was asked for."""
    if night.work.outcome is not None or night.work.person is not None:
        return False
    asked = [fix.asked.heard for fix in night.fixes]
    return not ticked_off(night, tasks, asked) or bool(wishes_of(night, tasks, team))


def ticked_off(night: ForgeNight, tasks: Mapping[str, Task], asked: Iterable[str]) -> bool:
    """Return whether the tasks for these words are all done or given up."""
    wanted = set(asked)
    found = [tasks.get(fix.task) for fix in night.fixes if fix.asked.heard in wanted]
    return all(task is None or is_done(task) or task.facts.given_up is not None for task in found)
