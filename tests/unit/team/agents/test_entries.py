"""What a member's entry says of its agent: the pane where it runs, and its model."""

from __future__ import annotations

from typing import Any

import pytest

from bullpen.protocol.agent import GUEST, AgentSpec, ProcessRecord
from bullpen.protocol.changes import Change, PutMember
from bullpen.protocol.names import LEAD
from bullpen.store.contract import View
from bullpen.store.memory import MemoryStore
from bullpen.team.team import Team

TMUX = ProcessRecord.new(backend="tmux", host="here", pid=1, start="1", server="/s", pane="%14")
INSIDE = ProcessRecord.new(backend="in-process", host="here", pid=1, start="1")
ALONE = ProcessRecord.new(backend="subprocess", host="here", pid=1, start="1")


async def started(team: Team, place: ProcessRecord, name: str = "ann", **fields: Any) -> None:
    spec = AgentSpec.new(driver="told", backend=place.backend, cwd="/", **fields)
    await team.agents.register(name, spec, by=LEAD, nonce="n1")
    await team.agents.placed(name, nonce="n1", place=place)
    # Its own process does not know its pane.
    own = ProcessRecord.new(backend=place.backend, host="here", pid=1, start="1")
    await team.agents.ready(name, nonce="n1", place=own)


async def pane(team: Team, name: str = "ann") -> str | None:
    return (await team.roster.get(name)).tmux_pane_id


@pytest.mark.parametrize(("place", "shown"), [(TMUX, "%14"), (INSIDE, "in-process"), (ALONE, "")])
async def test_an_entry_names_the_pane_while_its_agent_runs(
    team: Team, place: ProcessRecord, shown: str
) -> None:
    await started(team, place)
    assert await pane(team) == shown
    await team.agents.end("ann", "stopped", by=LEAD, nonce="n1", cause="enough")
    assert await pane(team) == ""


async def test_an_agent_that_is_started_again_has_no_pane_until_it_has_one(team: Team) -> None:
    await started(team, TMUX)
    await team.agents.relaunch("ann", by=LEAD, nonce="n2")
    assert await pane(team) == ""
    moved = TMUX.evolve(pane="%15")
    await team.agents.placed("ann", nonce="n2", place=moved)
    assert await pane(team) == "%15"
    await team.agents.withdraw("ann", by=LEAD, nonce="n2", cause="it did not start")
    assert await pane(team) == ""


async def test_the_entry_of_a_lead_names_the_model_of_its_agent(team: Team) -> None:
    await started(team, INSIDE, LEAD, model="claude-opus-4-6")
    assert (await team.roster.get(LEAD)).model == "claude-opus-4-6"
    await team.agents.end(LEAD, "stopped", by=LEAD, nonce="n1", cause="enough")
    spec = AgentSpec.new(driver="told", backend="in-process", cwd="/")
    await team.agents.register(LEAD, spec, by=LEAD, nonce="n2")
    assert "model" not in (await team.roster.get(LEAD)).raw


async def test_the_entry_of_the_lead_never_names_a_pane(team: Team) -> None:
    await started(team, TMUX, LEAD)
    assert await pane(team, LEAD) == ""


async def test_a_guest_keeps_the_pane_that_its_lead_gave_it(team: Team, store: MemoryStore) -> None:
    alice = (await team.roster.get("alice")).evolve(tmux_pane_id="%1", backend_type="tmux")

    def given(_: View) -> list[Change]:
        return [PutMember(alice)]

    await store.commit("crew", given, actor=LEAD, op="other")
    spec = AgentSpec.new(driver="told", backend="subprocess", cwd="/", options={GUEST: True})
    await team.agents.register("alice", spec, by=LEAD, nonce="n1", in_place=True)
    await team.agents.placed("alice", nonce="n1", place=ALONE)
    await team.agents.ready("alice", nonce="n1", place=ALONE)
    assert await pane(team, "alice") == "%1"
