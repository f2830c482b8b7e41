"""Checking and completing tasks from outside a runner."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bullpen.agents.work.proving import Proving
from bullpen.by_name import load
from bullpen.doors.actions.task_by_hand import TaskCommands
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.task import Check
from bullpen.team.lookup import owner_of
from bullpen.team.team import Team

if TYPE_CHECKING:
    from bullpen.agents.work.tree_of_task import TreeWork


@dataclass(frozen=True, slots=True)
class CheckRunner:
    """Where checks are run for somebody who has no desk."""

    spec: AgentSpec
    env: Mapping[str, str]


async def proving(
    door: TaskCommands, task_id: str, *, cwd: str | None, tell: Callable[[Check], object]
) -> Proving:
    """What it takes to check or complete a task.

    Its checks are run in `cwd`, else where the agent works that owns it, else here; and in the
    sandbox of that agent, which made what is looked at.
    """
    task = await door.team.tasks.get(task_id)
    config = await door.team.agents.config()
    owner = owner_of(task, config.name)
    member = None if owner is None else config.member(owner)
    agent = None if member is None else member.agent
    if agent is None:
        spec = AgentSpec.new(driver="none", backend="none", cwd=cwd or door.cwd)
    else:
        spec = agent.spec.evolve(cwd=cwd) if cwd else agent.spec
    return Proving(
        door.team,
        door.by,
        CheckRunner(spec, door.env),
        door.completed,
        lambda text: _redacted(text, door.env, spec),
        tell,
        None if owner is None or spec.own_tree is None else _tree_work(door.team, owner, spec),
        door.voice,
    )


def _redacted(text: str, env: Mapping[str, str], spec: AgentSpec) -> str:
    """What a check printed, without the secrets of its environment."""
    redacted: str = load("bullpen.agents.system.secrets:Redactor")(env, spec.env_asked).text(text)
    return redacted


def _tree_work(team: Team, owner: str, spec: AgentSpec) -> TreeWork:
    work: TreeWork = load("bullpen.agents.work.tree_of_task:TreeWork")(team, owner, spec)
    return work
