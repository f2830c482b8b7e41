"""What is to be written to a forge for a task, as its records are now. Pure.

Whoever writes begins these wishes with `team.forge.begin`, in this order. All but merging and
answers are here: `way_back` says when to merge, and a push makes the answers due.
"""

from __future__ import annotations

from bullpen.protocol.forge import ForgeSettings, ForgeWork
from bullpen.protocol.task import Task
from bullpen.protocol.team import MergeSettings
from bullpen.team.forge.outbox_rules import Wish, made, push_of
from bullpen.team.forge.work_rules import is_returnable, work_or_new
from bullpen.team.tasks.merge_rules import must_pass, proven_on


def wishes_of(
    task: Task, settings: ForgeSettings, branch: str, merge: MergeSettings | None = None
) -> list[Wish]:
    """Return the writes that are wanted now and were not made. `branch` is the task's own.

    With `merge`, work that the forge merges goes there only after its checks and the merge gate
    have passed on the target with it.
    """
    if task.facts.forge is None and not is_returnable(task):
        return []
    work = work_or_new(task, settings)
    wanted = [
        *_first(work),
        *(
            _going(task, work, settings, branch)
            if work.outcome is None and not is_untested(task, settings, merge)
            else ()
        ),
    ]
    if work.outcome is not None:
        wanted += _ending(work, settings, branch)
    return [each for each in wanted if not made(work, each.kind, each.key)]


def is_untested(task: Task, settings: ForgeSettings, merge: MergeSettings | None) -> bool:
    """Return whether work has to pass on the target before the forge may get it."""
    if settings.merge != "forge" or not is_returnable(task):
        return False
    return must_pass(task, merge) and proven_on(task, merge) is None


def _first(work: ForgeWork) -> list[Wish]:
    return [] if work.issue is None else [Wish("state", "state", str(work.issue))]


def _going(task: Task, work: ForgeWork, settings: ForgeSettings, branch: str) -> list[Wish]:
    handed_in = task.facts.merge
    if not is_returnable(task) or handed_in is None or work.person is not None:
        return []
    if settings.pull_request == "night" and work.pull is None:
        # Our queue merges it here, and the pull request of the night has it.
        return []
    if (work.attempt, work.head) != (handed_in.attempt, handed_in.commit) and not (
        work.attempt == handed_in.attempt and work.pull is not None
    ):
        return [push_of(work, handed_in.attempt, handed_in.commit)]
    return [Wish("pull", str(work.life), branch)] if work.pull is None else []


def _ending(work: ForgeWork, settings: ForgeSettings, branch: str) -> list[Wish]:
    life, wanted = str(work.life), list[Wish]()
    unmerged = work.outcome == "issue_closed" or settings.merge == "queue"
    if work.pull is not None and work.night is None and unmerged:
        wanted.append(Wish("close_pull", life, str(work.pull)))
    if work.outcome == "merged" and work.issue is not None:
        wanted.append(Wish("close", life, str(work.issue)))
    if work.outcome in ("merged", "issue_closed") and work.head is not None:
        wanted.append(Wish("delete", life, work.branch or branch))
    return wanted
