"""Who speaks from a process: a person, or an agent, also one that hides that it is one.

An agent's programs carry the nonce of its launch. One that takes the variable out of its
environment is still a child of a process that has it, or of the process in which the agent works.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from bullpen.agents import processes
from bullpen.agents.backends.base import NONCE
from bullpen.errors import Refused
from bullpen.protocol.roster import TeamConfig


def agent_here(
    team: TeamConfig, environ: Mapping[str, str], *, others: Iterable[TeamConfig] = ()
) -> str | None:
    """The agent of a team to which this process belongs; None if it is a person's.

    `others` are more teams whose agents this process may come from.

    Raises:
        Refused: it belongs to an agent, but to none that could speak in this team
            (other_identity).
    """
    nonces = _nonces(environ)
    for member in team.roster:
        if member.agent is not None and member.agent.nonce in nonces:
            return member.name
    if nonces or _is_below([team, *others]):
        raise Refused(
            f"This process was started by an agent, which cannot speak as another in team"
            f" {team.name!r}.",
            reason="other_identity",
            remedy="Leave its environment as it is: then it speaks as that agent.",
        )
    return None


def is_of_an_agent(teams: Iterable[TeamConfig], environ: Mapping[str, str]) -> bool:
    """Whether this process belongs to an agent, of these teams or any other."""
    return bool(_nonces(environ)) or _is_below(teams)


def _nonces(environ: Mapping[str, str]) -> set[str]:
    """The nonces of the launches that this process belongs to; a person's has none."""
    marked = processes.marked()
    line = [os.getpid(), *(row.pid for row in processes.ancestors(os.getpid()))]
    return {nonce for nonce in (environ.get(NONCE), *map(marked.get, line)) if nonce}


def _is_below(teams: Iterable[TeamConfig]) -> bool:
    """Whether an agent works in a process from which this one descends."""
    above = {(row.pid, row.start) for row in processes.ancestors(os.getpid())}
    agents = [member.agent for team in teams for member in team.roster if member.agent is not None]
    places = [agent.place for agent in agents if agent.place is not None]
    return any((place.pid, place.start) in above for place in places)
