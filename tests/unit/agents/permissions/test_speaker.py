"""To whom a process belongs: what it and the processes above it carry says so."""

from __future__ import annotations

import os
from itertools import pairwise

from bullpen.agents.contracts.backend import NONCE
from bullpen.agents.permissions.speaker import agent_here, is_of_an_agent
from bullpen.agents.system import processes
from bullpen.protocol.agent import AgentFacts, AgentSpec, ProcessRecord
from bullpen.protocol.team import Member, TeamConfig


def _team(*, nonce: str = "n-1", place: ProcessRecord | None = None) -> TeamConfig:
    spec = AgentSpec.new(driver="scripted", backend="subprocess", cwd="/")
    agent = AgentFacts.new(
        spec=spec.raw, nonce=nonce, since_ms=1, process=None if place is None else place.raw
    )
    member = Member.new(
        agent_id="alice@calc", name="alice", joined_at=1, cwd="/", bullpen=agent.raw
    )
    return TeamConfig.new(name="calc", created_at=1, members=[member.raw])


def test_a_persons_process_is_nobodys() -> None:
    env = {key: value for key, value in os.environ.items() if key != NONCE}
    assert agent_here(_team(), env) is None
    assert not is_of_an_agent([_team()], env)


def test_ancestors_are_told_from_the_nearest_on() -> None:
    rows = processes.ancestors(os.getpid())
    assert rows[0].pid == os.getppid()
    assert all(row.parent == above.pid for row, above in pairwise(rows))
    assert processes.ancestors(-1) == []
