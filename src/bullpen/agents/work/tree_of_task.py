"""Prepare an agent's worktree for each task, and hand in the work with the task.

This matters only in a team that merges; elsewhere people take the work from the worktree.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

from anyio import to_thread

from bullpen.agents.system import processes
from bullpen.errors import BullpenError, Refused
from bullpen.protocol.agent import AgentSpec, Workspace
from bullpen.protocol.request import Request
from bullpen.protocol.task import Task
from bullpen.protocol.team import MergeSettings, TeamConfig
from bullpen.team.tasks import guarded_rules
from bullpen.team.tasks.guarded_rules import guard_of
from bullpen.team.tasks.stall_rules import NOT_READY
from bullpen.team.team import Team
from bullpen.workspace.git.run_git import Git
from bullpen.workspace.handover.hand_in import Handed, NeedsPerson, begin, hand_in
from bullpen.workspace.snapshots.save import save
from bullpen.workspace.trees.current_task import at_of
from bullpen.workspace.trees.occupants import in_use


class TreeWork:
    """Prepares the worktree of one agent, and hands in its work."""

    def __init__(self, team: Team, agent: str, spec: AgentSpec) -> None:
        self._team = team
        self._agent = agent
        self._tree = spec.own_tree

    async def begin(self, task: Task) -> str | None:
        """Prepare the worktree: the newest target, with earlier work on this task.

        Saves the work of a former owner that is gone. Returns what the agent has to know; None if
        there is nothing to prepare. Raises Refused or Unavailable after it gave the task back;
        nothing is lost.
        """
        settings = None if self._tree is None else await self._team.merges.settings()
        if self._tree is None or settings is None:
            return None
        config = await self._team.agents.config()
        try:
            return await to_thread.run_sync(self._begin, self._tree, task, settings, config)
        except BullpenError as error:
            why = f"the worktree of {self._agent} {NOT_READY}: {error.message}"
            # If the task has another owner by now, there is nothing to give back.
            with suppress(Refused):
                await self._team.tasks.release(task.id, by=self._agent, reason=why)
            raise

    def _begin(
        self, tree: Workspace, task: Task, settings: MergeSettings, config: TeamConfig
    ) -> str:
        note = begin(tree, task, settings, team=self._team.name, agent=self._agent)
        words = (
            f"Your worktree is {tree.path}, on branch {tree.branch}. When you complete the task,"
            f" everything in it is handed in, committed or not, and merged into {settings.target}."
        )
        left = list(left_behind(config, task, by=self._agent))
        return "\n".join([words, *([] if note is None else [note]), *left])

    async def hand_in(self, task: Task) -> Handed | None:
        """Save the work of a task for the merge queue; None if there is none.

        Raises Refused, with the reason guarded_paths if a person must approve the work first.
        """
        settings = None if self._tree is None else await self._team.merges.settings()
        if self._tree is None or settings is None:
            return None
        config = await self._team.agents.config()
        requests = list((await self._team.approvals.all()).values())
        guard = guard_of(config, requests)
        made = partial(
            hand_in,
            self._tree,
            task,
            team=self._team.name,
            agent=self._agent,
            author=settings.author,
            guard=guard,
            promised=await self._team.promises.promised(),
        )
        try:
            return await to_thread.run_sync(made)
        except NeedsPerson as error:
            raise await self._asked(task, error, requests) from None

    async def _asked(self, task: Task, found: NeedsPerson, requests: list[Request]) -> Refused:
        """Ask a person to approve the work of a task. Returns the refusal until then.

        Work that is handed in again before a person approved it waits without its owner, so that
        nobody tries for ever.
        """
        guarded_rules.refuse_too_many(found.changes)
        request = guarded_rules.asked_before(found.changes, requests)
        parked = request is not None
        if request is None:
            given = guarded_rules.request_input(
                task.id, found.changes, diff=found.diff, look=found.look
            )
            names = guarded_rules.named(found.changes)
            request = await self._team.approvals.ask_permission(
                guarded_rules.TOOL,
                given,
                by=self._agent,
                description=f"task #{task.id} changes files that other programs run or obey:"
                f" {names}",
                approver="human",
            )
        else:
            reason = guarded_rules.park_reason(request)
            await self._team.tasks.give_up(task.id, by=self._agent, reason=reason)
        return guarded_rules.refusal(task.id, found.changes, request, parked=parked)


def left_behind(config: TeamConfig, task: Task, *, by: str) -> Iterator[str]:
    """Save the work of former owners of a task that are gone; yields a sentence for each."""
    for member in config.roster:
        agent = None if member.name == by else member.agent
        tree = None if agent is None else agent.spec.own_tree
        if agent is None or tree is None or agent.phase != "ended":
            continue
        elsewhere = agent.process is not None and agent.process.host != processes.host_name()
        if elsewhere or not Path(tree.path, ".git").exists():
            continue
        try:
            at = at_of(Git(Path(tree.path)), config.name, member.name)
            if at is None or at.task != task.id or in_use(Path(tree.path)):
                continue
            why = f"{by} took over task {task.id}"
            saved = save(
                Path(tree.path), team=config.name, agent=member.name, why=why, task=task.id
            )
        except BullpenError as error:
            yield (
                f"{member.name} had this task before. Its work is in {tree.path}, but could not be"
                f" saved: {error.message}"
            )
            continue
        if saved is not None:
            yield (
                f"{member.name} had this task before and is gone. Its work is saved as {saved.ref}"
                f" in {tree.repository}: look at it with git show."
            )
