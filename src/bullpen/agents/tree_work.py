"""The tasks of an agent in a tree of its own: it is got ready for each, and handed in with it.

It matters only in a team that merges; elsewhere what an agent does in its tree is for people.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

from anyio import to_thread

from bullpen.agents import processes
from bullpen.errors import BullpenError, Refused
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.merge import MergeSettings
from bullpen.protocol.roster import TeamConfig
from bullpen.protocol.task import Task
from bullpen.protocol.workspace import Workspace
from bullpen.team.stall_rules import NOT_READY
from bullpen.team.team import Team
from bullpen.workspace.git import Git
from bullpen.workspace.handing import Handed, begin, hand_in
from bullpen.workspace.living import in_use
from bullpen.workspace.snapshots import save
from bullpen.workspace.whereabouts import at_of


class TreeWork:
    """The work of one agent, as it goes into its tree and out of it."""

    def __init__(self, team: Team, agent: str, spec: AgentSpec) -> None:
        self._team = team
        self._agent = agent
        self._tree = spec.own_tree

    async def begin(self, task: Task) -> str | None:
        """Have nothing in the tree but the newest target, and what was done for this task before.

        What somebody else left in another tree, who had the task and is gone, is saved. Returns
        what its agent must know; None if there is nothing to be got ready.

        Raises:
            Refused, Unavailable: it could not be done, and the task is given back; what the tree
                holds is not lost.
        """
        settings = None if self._tree is None else await self._team.merges.settings()
        if self._tree is None or settings is None:
            return None
        config = await self._team.agents.config()
        try:
            return await to_thread.run_sync(self._begin, self._tree, task, settings, config)
        except BullpenError as error:
            why = f"the tree of {self._agent} {NOT_READY}: {error.message}"
            # If it is somebody else's by now, nothing has to be given back.
            with suppress(Refused):
                await self._team.tasks.release(task.id, by=self._agent, reason=why)
            raise

    def _begin(
        self, tree: Workspace, task: Task, settings: MergeSettings, config: TeamConfig
    ) -> str:
        note = begin(tree, task, settings, team=self._team.name, agent=self._agent)
        words = (
            f"Your tree is {tree.path}, on the branch {tree.branch}. Commit or not: what is in it"
            f" when you complete the task is handed in, and merged into {settings.target} in turn."
        )
        left = list(left_behind(config, task, by=self._agent))
        return "\n".join([words, *([] if note is None else [note]), *left])

    async def hand_in(self, task: Task) -> Handed | None:
        """Keep what was done for a task, to be merged in turn; None if there is nothing to merge.

        Raises:
            Refused: it is not fit to be merged, for example because it holds conflicts.
            Unavailable: it could not be done.
        """
        if self._tree is None or await self._team.merges.settings() is None:
            return None
        made = partial(hand_in, self._tree, task, team=self._team.name, agent=self._agent)
        return await to_thread.run_sync(made)


def left_behind(config: TeamConfig, task: Task, *, by: str) -> Iterator[str]:
    """Save what others left in their trees who had a task before and are gone; a sentence each."""
    for member in config.roster:
        agent = None if member.name == by else member.agent
        tree = None if agent is None else agent.asked.own_tree
        if agent is None or tree is None or agent.phase != "ended":
            continue
        elsewhere = agent.place is not None and agent.place.host != processes.host_name()
        if elsewhere or not Path(tree.path, ".git").exists():
            continue
        try:
            at = at_of(Git(Path(tree.path)), config.name, member.name)
            if at is None or at.task != task.id or in_use(Path(tree.path)):
                continue
            why = f"{by} took over task #{task.id}"
            saved = save(Path(tree.path), team=config.name, agent=member.name, why=why)
        except BullpenError as error:
            yield (
                f"{member.name} had this task before. What it left is in {tree.path}; it could not"
                f" be saved: {error.message}"
            )
            continue
        if saved is not None:
            yield (
                f"{member.name} had this task before and is gone. What it left is saved as"
                f" {saved.ref} in {tree.repository}: look at it with git show."
            )
