"""Whether an agent can do something now with what a person tells it."""

from __future__ import annotations

import shlex

from anyio import to_thread

from bullpen.agents.system import processes
from bullpen.errors import BullpenError
from bullpen.protocol.agent import AgentFacts
from bullpen.team.team import Team


async def absent(team: Team, name: str, *, told: str) -> str | None:
    """Return what to do if an agent does not run; None if it does, or nobody knows.

    `told` is what it does nothing with now, such as "your answer".
    """
    try:
        _, agent = await team.agents.get(name)
        place = agent.process
        gone = agent.phase == "ended" or (
            agent.phase == "running"
            and place is not None
            and not await to_thread.run_sync(processes.runs, place)
        )
    except BullpenError:
        # It is no agent of ours, or it runs on another machine.
        return None
    if not gone:
        return None
    return (
        f"{name} is not running, so it does nothing with {told} now."
        f" Start it again: bullpen team resume {team.name}{_alone(name, agent)}"
    )


def _alone(name: str, agent: AgentFacts) -> str:
    """Return the option that names an agent, if it is resumed only by its name."""
    by_name = agent.end in ("stopped", "finished") and agent.at_limit is None
    return f" --agent {shlex.quote(name)}" if by_name else ""
