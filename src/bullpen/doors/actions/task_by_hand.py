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
from bullpen.agents.hooks.hook_set import HookSet, HookVerdict
from bullpen.by_name import load
from bullpen.protocol.agent import AgentFacts
from bullpen.protocol.request import Voice
from bullpen.protocol.task import Check, Task
from bullpen.team.lookup import member_of
from bullpen.team.tasks.drafts import Draft
from bullpen.team.team import Team


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
    # A person may state any check, an agent only what it may run itself.
    agent: AgentFacts | None = None

    async def add(self, subject: str, *, checks: Sequence[Check] = (), **words: Any) -> Task:
        """Add a task, unless a hook refuses it. The words are those that `tasks.add` takes.

        Raises:
            Refused: an agent states a check that it may not (denied), hook_refused, or whatever
                `tasks.add` refuses.
        """
        await self._refuse_checks(checks)
        # An agent could not remove a task of another if a hook refuses it.
        owner = words.pop("owner", None) if self.agent is not None else None
        if owner is not None:
            member_of(await self.team.agents.config(), owner)
        task = await self.add_draft(Draft(subject, checks=checks, **words))
        if owner is not None:
            task = await self.team.tasks.assign(task.id, owner, by=self.by)
        return task

    async def add_draft(self, draft: Draft) -> Task:
        """Add a task, unless a hook refuses it.

        Raises:
            Refused: hook_refused, or whatever `tasks.add` refuses.
        """
        if not self.hooks.has("TaskCreated"):
            return (await self.team.tasks.add_many([draft], by=self.by))[0]
        add_task = load("bullpen.agents.work.add_task:add_task")
        task: Task = await add_task(self.team, draft, self._may_add, by=self.by, voice=self.voice)
        return task

    async def _may_add(self, task: Task) -> str | None:
        return await self._asked("TaskCreated", task)

    async def completed(self, task: Task) -> str | None:
        """Why the hooks refuse that a task is done, if they do."""
        return await self._asked("TaskCompleted", task)

    async def restate(self, task_id: str, checks: list[Check]) -> Task:
        """Let other checks prove a task done, in place of those it has.

        Raises:
            Refused: they are not this one's to change (checks_fixed), or as in `add`.
        """
        await self._refuse_checks(checks)
        return await self.team.tasks.restate(task_id, checks, by=self.by, voice=self.voice)

    async def _refuse_checks(self, checks: Sequence[Check]) -> None:
        if self.agent is not None and checks:
            refuse = load("bullpen.doors.actions.agents_checks:refuse_checks")
            await refuse(self.agent, checks, self.env)

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
        run_hooks = load("bullpen.agents.hooks.commands:run_hooks")
        verdict: HookVerdict = await run_hooks(self.hooks, event, payload, cwd=self.cwd, env=env)
        for trouble in verdict.troubles:
            self.warn(trouble)
        return verdict.refused


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
    if agent is None:
        user_home = Path(env.get("HOME") or "/")
        hooks = hooks_of_people(Path(cwd), user_home=user_home, home=home)
        return TaskCommands(team, by, "human", cwd, env, warn, hooks)
    return TaskCommands(team, by, "agent", cwd, env, warn, HookSet.of(agent.spec.hooks), agent)
