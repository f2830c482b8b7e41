"""Messages and the JSON in them, field by field."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bullpen.protocol.agent import AgentSpec, ProcessRecord
from bullpen.protocol.names import LEAD
from bullpen.team.team import Team
from bullpen.view.news import news

from .page import shows

if TYPE_CHECKING:
    from support.agents.tools_fixtures import Bench

TMUX = ProcessRecord.new(backend="tmux", host="here", pid=9, start="1", pane="%14")


def inbox(tmp_path: Path, name: str) -> list[dict[str, Any]]:
    path = tmp_path / f"home/teams/crew/inboxes/{name}.json"
    found: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []
    return found


async def runs(team: Team, name: str) -> None:
    spec = AgentSpec.new(driver="d", backend="tmux", cwd="/", prompt="Look.", mode="plan")
    await team.agents.register(name, spec, by=LEAD, nonce="n")
    await team.agents.ready(name, nonce="n", place=TMUX)


@shows("optional-fields")
async def test_optional_fields(team: Team, ann: Bench, lead: Bench, tmp_path: Path) -> None:
    await runs(team, "eve")
    await lead.ok("SendMessage", type="message", recipient="eve", content="a", summary="s")
    await ann.ok("SendMessage", type="message", recipient="eve", content="b", summary="s")
    await team.tasks.add("One", by=LEAD)
    await team.tasks.assign("1", "eve", by=LEAD)
    found = [{"summary", "color"} & set(entry) for entry in inbox(tmp_path, "eve")]
    # Its prompt, the lead, a teammate, an assignment.
    assert found == [set(), {"summary"}, {"summary", "color"}, set()]
    await team.approvals.ask_plan("# Plan", by="ann")
    await team.approvals.ask_permission("Bash", {"command": "ls"}, by="ann")
    found = [{"summary", "color"} & set(entry) for entry in inbox(tmp_path, LEAD)]
    assert found == [set(), {"color"}]


@shows("mail-notice")
async def test_mail_notice(team: Team, ann: Bench) -> None:
    await ann.ok("SendMessage", type="message", recipient="bob", content="Hi.", summary="greeting")
    assert any("ann" in line and "greeting" in line for line in news((await team.events())[-1]))


@shows("read-flag")
async def test_read_flag(team: Team, tmp_path: Path) -> None:
    await team.mailbox.send("ann", "Hi.", sender=LEAD)
    (entry,) = (await team.mailbox.read("ann")).entries
    await team.mailbox.mark("ann", [entry.id], "seen")
    assert [each["read"] for each in inbox(tmp_path, "ann")] == [True]
