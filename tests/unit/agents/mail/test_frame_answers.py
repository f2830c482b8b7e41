"""The calls that a request shows to a model are calls that the tools take."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from bullpen.agents.mail.message_frame import said
from bullpen.agents.tools.toolbox import call, toolbox
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.names import LEAD
from bullpen.store.memory import MemoryStore
from bullpen.team.team import Team, Teams
from bullpen.testing.desks import RecordingDesk


@pytest.fixture
async def team() -> Team:
    teams = Teams(MemoryStore())
    await teams.create("alpha")
    team = teams.open("alpha")
    await team.roster.join("ann", by=LEAD)
    return team


async def obey(team: Team, agent: str, label: str, folder: Path) -> RecordingDesk:
    """Make the call that the newest message to an agent shows after the label."""
    spec = AgentSpec.new(driver="scripted", backend="in-process", cwd=str(folder))
    desk = RecordingDesk(team, agent, folder, spec)
    newest = (await team.mailbox.read(agent)).entries[-1].message
    shown = re.search(rf"^{label}: (\w+)\((.*)\)$", said(newest), re.MULTILINE)
    assert shown is not None
    text, is_error = await call(toolbox(desk), shown[1], json.loads(shown[2]), desk)
    assert not is_error, text
    return desk


async def test_the_call_that_agrees_to_end_ends_the_agent(team: Team, tmp_path: Path) -> None:
    asked = await team.approvals.ask_shutdown("ann", by=LEAD, reason='"quotes" & <tags>')
    desk = await obey(team, "ann", "To agree", tmp_path)
    assert (await team.approvals.get(asked.id)).state == "approved"
    assert len(desk.left) == 1


async def test_the_call_that_refuses_to_end_does_not(team: Team, tmp_path: Path) -> None:
    asked = await team.approvals.ask_shutdown("ann", by=LEAD)
    desk = await obey(team, "ann", "To keep working", tmp_path)
    assert (await team.approvals.get(asked.id)).state == "denied"
    assert desk.left == []


@pytest.mark.parametrize(("label", "state"), [("To approve", "approved"), ("To reject", "denied")])
async def test_the_calls_that_answer_a_plan_answer_it(
    team: Team, tmp_path: Path, label: str, state: str
) -> None:
    asked = await team.approvals.ask_plan("1. Dig", by="ann")
    await obey(team, LEAD, label, tmp_path)
    assert (await team.approvals.get(asked.id)).state == state
