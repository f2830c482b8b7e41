"""What goes to the forge when our own merge queue merges: the branch, then the target. Pure.

The branch of a pull request gets the commit that is on the target, so that the forge shows it as
merged.
"""

from __future__ import annotations

from collections.abc import Iterable

from bullpen.protocol.forge import ForgeSettings
from bullpen.protocol.task import Merge, Task
from bullpen.team.forge.outbox_rules import Wish, made, push_of


def landed_by_queue(task: Task, settings: ForgeSettings) -> Merge | None:
    """Return the record of work that our queue merged and that has not ended on the forge."""
    work, record = task.facts.forge, task.facts.merge
    if settings.merge != "queue" or work is None or work.outcome is not None or record is None:
        return None
    if work.night is not None:
        return None
    is_open = work.pull is not None and record.state == "merged" and record.landed is not None
    return record if is_open else None


def landing_push(task: Task, settings: ForgeSettings) -> list[Wish]:
    """Return the push that gives a pull request the commit that is on the target."""
    work, record = task.facts.forge, landed_by_queue(task, settings)
    if work is None or record is None or record.landed is None or work.head == record.landed:
        return []
    wish = push_of(work, record.attempt, record.landed)
    return [] if made(work, wish.kind, wish.key) else [wish]


def lands_target(task: Task, settings: ForgeSettings) -> str | None:
    """Return the commit to push to the target, once the pull request has it."""
    work, record = task.facts.forge, landed_by_queue(task, settings)
    is_there = work is not None and record is not None and work.head == record.landed
    return record.landed if is_there and record is not None else None


def is_shown(tasks: Iterable[Task]) -> bool:
    """Return whether all work that our queue would merge now has its pull request."""
    works = [(task.facts.forge, task.facts.merge) for task in tasks]
    return all(
        work is not None and (work.pull is not None or work.person is not None)
        for work, record in works
        if record is not None and record.state == "queued"
    )
