"""Hooks of Claude Code while it has no turn: nothing is permitted, and no mail is given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bullpen.agents.contracts.call import Call
from bullpen.agents.drivers.claude_code import calls
from bullpen.agents.drivers.claude_code import gate as gate_module
from bullpen.agents.drivers.claude_code.gate import HookGate
from bullpen.agents.drivers.claude_code.team_copy import Mirror
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.names import LEAD
from bullpen.store.memory import MemoryStore
from bullpen.team.team import Teams
from bullpen.testing.desks import RecordingDesk


@pytest.fixture
async def desk(tmp_path: Path) -> RecordingDesk:
    teams = Teams(MemoryStore())
    await teams.create("alpha")
    team = teams.open("alpha")
    for name in ("ann", "bob"):
        await team.roster.join(name, by=LEAD)
    spec = AgentSpec.new(driver="claude-code", backend="in-process", cwd=str(tmp_path))
    return RecordingDesk(team, "ann", tmp_path, spec)


def hook(event: str, **more: Any) -> dict[str, Any]:
    return {"hook_event_name": event, **more}


async def test_without_a_turn_no_call_is_permitted_and_no_mail_is_given(
    desk: RecordingDesk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The program is stopped while it waits; here nobody does so.
    monkeypatch.setattr(gate_module, "_STOPPED_S", 0.0)
    heard: list[Call | None] = []
    in_turn = False

    async def catch_up() -> None:
        pass

    gate = HookGate(
        desk,
        Mirror(tmp_path / "claude", "alpha", "ann"),
        catch_up=catch_up,
        mail_given=lambda ids: None,
        in_turn=lambda: in_turn,
        outside_turn=heard.append,
    )
    await desk.team.mailbox.send("ann", "Hello.", sender="bob")
    run = {"tool_name": "Bash", "tool_input": {"command": "touch made"}, "tool_use_id": "c-1"}
    answer = await gate.answer(hook("PreToolUse", **run))
    assert answer["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert await gate.answer(hook("PostToolUse", **run, tool_response="")) == {}
    assert await gate.answer(hook("Stop")) == {}
    assert [call and call.tool for call in heard] == ["Bash", None, None]
    assert (desk.wanted, desk.injected, desk.asked_to_spend) == ([], [], 0)
    # Its start is no work, and in a turn everything is as before.
    assert await gate.answer(hook("SessionStart")) == {}
    assert gate.has_started and len(heard) == 3
    in_turn = True
    answer = await gate.answer(hook("PreToolUse", **run))
    assert answer["hookSpecificOutput"]["permissionDecision"] == "allow"
    assert [call.tool for call in desk.wanted] == ["Bash"]


def test_what_gives_it_turns_or_mail_of_its_own_is_disabled() -> None:
    for tool in ("CronCreate", "ScheduleWakeup", "Monitor", "ProposeGoal", "RemoteTrigger"):
        assert tool in calls.DISALLOWED
    assert {"ListAgents", "ReadNotifications", "Agent", "Task", "Workflow"} <= set(calls.DISALLOWED)
    # Ours decides about this one: it reaches members of the team only.
    assert "SendMessage" in calls.TEAM_TOOLS


async def test_a_conversation_that_begins_anew_does_not_know_its_team(
    desk: RecordingDesk, tmp_path: Path
) -> None:
    """R-1.1: it begins anew when the program starts, and when it shortens its conversation."""

    async def catch_up() -> None:
        pass

    gate = HookGate(
        desk,
        Mirror(tmp_path / "claude", "alpha", "ann"),
        catch_up=catch_up,
        mail_given=lambda ids: None,
        in_turn=lambda: True,
        outside_turn=lambda call: None,
    )
    for source in ("startup", "resume", "compact"):
        gate.knows_team = True
        assert await gate.answer(hook("SessionStart", source=source)) == {}
        assert not gate.knows_team and gate.has_started
    gate.knows_team = True
    await gate.answer(hook("Stop"))
    assert gate.knows_team
