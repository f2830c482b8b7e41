"""Every tool, used by the SDK's own client, over pipes and HTTP, in both protocols."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from mcp import Client

from bullpen.protocol.names import LEAD
from bullpen.protocol.task import Check
from bullpen.testing.models import MockModels, Playbook
from support.doors.mcp_calls import OF_A_MEMBER, OF_THE_LEAD, names_of, ok, refused

if TYPE_CHECKING:
    from support.doors.mcp_house import House, Mode

WAYS = [(way, mode) for way in ("stdio", "http") for mode in ("auto", "legacy")]


@asynccontextmanager
async def connected(
    house: House, way: str, mode: Mode, team: str, *names: str
) -> AsyncIterator[list[Client]]:
    """Programs that are members of one team, each with a server or a token of its own."""
    async with AsyncExitStack() as stack:
        if way == "stdio":
            members = [house.program("--team", team, "--as", name, mode=mode) for name in names]
            yield [await stack.enter_async_context(member) for member in members]
            return
        tokens = [house.token(name, team) for name in names]
        url = await stack.enter_async_context(house.served())
        visits = [house.visitor(url, token, mode=mode) for token in tokens]
        yield [await stack.enter_async_context(visit) for visit in visits]


@pytest.mark.parametrize(("way", "mode"), WAYS, ids=lambda each: str(each))
async def test_every_tool_works(house: House, way: str, mode: Mode) -> None:
    """A team from its making to its end, led and staffed by connected programs."""
    with MockModels(Playbook({"cy": []})) as models:
        house.env.update(models.env)
        async with connected(house, way, mode, "my-team-", LEAD) as (lead,):
            made = json.loads(await ok(lead, "TeamCreate", team_name="My Team!"))
            assert made == {
                "data": {
                    "team_name": "my-team-",
                    "team_file_path": str(house.home / "teams/my-team-/config.json"),
                    "lead_agent_id": "team-lead@my-team-",
                }
            }
            assert "already" in await refused(lead, "TeamCreate", team_name="my-team-")
            async with connected(house, way, mode, "my-team-", "ann", "bob") as (ann, bob):
                assert await names_of(lead) == OF_THE_LEAD
                assert await names_of(ann) == OF_A_MEMBER
                await _tasks(lead, ann)
                await _messages(house, lead, ann, bob)
                await _plan(lead, ann)
                if mode == "auto":
                    await _spawn(lead)
                assert "members_alive" in await refused(lead, "TeamDelete")
                await _shutdown(house, lead, ann, bob)
            gone = json.loads(await ok(lead, "TeamDelete"))
            assert (gone["success"], gone["team_name"]) == (True, "my-team-")
            assert "no_team" in await refused(lead, "TaskList")
    assert await house.teams.names() == ["alpha"]


async def _tasks(lead: Client, ann: Client) -> None:
    for subject in ("Parse", "Test"):
        said = await ok(lead, "TaskCreate", subject=subject, description="All of it")
        assert "created successfully" in said
    await ok(lead, "TaskUpdate", taskId="2", addBlockedBy=["1"])
    assert "blocked" in await refused(ann, "TaskUpdate", taskId="2", status="in_progress")
    await ok(ann, "TaskUpdate", taskId="1", status="in_progress")
    assert "#1 [in_progress] Parse (ann)" in await ok(lead, "TaskList")
    await ok(ann, "TaskUpdate", taskId="1", status="completed", report="It parses")
    assert "Status: completed" in await ok(lead, "TaskGet", taskId="1")
    status = await ok(ann, "TeamStatus")
    assert "connected through MCP" in status
    assert "1 pending, 0 in_progress, 1 completed" in status


async def _messages(house: House, lead: Client, ann: Client, bob: Client) -> None:
    sent = json.loads(await ok(lead, "SendMessage", to="ann", summary="a word", message="Go <on>"))
    assert sent["success"] is True
    assert sent["routing"] == {
        "sender": LEAD,
        "target": "@ann",
        "targetColor": "blue",
        "summary": "a word",
        "content": "Go <on>",
    }
    old = {"type": "message", "recipient": LEAD, "content": "I do", "summary": "an answer"}
    assert json.loads(await ok(ann, "SendMessage", **old))["routing"]["target"] == "@team-lead"
    told = json.loads(await ok(bob, "SendMessage", type="broadcast", content="News", summary="n"))
    assert told["recipients"] == [LEAD, "ann"]
    assert told["routing"]["target"] == "@team"
    mail = await ok(ann, "WaitForMail", timeout_seconds=0)
    assert "Go <on>" in mail
    assert "News" in mail
    assert 'teammate_id="team-lead"' in mail
    theirs = await ok(lead, "WaitForMail", timeout_seconds=0)
    assert "I do" in theirs
    assert "Go" not in theirs


async def _plan(lead: Client, ann: Client) -> None:
    for approve, words in ((False, "Smaller"), (True, "Good")):
        said = await ok(ann, "ExitPlanMode", plan=f"# Plan\nDo it, {words.lower()}")
        request_id = said.partition("(request ")[2].partition(")")[0]
        assert request_id in await ok(lead, "WaitForMail")
        answer = json.loads(
            await ok(lead, "ApproveRequest", request_id=request_id, approve=approve, feedback=words)
        )
        assert answer["request_id"] == request_id
        assert words in await ok(ann, "WaitForMail")
    again = await refused(lead, "ApproveRequest", request_id=request_id, approve=True)
    assert "already_answered" in again


async def _spawn(lead: Client) -> None:
    wide = {"name": "cy", "prompt": "Say hello", "mode": "bypassPermissions"}
    assert "too_wide" in await refused(lead, "SpawnTeammate", **wide)
    model = "anthropic:claude-sonnet-4-5"
    said = await ok(lead, "SpawnTeammate", name="cy", prompt="Say hello", model=model)
    assert "cy is ready (native, subprocess)" in said
    assert "cy is stopped" in await ok(lead, "StopTeammate", name="cy", reason="Enough")


async def _shutdown(house: House, lead: Client, ann: Client, bob: Client) -> None:
    asked = json.loads(
        await ok(lead, "SendMessage", type="shutdown_request", recipient="ann", content="Done")
    )
    assert set(asked) == {"success", "message", "request_id", "target"}
    assert asked["target"] == "ann"
    assert asked["request_id"].endswith("@ann")
    assert asked["request_id"] in await ok(ann, "WaitForMail")
    answer = {"type": "shutdown_response", "request_id": asked["request_id"], "approve": True}
    await ok(ann, "SendMessage", **answer)
    new = {"type": "shutdown_request", "reason": "Done"}
    second = json.loads(await ok(lead, "SendMessage", to="bob", message=new))
    await ok(bob, "ApproveRequest", request_id=second["request_id"], approve=True)
    # They have left, and their tokens with them: what they call now fails in one way or another.
    team = house.teams.open("my-team-")
    assert {member.name for member in await team.roster.list()} - {"cy"} == {LEAD}


async def test_completing_a_task_runs_its_checks(house: House) -> None:
    proof = Check.new(name="proof", kind="command", run="test -f proof.txt")
    await house.team.tasks.add("Prove it", by=LEAD, checks=[proof])
    async with house.program("--team", "alpha", "--as", "ann") as client:
        await ok(client, "TaskUpdate", taskId="1", status="in_progress")
        said = await refused(client, "TaskUpdate", taskId="1", status="completed")
        assert "checks_failed" in said
        (house.home / "proof.txt").write_text("there", encoding="utf-8")
        await ok(client, "TaskUpdate", taskId="1", status="completed")
    assert (await house.team.tasks.get("1")).status == "completed"
