"""TeamCreate and TeamDelete, called by an agent that leads."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import anyio
import pytest

from bullpen.agents.tools import own_team
from bullpen.agents.tools.toolbox import toolbox, without_spares
from bullpen.protocol.agent import AgentSpec, ProcessRecord
from bullpen.protocol.names import LEAD
from bullpen.team.agents.rules import agreed_to_end
from bullpen.team.team import Team

if TYPE_CHECKING:
    from support.agents.tools_fixtures import Bench, MakeBench

SPEC = AgentSpec.new(driver="told", backend="in-process", cwd="/")


@pytest.fixture
def lead(make_bench: MakeBench) -> Bench:
    return make_bench(LEAD)


async def test_creating_its_own_team_answers_as_claude_code_does(lead: Bench) -> None:
    for name in ("crew", "Crew"):
        said = json.loads(await lead.ok("TeamCreate", team_name=name, description="-"))
        assert said["data"]["team_name"] == "crew"
        assert said["data"]["team_file_path"].endswith("teams/crew/config.json")
        assert said["data"]["lead_agent_id"] == "team-lead@crew"


async def test_a_lead_has_one_team(lead: Bench) -> None:
    assert "already_leads" in await lead.refused("TeamCreate", team_name="other")


async def test_a_team_ends_when_its_members_have(lead: Bench, team: Team) -> None:
    await team.agents.register(LEAD, SPEC, by=LEAD, nonce="n1")
    await team.agents.register("zoe", SPEC, by=LEAD, nonce="n2")
    text = await lead.refused("TeamDelete")
    assert "members_alive" in text and "zoe" in text and LEAD not in text.split("reason")[0]
    await team.agents.end("zoe", "stopped", by=LEAD, nonce="n2")
    assert await team.agents.result() is None
    task = await team.tasks.add("Open", by=LEAD)
    assert "open_tasks" in await lead.refused("TeamDelete")
    await team.tasks.delete(task.id, by=LEAD)
    said = json.loads(await lead.ok("TeamDelete"))
    assert (said["success"], said["team_name"]) == (True, "crew")
    # Whoever watches the team reads the outcome and the cost from its records.
    assert await team.agents.result() is not None


async def test_a_team_ends_right_after_its_members_agreed_to(lead: Bench, team: Team) -> None:
    """The record of an end follows the consent; TeamDelete waits for it."""
    await team.agents.register(LEAD, SPEC, by=LEAD, nonce="n1")
    await team.agents.register("zoe", SPEC, by=LEAD, nonce="n2")
    place = ProcessRecord.new(backend="in-process", host="here", pid=1, start="1")
    await team.agents.ready("zoe", nonce="n2", place=place)
    asked = await team.approvals.ask_shutdown("zoe", by=LEAD)
    await team.approvals.answer(asked.id, approve=True, by="zoe", voice="agent")

    async def ends_soon() -> None:
        await anyio.sleep(0.3)
        assert await team.agents.result() is None
        await team.agents.end("zoe", "finished", by="zoe", nonce="n2", cause="agreed")

    async with anyio.create_task_group() as group:
        group.start_soon(ends_soon)
        assert json.loads(await lead.ok("TeamDelete"))["success"] is True


async def test_a_member_that_agreed_and_does_not_end_is_named_after_a_while(
    lead: Bench, team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_team, "ENDS_S", 0.2)
    await team.agents.register(LEAD, SPEC, by=LEAD, nonce="n1")
    await team.agents.register("zoe", SPEC, by=LEAD, nonce="n2")
    asked = await team.approvals.ask_shutdown("zoe", by=LEAD)
    await team.approvals.answer(asked.id, approve=True, by="zoe", voice="agent")
    assert "members_alive" in await lead.refused("TeamDelete")


async def test_a_consent_of_an_earlier_launch_is_not_waited_for(team: Team) -> None:
    await team.agents.register("zoe", SPEC, by=LEAD, nonce="n2")
    asked = await team.approvals.ask_shutdown("zoe", by=LEAD)
    await team.approvals.answer(asked.id, approve=True, by="zoe", voice="agent")
    config, requests = await team.agents.config(), (await team.approvals.all()).values()
    assert agreed_to_end(config, requests) == {"zoe"}
    await team.agents.end("zoe", "finished", by="zoe", nonce="n2")
    assert agreed_to_end(await team.agents.config(), requests) == set()
    await anyio.sleep(0.002)
    await team.agents.relaunch("zoe", by=LEAD, nonce="n3")
    assert agreed_to_end(await team.agents.config(), requests) == set()


async def test_no_teammate_has_them_and_no_model_pays_for_them(
    make_bench: MakeBench, lead: Bench
) -> None:
    own = {"TeamCreate", "TeamDelete"}
    assert not own & {tool.name for tool in toolbox(make_bench("ann").desk)}
    assert own <= {tool.name for tool in toolbox(lead.desk)}
    assert not own & {tool.name for tool in without_spares(toolbox(lead.desk))}
