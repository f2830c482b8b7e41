"""Say for whom a process speaks: the nearest launch above it, whatever its environment says.

A launch is found by the recorded owner of a process, by the process in which an agent is recorded
to run, and by the nonce that a process carries. The first two decide. A nonce in the environment
can be set by the process itself: it can only make a process nobody's, never another agent's.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from bullpen.agents.contracts.backend import NONCE
from bullpen.agents.system import process_owners, process_table, processes
from bullpen.agents.system.orphans import KEPT_BELOW
from bullpen.agents.system.process_owners import NOBODY, SHARED
from bullpen.errors import Refused
from bullpen.protocol.agent import AgentFacts
from bullpen.protocol.team import TeamConfig

UNKNOWN = ""
"""A launch that is certainly there, but not which one."""


def agent_here(
    team: TeamConfig, environ: Mapping[str, str], *, others: Iterable[TeamConfig] = ()
) -> str | None:
    """The agent of a team that this process belongs to; None if it is a person's.

    `others` are further teams whose agents may have started this process. Raises Refused if it
    belongs to an agent that is not in this team, or to one that cannot be told.
    """
    found = launches_above([team, *others], environ)
    if not found:
        return None
    nearest = found[0]
    for member in team.roster:
        if nearest and member.agent is not None and member.agent.nonce == nearest:
            return member.name
    raise Refused(
        f"An agent started this process, and cannot act as another member of {team.name!r}.",
        reason="other_identity",
        remedy="Do not change the environment variables of the agent.",
    )


def is_of_an_agent(teams: Iterable[TeamConfig], environ: Mapping[str, str]) -> bool:
    """Whether this process belongs to an agent of any team."""
    return bool(launches_above(teams, environ))


def launches_above(teams: Iterable[TeamConfig], environ: Mapping[str, str]) -> list[str]:
    """The nonces of the launches that this process is in, nearest first; empty for a person's.

    A launch that cannot be told is UNKNOWN.
    """
    agents = [each.agent for team in teams for each in team.roster if each.agent is not None]
    places = _places(agents)
    recorded = process_owners.owners()
    found: list[str] = []
    # The nearest nonce that the environment of a process claims and nothing has confirmed.
    claimed = environ.get(NONCE) or None
    own = processes.look(os.getpid())
    line = [] if own is None else [own, *processes.ancestors(own.pid)]
    for row in line:
        claimed = claimed or process_table.mark_of(row.pid)
        owner = recorded.of(row) or places.get((row.pid, row.start))
        if owner == NOBODY:
            break
        # A process in which agents run may be a person's, such as `bullpen run`.
        if owner is None or (owner == SHARED and row is own):
            continue
        launch = owner if owner != SHARED and claimed in (None, owner) else UNKNOWN
        if found[-1:] != [launch]:
            found.append(launch)
        claimed = None
    if claimed is not None and not found:
        found.append(UNKNOWN if _runs_elsewhere(claimed, agents) else claimed)
    return found


def _places(agents: Iterable[AgentFacts]) -> dict[tuple[int, str], str]:
    """The nonce of the agent that is recorded to run in each process; SHARED for several."""
    found: dict[tuple[int, str], str] = {}
    for agent in agents:
        place = agent.process
        if place is None or place.pid is None or place.start is None:
            continue
        at = place.pid, place.start
        # Inside another process, agents run beside each other.
        alone = place.backend != "in-process" and found.get(at, agent.nonce) == agent.nonce
        found[at] = agent.nonce if alone else SHARED
    return found


def _runs_elsewhere(nonce: str, agents: Iterable[AgentFacts]) -> bool:
    """Whether a launch runs on this machine in a process that is not above this one.

    Where orphans stay below their launch, nothing of that launch is outside of it.
    """
    places = [agent.process for agent in agents if agent.nonce == nonce]
    return KEPT_BELOW and any(
        place.pid is not None
        and place.start is not None
        and processes.is_alive(place.pid, place.start)
        for place in places
        if place is not None
    )
