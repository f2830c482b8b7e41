"""Teammates from start to end: when they work, rest, are asked and leave."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.contracts.driver import TurnInput
from bullpen.agents.tools.toolbox import call, toolbox
from bullpen.errors import Refused
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.names import LEAD
from bullpen.protocol.payloads import IdleNotification, payload_of
from bullpen.team.team import Team
from support.crews import Crew, Hired, eventually, nothing

from .page import shows

if TYPE_CHECKING:
    from support.agents.tools_fixtures import Bench


async def idle(crew: Crew, number: int) -> list[IdleNotification]:
    """The idle notices in the lead's inbox, once there are so many."""
    found: list[IdleNotification] = []

    async def there() -> bool:
        box = await crew.team.mailbox.read(LEAD)
        read = [payload_of(entry.message.text) for entry in box.entries]
        found[:] = [each for each in read if isinstance(each, IdleNotification)]
        return len(found) >= number

    await eventually(there)
    return found


def says(tool: str, **raw: Any) -> Callable[[TurnInput, Desk], Any]:
    """A turn that calls one tool."""

    async def turn(given: TurnInput, desk: Desk) -> str:
        text, failed = await call(toolbox(desk), tool, raw, desk)
        return text if failed else "Done."

    return turn


@shows("works-at-once")
async def test_works_at_once(crew: Crew) -> None:
    ann = await crew.hire("ann", nothing, prompt="Look around.")
    await eventually(lambda: len(ann.turns) == 1)
    assert "Look around." in ann.turns[0]
    # What the lead talked about before is not in it.
    assert "You are ann, a teammate in team" in ann.turns[0]


@shows("idle-after-each-turn")
async def test_idle_after_each_turn(crew: Crew) -> None:
    await crew.hire("ann", nothing, prompt="Go")
    await idle(crew, 1)
    await crew.team.mailbox.send("ann", "Again", sender=LEAD)
    told = await idle(crew, 2)
    assert [each.idle_reason for each in told] == ["available", "available"]


@shows("idle-task")
async def test_idle_task(crew: Crew) -> None:
    await crew.team.tasks.add("One", by=LEAD)
    await crew.hire("ann", says("TaskUpdate", taskId="1", status="completed"), prompt="Go")
    (told,) = await idle(crew, 1)
    assert (told.completed_task_id, told.completed_status) == ("1", "resolved")


@shows("peers")
async def test_peers(crew: Crew) -> None:
    bob = await crew.hire("bob", nothing)
    write = says("SendMessage", type="message", recipient="bob", content="Secret", summary="hello")
    await crew.hire("ann", write, prompt="Go")
    # A message wakes a teammate that rests; the lead reads only the summary.
    await eventually(lambda: len(bob.turns) == 1)
    told = next(each for each in await idle(crew, 2) if each.sender == "ann")
    assert told.summary == "[to bob] hello"
    box = await crew.team.mailbox.read(LEAD)
    assert all("Secret" not in entry.message.text for entry in box.entries)


@shows("wait-for-all")
async def test_wait_for_all(crew: Crew) -> None:
    lead = await crew.hire(LEAD, nothing)

    async def reports(given: TurnInput, desk: Desk) -> str:
        return f"{desk.agent} found nothing."

    for name in ("ann", "bob"):
        await crew.hire(name, reports, prompt="Look.")
    await eventually(lambda: "bob found nothing." in " ".join(lead.turns))
    assert "ann found nothing." in " ".join(lead.turns)


async def _asked(crew: Crew, approve: bool) -> Hired:
    async def answers(given: TurnInput, desk: Desk) -> str:
        pending = await desk.team.approvals.pending()
        raw = {"type": "shutdown_response", "request_id": pending[0].id, "approve": approve}
        await call(toolbox(desk), "SendMessage", {**raw, "content": "busy with #3"}, desk)
        return "Answered."

    ann = await crew.hire("ann", answers)
    await crew.team.approvals.ask_shutdown("ann", by=LEAD)
    await eventually(lambda: bool(ann.told("end")))
    return ann


@shows("shutdown-no")
async def test_shutdown_no(crew: Crew) -> None:
    ann = await _asked(crew, approve=False)
    assert ann.ended is None and ann.desk.leaving is None


@shows("shutdown-yes")
async def test_shutdown_yes(crew: Crew) -> None:
    ann = await _asked(crew, approve=True)
    await eventually(lambda: ann.ended is not None)
    assert len(ann.turns) == 1


@shows("lead-stays")
async def test_lead_stays(team: Team) -> None:
    with pytest.raises(Refused):
        await team.roster.remove(LEAD, by=LEAD)


@shows("lead-only")
async def test_lead_only(team: Team) -> None:
    spec = AgentSpec.new(driver="d", backend="in-process", cwd="/")
    for act in (
        lambda: team.roster.join("eve", by="ann"),
        lambda: team.roster.remove("bob", by="ann"),
        lambda: team.agents.register("eve", spec, by="ann", nonce="n"),
    ):
        with pytest.raises(Refused) as error:
            await act()
        assert error.value.reason == "not_lead"


@shows("no-nested-teams")
async def test_no_nested_teams(ann: Bench) -> None:
    assert not {"Task", "SpawnTeammate", "TeamCreate"} & {tool.name for tool in toolbox(ann.desk)}


@shows("one-team")
async def test_one_team(lead: Bench) -> None:
    assert "already_leads" in await lead.refused("TeamCreate", team_name="other")


@shows("team-create")
async def test_team_create(lead: Bench) -> None:
    said = json.loads(await lead.ok("TeamCreate", team_name="crew", description="-"))["data"]
    assert set(said) == {"team_name", "team_file_path", "lead_agent_id"}


@shows("delete-refused")
async def test_delete_refused(lead: Bench, team: Team) -> None:
    spec = AgentSpec.new(driver="d", backend="in-process", cwd="/")
    await team.agents.register("eve", spec, by=LEAD, nonce="n")
    assert "members_alive" in await lead.refused("TeamDelete")


@shows("delete-removes")
def test_delete_removes(ok: Callable[..., str], home: Path) -> None:
    ok("team", "create", "old")
    ok("task", "add", "One", "-t", "old")
    ok("team", "delete", "old", "--yes")
    assert not (home / "teams/old").exists() and not (home / "tasks/old").exists()


@shows("mode-live")
def test_mode_live(ok: Callable[..., str], run: Callable[..., Any], home: Path) -> None:
    """Rules and what running agents do with it: test_mode_change.py and test_new_mode.py."""
    assert "acceptEdits" in ok("mode", "--help")
    ok("team", "create", "crew")
    assert run("mode", "team-lead", "delegate").exit_code != 0, "nobody runs it"
