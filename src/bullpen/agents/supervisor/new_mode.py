"""Change the permission mode of an agent that may be running."""

from __future__ import annotations

from functools import partial

from anyio import to_thread

from bullpen.agents.config.spec import NO_PROJECT_SETTINGS, SpawnFiles
from bullpen.agents.drivers.registry import check_new_mode
from bullpen.protocol.agent import AgentFacts
from bullpen.protocol.request import Voice
from bullpen.team.requests.mode_change import known_mode
from bullpen.team.team import Team


async def change_mode(
    team: Team, files: SpawnFiles, name: str, mode: str, *, by: str, voice: Voice
) -> AgentFacts:
    """Give an agent another mode, which counts from its next tool call on.

    Raises:
        Refused: a settings file disables it (mode_disabled), the agent's program cannot change to
            it while it runs (fixed_mode), or `by` may not give it: see `modes.change`.
        Invalid: there is no such mode, or the agent's driver cannot enforce it.
    """
    asked = known_mode(mode)
    _, agent = await team.agents.get(name)
    check_new_mode(agent, asked)
    project = NO_PROJECT_SETTINGS not in agent.spec.options
    read = partial(files.settings, agent.spec.cwd, project=project)
    (await to_thread.run_sync(read)).refuse_mode(asked)
    return await team.modes.change(name, asked, by=by, voice=voice)


def mode_told(name: str, agent: AgentFacts) -> str:
    """What whoever changed a mode is told."""
    since = "when it starts again" if agent.phase == "ended" else "from its next tool call on"
    return f"{name} is in mode {agent.mode} {since}."
