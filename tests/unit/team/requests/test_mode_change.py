"""Changing the mode of an agent: who may, how wide, and what becomes of its plan."""

from __future__ import annotations

from typing import Any

import pytest

from bullpen.errors import Invalid, NotFound, Refused
from bullpen.protocol.agent import AgentSpec, ProcessRecord
from bullpen.protocol.names import LEAD
from bullpen.protocol.payloads import ModeSetRequest, payload_of
from bullpen.protocol.policy import MODES, Mode, Policy
from bullpen.protocol.request import Voice
from bullpen.store.memory import MemoryStore
from bullpen.team.requests.mode_rules import wider_mode
from bullpen.team.team import Team, Teams
from support.rows import each_row

PLACE = ProcessRecord.new(backend="in-process", host="here", pid=1, start="1")


@pytest.fixture
async def team() -> Team:
    return await made()


async def made() -> Team:
    teams = Teams(MemoryStore())
    await teams.create("crew")
    return teams.open("crew")


async def hire(team: Team, name: str, mode: str, **policy: Any) -> None:
    spec = AgentSpec.new(
        driver="d", backend="in-process", cwd="/", mode=mode, policy=Policy.new(**policy).raw
    )
    await team.agents.register(name, spec, by=LEAD, nonce=f"n-{name}")
    await team.agents.ready(name, nonce=f"n-{name}", place=PLACE)


async def mode_of(team: Team, name: str) -> str:
    return (await team.agents.get(name))[1].mode


async def refusal(
    team: Team, name: str, mode: str, *, by: str = LEAD, voice: Voice = "agent"
) -> str:
    before = await mode_of(team, name)
    with pytest.raises(Refused) as error:
        await team.modes.change(name, mode, by=by, voice=voice)
    assert error.value.remedy
    assert await mode_of(team, name) == before
    return error.value.reason


@each_row("mode", MODES)
@each_row("before", MODES)
async def test_a_person_sets_every_mode_and_the_agent_is_told(before: Mode, mode: Mode) -> None:
    team = await made()
    await hire(team, "ann", before)
    await team.modes.change("ann", mode, by=LEAD)
    member, agent = await team.agents.get("ann")
    assert agent.mode == mode
    told = [payload_of(entry.message.text) for entry in (await team.mailbox.read("ann")).entries]
    if mode == before:
        assert told == []
        return
    # Other programs read the mode from the roster.
    assert (member.mode, agent.standing.mode_by) == (mode, "a person")
    (said,) = told
    assert isinstance(said, ModeSetRequest)
    assert (said.mode, said.sender) == (mode, LEAD)


@each_row("mode", MODES)
@each_row("before", MODES)
@each_row("leads", MODES)
async def test_a_lead_that_is_a_model_never_gives_more_than_it_has(
    leads: Mode, before: Mode, mode: Mode
) -> None:
    team = await made()
    await hire(team, LEAD, leads, teammates="acceptEdits")
    await hire(team, "ann", before, after_plan="bypassPermissions")
    widest: Mode = "acceptEdits" if leads == "delegate" else leads
    if wider_mode(mode, before) and wider_mode(mode, widest):
        assert await refusal(team, "ann", mode) == "wider_than_lead"
        return
    await team.modes.change("ann", mode, by=LEAD, voice="agent")
    assert await mode_of(team, "ann") == mode


async def test_a_lead_without_a_record_gives_no_more_than_it_may_spawn(team: Team) -> None:
    await hire(team, "ann", "dontAsk")
    assert await refusal(team, "ann", "acceptEdits") == "wider_than_lead"
    await team.modes.change("ann", "default", by=LEAD, voice="agent")


async def test_nobody_else_changes_a_mode_and_no_model_its_own(team: Team) -> None:
    await hire(team, LEAD, "default")
    await hire(team, "ann", "bypassPermissions")
    await hire(team, "bob", "default")
    voices: tuple[Voice, ...] = ("agent", "human")
    for voice in voices:
        assert await refusal(team, "bob", "plan", by="ann", voice=voice) == "not_lead"
    assert await refusal(team, "ann", "plan", by="ann") == "not_a_person"
    assert await refusal(team, LEAD, "bypassPermissions") == "not_a_person"
    assert await refusal(team, LEAD, "delegate") == "not_a_person"


@pytest.mark.parametrize("approver", ["human", "rule"])
async def test_a_lead_does_not_skip_the_approval_of_a_plan_that_others_approve(
    team: Team, approver: str
) -> None:
    await hire(team, LEAD, "bypassPermissions")
    await hire(team, "ann", "plan", plan_approver=approver)
    assert await refusal(team, "ann", "default") == "not_approver"
    await team.modes.change("ann", "default", by=LEAD)
    assert await mode_of(team, "ann") == "default"


async def test_ending_plan_mode_gives_a_lead_no_wider_mode_than_an_approval_would(
    team: Team,
) -> None:
    await hire(team, LEAD, "bypassPermissions")
    await hire(team, "ann", "plan", after_plan="default")
    assert await refusal(team, "ann", "acceptEdits") == "wider_than_lead"
    await team.modes.change("ann", "default", by=LEAD, voice="agent")


async def test_a_plan_that_waits_ends_with_the_mode_and_approving_it_changes_nothing(
    team: Team,
) -> None:
    await hire(team, "ann", "plan")
    request = await team.approvals.ask_plan("# Plan", by="ann")
    await team.modes.change("ann", "dontAsk", by=LEAD)
    assert (await team.approvals.get(request.id)).state == "expired"
    with pytest.raises(Refused):
        await team.approvals.answer(request.id, approve=True, by=LEAD, voice="human")
    status = await team.plans.settle("ann", nonce="n-ann")
    assert (status.answer, status.mode) == ("none", "dontAsk")


async def test_a_lead_told_to_only_lead_gives_teammates_what_it_gave_before(team: Team) -> None:
    await hire(team, LEAD, "acceptEdits")
    await hire(team, "ann", "default")
    await team.modes.change(LEAD, "delegate", by=LEAD)
    await team.modes.change("ann", "acceptEdits", by=LEAD, voice="agent")
    assert await refusal(team, "ann", "bypassPermissions") == "wider_than_lead"
    await team.modes.change(LEAD, "default", by=LEAD)
    await team.modes.change("ann", "default", by=LEAD, voice="agent")
    assert await refusal(team, "ann", "acceptEdits") == "wider_than_lead"


async def test_an_agent_that_has_ended_starts_again_in_its_new_mode_and_gets_no_mail(
    team: Team,
) -> None:
    await hire(team, "ann", "default")
    await team.agents.end("ann", "stopped", by=LEAD, nonce="n-ann")
    await team.modes.change("ann", "acceptEdits", by=LEAD)
    assert await mode_of(team, "ann") == "acceptEdits"
    assert not (await team.mailbox.read("ann")).entries


async def test_what_is_no_mode_or_no_agent_is_said(team: Team) -> None:
    await hire(team, "ann", "default")
    await team.roster.join("pat", by=LEAD)
    with pytest.raises(Invalid) as error:
        await team.modes.change("ann", "yolo", by=LEAD)
    assert "acceptEdits" in error.value.remedy
    with pytest.raises(NotFound):
        await team.modes.change("pat", "plan", by=LEAD)
