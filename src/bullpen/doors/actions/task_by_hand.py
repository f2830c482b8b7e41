"""Tasks from outside a runner: people at a terminal, and agents in their shells.

The same holds for them as for an agent with its tools: checks are run, hooks are asked, and an
agent has nothing run for it that it may not run itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bullpen.agents.config.trust import hooks_of_people
from bullpen.agents.contracts.call import Rights
from bullpen.agents.hooks.commands import HookSet
from bullpen.agents.permissions.decide import rights_of
from bullpen.agents.runner.gate import surroundings
from bullpen.agents.system.secrets import Redactor
from bullpen.agents.work.complete import (
    Proving,
    refuse_added,
    refuse_beyond,
    refuse_outside,
    refuse_without_shell,
)
from bullpen.agents.work.tree_of_task import TreeWork
from bullpen.protocol.agent import AgentFacts, AgentSpec
from bullpen.protocol.request import Voice
from bullpen.protocol.task import Check, Task
from bullpen.team.lookup import member_of, owner_of
from bullpen.team.team import Team


@dataclass(frozen=True, slots=True)
class CheckRunner:
    """Where checks are run for somebody who has no desk."""

    spec: AgentSpec
    env: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TaskCommands:
    """What one command does about tasks. `warn` hears of hooks that did not work."""

    team: Team
    by: str
    voice: Voice
    cwd: str
    env: Mapping[str, str]
    warn: Callable[[str], object]
    hooks: HookSet
    # Of an agent. A person may state any check.
    spec: AgentSpec | None = None
    rights: Rights | None = None

    async def add(self, subject: str, *, checks: Sequence[Check] = (), **words: Any) -> Task:
        """Add a task, unless a hook refuses it. The words are those that `tasks.add` takes.

        Raises:
            Refused: an agent states a check that it may not (denied), hook_refused, or whatever
                `tasks.add` refuses.
        """
        await self._refuse_checks(checks)
        # An agent could not remove a task of another if a hook refuses it.
        owner = words.pop("owner", None) if self.spec is not None else None
        if owner is not None:
            member_of(await self.team.agents.config(), owner)
        task = await self.team.tasks.add(subject, by=self.by, checks=checks, **words)
        await self.created(task)
        if owner is not None:
            task = await self.team.tasks.assign(task.id, owner, by=self.by)
        return task

    async def created(self, task: Task) -> None:
        """Tell the hooks of a task that was added; it is removed again if one refuses.

        Raises:
            Refused: hook_refused.
        """
        why = await self._asked("TaskCreated", task)
        if why is not None:
            await refuse_added(self.team, task, why, by=self.by, voice=self.voice)

    async def restate(self, task_id: str, checks: list[Check]) -> Task:
        """Let other checks prove a task done, in place of those it has.

        Raises:
            Refused: they are not this one's to change (checks_fixed), or as in `add`.
        """
        await self._refuse_checks(checks)
        return await self.team.tasks.restate(task_id, checks, by=self.by, voice=self.voice)

    async def proving(
        self, task_id: str, *, cwd: str | None, tell: Callable[[Check], object]
    ) -> Proving:
        """What it takes to check or complete a task.

        Its checks are run in `cwd`, else where the agent works that owns it, else here; and in
        the sandbox of that agent, which made what is looked at.
        """
        task = await self.team.tasks.get(task_id)
        config = await self.team.agents.config()
        owner = owner_of(task, config.name)
        member = None if owner is None else config.member(owner)
        agent = None if member is None else member.agent
        if agent is None:
            spec = AgentSpec.new(driver="none", backend="none", cwd=cwd or self.cwd)
        else:
            spec = agent.spec.evolve(cwd=cwd) if cwd else agent.spec
        return Proving(
            self.team,
            self.by,
            CheckRunner(spec, self.env),
            lambda found: self._asked("TaskCompleted", found),
            Redactor(self.env, spec.env_asked).text,
            tell,
            None if owner is None else TreeWork(self.team, owner, spec),
            self.voice,
        )

    async def _refuse_checks(self, checks: Sequence[Check]) -> None:
        if self.spec is not None and self.rights is not None:
            refuse_outside(checks)
            refuse_without_shell(self.spec, checks)
            await refuse_beyond(self.rights, checks)

    async def _asked(self, event: str, task: Task) -> str | None:
        """Why the hooks refuse, if they do."""
        if not self.hooks.has(event):
            return None
        payload = {
            "cwd": self.cwd,
            "hook_event_name": event,
            "task_id": task.id,
            "task_subject": task.subject,
            "task_description": task.description,
            "teammate_name": self.by,
            "team_name": self.team.name,
            "team": self.team.name,
            "agent": self.by,
            "task": task.id,
            "attempt": task.facts.attempt,
        }
        env = {**self.env, "BULLPEN_TEAM": self.team.name, "BULLPEN_AGENT": self.by}
        verdict = await self.hooks.run(event, payload, cwd=self.cwd, env=env)
        for trouble in verdict.troubles:
            self.warn(trouble)
        return verdict.refused


async def got_ready(team: Team, by: str, task: Task) -> str | None:
    """Get the tree of an agent ready for a task that it took in its shell; what it must know.

    Raises:
        Refused, Unavailable: it could not be done, and the task is given back.
    """
    member = (await team.agents.config()).member(by)
    agent = None if member is None else member.agent
    return None if agent is None else await TreeWork(team, by, agent.spec).begin(task)


def task_door(
    team: Team,
    *,
    by: str,
    cwd: str,
    env: Mapping[str, str],
    home: Path,
    warn: Callable[[str], object],
    agent: AgentFacts | None,
) -> TaskCommands:
    """The door of a person or, with `agent`, of an agent that works in its shell.

    The hooks of an agent are those it was spawned with, of a person those of the files here.

    Raises:
        Unreadable, Invalid: a file of settings cannot be used.
    """
    # Checks that are closed in must not see the teams, wherever these are.
    env = {**env, "BULLPEN_HOME": str(home)}
    around = surroundings(home, env)
    if agent is None:
        hooks = hooks_of_people(Path(cwd), user_home=Path(around.user_home), home=home)
        return TaskCommands(team, by, "human", cwd, env, warn, hooks)
    rights = rights_of(agent, user_home=around.user_home, private=(around.home,))
    hooks = HookSet.of(agent.spec.hooks)
    return TaskCommands(team, by, "agent", cwd, env, warn, hooks, agent.spec, rights)
