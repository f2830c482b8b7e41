"""Find out whether a process belongs to a person or to an agent, even one that hides it.

An agent's processes carry the nonce of its launch. A process that removes the variable from its
environment still has an ancestor that carries it, or in which the agent runs.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from bullpen.agents.contracts.backend import NONCE
from bullpen.agents.system import processes
from bullpen.errors import Refused
from bullpen.protocol.team import TeamConfig


def agent_here(
    team: TeamConfig, environ: Mapping[str, str], *, others: Iterable[TeamConfig] = ()
) -> str | None:
    """The agent of a team that this process belongs to; None if it is a person's.

    `others` are further teams whose agents may have started this process. Raises Refused if it
    belongs to an agent that is not in this team.
    """
    nonces = _nonces(environ)
    for member in team.roster:
        if member.agent is not None and member.agent.nonce in nonces:
            return member.name
    if nonces or _is_below([team, *others]):
        raise Refused(
            f"An agent started this process, and cannot act as another member of {team.name!r}.",
            reason="other_identity",
            remedy="Do not change the environment variables of the agent.",
        )
    return None


def is_of_an_agent(teams: Iterable[TeamConfig], environ: Mapping[str, str]) -> bool:
    """Whether this process belongs to an agent of any team."""
    return bool(_nonces(environ)) or _is_below(teams)


def _nonces(environ: Mapping[str, str]) -> set[str]:
    """The nonces of the launches that this process belongs to; empty for a person's."""
    marked = processes.marked()
    line = [os.getpid(), *(row.pid for row in processes.ancestors(os.getpid()))]
    return {nonce for nonce in (environ.get(NONCE), *map(marked.get, line)) if nonce}


def _is_below(teams: Iterable[TeamConfig]) -> bool:
    """Whether an agent runs in an ancestor of this process."""
    above = {(row.pid, row.start) for row in processes.ancestors(os.getpid())}
    agents = [member.agent for team in teams for member in team.roster if member.agent is not None]
    places = [agent.process for agent in agents if agent.process is not None]
    return any((place.pid, place.start) in above for place in places)
