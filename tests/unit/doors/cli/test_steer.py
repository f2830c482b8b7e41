"""`bullpen mode` and `bullpen interrupt`: steer an agent while it runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bullpen.protocol.agent import ProcessRecord
from bullpen.protocol.payloads import Control, payload_of
from support.asking import hire, in_team

Run = Callable[..., Any]
Ok = Callable[..., str]


PLACE = ProcessRecord.new(backend="subprocess", host="elsewhere", pid=1, start="1")


def start(home: Path, name: str) -> None:
    """Make an agent a member that says that it is ready."""
    hire(home, name)
    in_team(home, lambda team: team.agents.ready(name, nonce=f"calc-{name}", place=PLACE))


@pytest.fixture(autouse=True)
def calc(ok: Ok) -> None:
    """A team."""
    ok("team", "create", "calc")


def test_a_mode_is_changed_and_the_policy_says_by_whom(ok: Ok, home: Path, as_json: Run) -> None:
    hire(home, "alice")
    assert ok("mode", "alice", "plan").strip() == (
        "alice is in mode plan from its next tool call on. In this mode it reads only, until a plan"
        " is approved."
    )
    assert "default; since then: a person changed it" in ok("policy", "show", "alice")
    changed = as_json("mode", "alice", "acceptEdits")
    assert changed == {
        "agent": "alice",
        "team": "calc",
        "mode": "acceptEdits",
    }
    assert as_json("policy", "show", "alice")["mode"] == "acceptEdits"


def test_without_a_mode_the_current_one_is_shown(ok: Ok, home: Path, as_json: Run) -> None:
    hire(home, "alice")
    assert ok("mode", "alice").startswith("alice is in mode default. In this mode it asks before")
    assert as_json("mode", "alice") == {
        "agent": "alice",
        "team": "calc",
        "mode": "default",
    }
    assert as_json("policy", "show", "alice")["modeBy"] is None


def test_an_interrupted_agent_gets_an_order_and_keeps_running(
    ok: Ok, home: Path, as_json: Run
) -> None:
    start(home, "alice")
    said = ok("interrupt", "alice", "--reason", "Wrong branch")
    assert said.startswith("Interrupted alice; it keeps running.")
    assert "bullpen send alice 'TEXT' -t calc" in said
    (entry,) = in_team(home, lambda team: team.mailbox.read("alice")).unread
    order = payload_of(entry.message.text)
    assert isinstance(order, Control)
    assert (order.action, order.sender, order.reason) == ("cancel", "team-lead", "Wrong branch")
    assert entry.message.is_of_a_person, "the agent's log names the person, not the lead"
    assert as_json("interrupt", "alice")["agent"] == "alice"


def test_what_does_not_run_has_no_turn_to_interrupt(run: Run, home: Path) -> None:
    hire(home, "alice")
    assert "it is still starting" in run("interrupt", "alice").stderr

    async def end(team: Any) -> None:
        nonce = (await team.agents.get("alice"))[1].nonce
        await team.agents.end("alice", "stopped", by="team-lead", nonce=nonce, cause="enough")

    in_team(home, end)
    result = run("interrupt", "alice")
    assert result.exit_code == 4
    assert "'alice' has no turn to interrupt: it has ended." in result.stderr
    assert run("interrupt", "nobody").exit_code == 3


def test_nobody_interrupts_an_agent_that_it_may_not_stop(run: Run, home: Path) -> None:
    start(home, "alice")
    start(home, "bob")
    result = run("interrupt", "alice", "--as", "bob")
    assert result.exit_code == 2
    assert "'bob' may not interrupt 'alice'." in result.stderr
    assert in_team(home, lambda team: team.mailbox.read("alice")).unread == ()
