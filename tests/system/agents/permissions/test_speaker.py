"""To whom a process belongs: what it and the processes above it carry says so."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

import pytest

from bullpen.agents.contracts.backend import NONCE
from bullpen.agents.system import processes
from bullpen.protocol.agent import AgentFacts, AgentSpec, ProcessRecord
from bullpen.protocol.team import Member, TeamConfig

SAYS = """
import os, sys
from bullpen.agents.permissions.speaker import agent_here, is_of_an_agent
from bullpen.errors import Refused
from bullpen.protocol.team import TeamConfig
team = TeamConfig.parse({team!r})
try:
    print(agent_here(team, os.environ), is_of_an_agent([], os.environ))
except Refused as error:
    print(error.reason, is_of_an_agent([], os.environ))
"""


def _team(*, nonce: str = "n-1", place: ProcessRecord | None = None) -> TeamConfig:
    spec = AgentSpec.new(driver="scripted", backend="subprocess", cwd="/")
    agent = AgentFacts.new(
        spec=spec.raw, nonce=nonce, since_ms=1, process=None if place is None else place.raw
    )
    member = Member.new(
        agent_id="alice@calc", name="alice", joined_at=1, cwd="/", bullpen=agent.raw
    )
    return TeamConfig.new(name="calc", created_at=1, members=[member.raw])


def _said(team: TeamConfig, words: Sequence[str], nonce: str) -> str:
    env = {**os.environ, NONCE: nonce}
    code = SAYS.format(team=team.raw)
    done = subprocess.run(
        [*words, sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


BELOW = ("bash", "-c", f'env -u {NONCE} "$@"; true', "bash")


@pytest.mark.parametrize(
    ("words", "nonce", "said"),
    [
        ((), "n-1", "alice True"),
        (BELOW, "n-1", "alice True"),
        ((*BELOW, "setsid", "-w"), "n-1", "alice True"),
        # A launch that is over, or an agent of another home.
        (BELOW, "n-0", "other_identity True"),
        ((), "n-0", "other_identity True"),
    ],
)
def test_a_process_below_one_with_a_nonce_is_that_agents(
    words: tuple[str, ...], nonce: str, said: str
) -> None:
    """R-4.1: taking the variable away makes no person of an agent."""
    assert _said(_team(), words, nonce) == said


def test_a_process_below_the_one_in_which_an_agent_works_is_an_agents() -> None:
    """R-4.1: agents inside another process carry no mark of their own."""
    start = processes.start_of(os.getpid())
    here = ProcessRecord.new(backend="in-process", host="here", pid=os.getpid(), start=start)
    assert _said(_team(place=here), ("env", "-u", NONCE), "n-1") == "other_identity False"
    earlier = here.evolve(start="another-process")
    assert _said(_team(place=earlier), ("env", "-u", NONCE), "n-1") == "None False"
