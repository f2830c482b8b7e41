"""Review the work of a task before it is completed.

What is reviewed is everything in the place where its owner works, committed or not. The reviewer is
started by `bullpen.runs.review`, in a directory and a team of its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from anyio import to_thread

from bullpen.agents.system.run_command import Workplace
from bullpen.by_name import load
from bullpen.errors import Refused
from bullpen.protocol.agent import Workspace
from bullpen.protocol.clock import iso
from bullpen.protocol.request import Voice
from bullpen.protocol.task import Check, Task
from bullpen.team.lookup import owner_of
from bullpen.team.tasks.reviews.rules import park_reason, pending_for, refuse_waiting
from bullpen.team.team import Team
from bullpen.workspace.git.run_git import Git
from bullpen.workspace.handover.commit_work import base_of
from bullpen.workspace.handover.hand_in import Handed
from bullpen.workspace.handover.reviewed_work import Span, work_in
from bullpen.workspace.trees.changes import commit_at
from bullpen.workspace.trees.current_task import at_of

# It starts agents, so it is above everything that agents are made of.
_OF_TASK = "bullpen.runs.review.of_task"


async def review(
    team: Team,
    place: Workplace,
    task: Task,
    check: Check,
    *,
    by: str,
    voice: Voice,
    found: Sequence[Check],
    redact: Callable[[str], str],
) -> Check:
    """Return a review with its result. If another check failed, nobody is asked.

    Raises:
        Unavailable: it could not be reviewed, which is never an approval.
        Refused: same_reviewer, or there is no git repository.
    """
    if any(each.passed is not True for each in found):
        return check.evolve(passed=False, detail="not reviewed, because another check failed")
    span = await to_thread.run_sync(_span, team.name, place, task, by)
    of_task = load(f"{_OF_TASK}:TaskReview")(
        team, task, check, by, dict(os.environ), redact, voice=voice, found=found
    )
    reviewed: Check = await of_task.run(span)
    return reviewed


def _span(team: str, place: Workplace, task: Task, by: str) -> Span:
    """Return the work of a task, where its owner works."""
    tree = place.spec.own_tree
    if tree is not None:
        agent = owner_of(task, team) or by
        base = partial(_base_in_own_tree, tree, team, agent)
        return work_in(Path(tree.path), base)
    claimed_ms = task.facts.claimed_ms

    def base_in_checkout(git: Git, head: str) -> str:
        # Others may work here too: their changes since then are reviewed with it.
        return (None if claimed_ms is None else commit_at(git.where, iso(claimed_ms))) or head

    return work_in(Path(place.spec.cwd), base_in_checkout)


def _base_in_own_tree(tree: Workspace, team: str, agent: str, git: Git, head: str) -> str:
    return base_of(git, tree, at_of(git, team, agent), head)


async def refuse_undecided(team: Team, task: Task, *, by: str, voice: Voice) -> None:
    """Refuse to complete a task while a person decides about its review.

    It then waits without its owner, so that nobody tries for ever. Raises Refused: review_waits.
    """
    if not task.facts.reviews:
        return
    request = pending_for(task, (await team.approvals.all()).values())
    if request is None:
        return
    if voice == "agent":
        await team.tasks.give_up(task.id, by=by, reason=park_reason(request))
    raise refuse_waiting(task, request)


async def refuse_changed(team: Team, task: Task, handed: Handed, place: Workplace) -> None:
    """Refuse work that is not what was reviewed. Raises Refused: checks_failed."""
    tree = place.spec.own_tree
    if tree is None or all(check.kind != "review" for check in task.facts.checks):
        return
    span = Span(Path(tree.path), handed.work.base, handed.work.commit)
    names = await load(f"{_OF_TASK}:not_approved")(team, task.id, span)
    if names:
        raise Refused(
            f"Task {task.id!r} is not done: its work changed after its review ({names[0]}).",
            reason="checks_failed",
            remedy="Leave the files alone and complete the task again: it is reviewed again.",
        )
