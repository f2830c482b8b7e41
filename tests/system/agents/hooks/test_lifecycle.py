"""Hooks of an agent at work: when they run, what they are told, what their answers do."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.contracts.driver import TurnInput
from bullpen.agents.tools.toolbox import call, toolbox
from bullpen.protocol.names import LEAD
from bullpen.protocol.payloads import Control
from bullpen.team.team import Team
from support.crews import Crew, Hired, eventually

GOLDEN = Path(__file__).parents[3] / "golden"
ROUNDS = 3
"""After so many refusals the breaker is open."""


def hook(event: str, command: str, matcher: str = "", **more: Any) -> dict[str, Any]:
    return {event: [{"matcher": matcher, "hooks": [{"command": command, **more}]}]}


def told(folder: Path, event: str) -> dict[str, Any]:
    """Hooks that keep what they were told of an event in a file."""
    return hook(event, f"cat >> {folder}/{event}.jsonl")


def payloads(folder: Path, event: str) -> list[dict[str, Any]]:
    path = folder / f"{event}.jsonl"
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def uses(tool: str, **given: Any) -> Callable[[TurnInput, Desk], Awaitable[str]]:
    """A turn that calls a tool and says what came of it."""

    async def turn(_: TurnInput, desk: Desk) -> str:
        text, _failed = await call(toolbox(desk), tool, given, desk)
        return text

    return turn


async def letters(team: Team) -> list[str]:
    """What agents wrote to the lead, idle notices left out."""
    box = await team.mailbox.read(LEAD)
    texts = [entry.message.text for entry in box.entries]
    return [text for text in texts if not text.startswith("{")]


def last_words(agent: Hired) -> list[str]:
    return [row["text"] for row in agent.told("end")]


async def rested(agent: Hired, turns: int) -> None:
    await eventually(lambda: len(last_words(agent)) >= turns)
    await eventually(lambda: agent.desk.activity.state == "idle")


async def test_a_refused_call_is_not_made_and_the_model_reads_why(
    crew: Crew, tmp_path: Path
) -> None:
    made = tmp_path / "made"
    guard = hook("PreToolUse", "echo 'no touching.' >&2; exit 2", "Bash")
    turn = uses("Bash", command=f"touch {made}")
    alice = await crew.hire("alice", turn, prompt="Go", hooks=guard)
    await rested(alice, 1)
    assert "a hook refused the call: no touching. (reason: denied)" in last_words(alice)[0]
    assert not made.exists()
    assert alice.told("hook")[0]["effect"] == "deny"


async def test_a_hook_can_change_the_input_and_those_after_see_the_change(
    crew: Crew, tmp_path: Path
) -> None:
    changed = {"command": f"echo changed > {tmp_path}/made"}
    answer = json.dumps({"hookSpecificOutput": {"updatedInput": changed}})
    before = hook("PreToolUse", f"cat > /dev/null; echo '{answer}'")
    hooks = {**before, **told(tmp_path, "PostToolUse")}
    alice = await crew.hire("alice", uses("Bash", command="echo first"), prompt="Go", hooks=hooks)
    await rested(alice, 1)
    assert (tmp_path / "made").read_text(encoding="utf-8") == "changed\n"
    assert payloads(tmp_path, "PostToolUse")[0]["tool_input"] == changed


async def test_a_call_that_worked_and_one_that_failed_are_two_events(
    crew: Crew, tmp_path: Path
) -> None:
    hooks = {**told(tmp_path, "PostToolUse"), **told(tmp_path, "PostToolUseFailure")}

    async def turn(_: TurnInput, desk: Desk) -> str:
        tools = toolbox(desk)
        await call(tools, "Bash", {"command": "echo hello"}, desk, use_id="toolu_1")
        await call(tools, "Read", {"file_path": str(tmp_path / "none")}, desk)
        return ""

    alice = await crew.hire("alice", turn, prompt="Go", hooks=hooks)
    await rested(alice, 1)
    (worked,) = payloads(tmp_path, "PostToolUse")
    (failed,) = payloads(tmp_path, "PostToolUseFailure")
    assert worked["tool_name"] == "Bash" and worked["tool_use_id"] == "toolu_1"
    assert "hello" in worked["tool_response"]["stdout"]
    assert failed["tool_name"] == "Read" and failed["error"]


async def test_what_a_hook_says_after_a_call_is_read_with_the_result(crew: Crew) -> None:
    context = json.dumps({"hookSpecificOutput": {"additionalContext": "Use tabs."}})
    hooks = {
        **hook("PreToolUse", f"echo '{context}'"),
        **hook("PostToolUse", "echo 'not formatted' >&2; exit 2"),
    }
    alice = await crew.hire("alice", uses("Bash", command="echo hi"), prompt="Go", hooks=hooks)
    await rested(alice, 1)
    (text,) = last_words(alice)
    assert text.startswith("hi") and "Use tabs." in text and "not formatted" in text


async def test_a_rule_decides_for_which_calls_a_hook_runs(crew: Crew) -> None:
    hooks = hook("PreToolUse", "exit 2", "Bash", **{"if": "Bash(git push:*)"})

    async def turn(_: TurnInput, desk: Desk) -> str:
        results = [
            await call(toolbox(desk), "Bash", {"command": command}, desk)
            for command in ("echo one", "echo two && git push")
        ]
        return json.dumps([failed for _, failed in results])

    alice = await crew.hire("alice", turn, prompt="Go", hooks=hooks)
    await rested(alice, 1)
    assert last_words(alice) == ["[false, true]"]


async def test_trouble_is_kept_and_the_call_is_made(crew: Crew) -> None:
    hooks = hook("PreToolUse", "echo oops >&2; exit 7")
    alice = await crew.hire("alice", uses("Bash", command="echo hi"), prompt="Go", hooks=hooks)
    await rested(alice, 1)
    assert last_words(alice)[0].startswith("hi")
    assert any("exit code 7: oops" in row["text"] for row in alice.told("trouble"))


async def test_a_task_that_a_hook_refuses_is_not_added(crew: Crew) -> None:
    hooks = hook("TaskCreated", "echo 'too vague' >&2; exit 2")
    turn = uses("TaskCreate", subject="Do it", description="?")
    alice = await crew.hire("alice", turn, prompt="Go", hooks=hooks)
    await rested(alice, 1)
    assert "too vague" in last_words(alice)[0]
    assert (await crew.team.tasks.list()).tasks == []


async def test_a_gate_keeps_a_task_open_until_it_passes(crew: Crew, tmp_path: Path) -> None:
    hooks = hook("TaskCompleted", f"test -e {tmp_path}/proof || {{ echo 'no proof' >&2; exit 2; }}")

    async def turn(_: TurnInput, desk: Desk) -> str:
        done = {"taskId": "1", "status": "completed"}
        refused, failed = await call(toolbox(desk), "TaskUpdate", done, desk)
        assert failed and (await desk.team.tasks.get("1")).status == "in_progress"
        (tmp_path / "proof").touch()
        return refused + (await call(toolbox(desk), "TaskUpdate", done, desk))[0]

    await crew.team.tasks.add("Prove it", by=LEAD)
    alice = await crew.hire("alice", turn, claims=True, hooks=hooks)
    await rested(alice, 1)
    assert "no proof" in last_words(alice)[0]
    assert (await crew.team.tasks.get("1")).status == "completed"


@pytest.mark.parametrize("event", ["TeammateIdle", "Stop"])
async def test_a_hook_that_always_refuses_costs_at_most_so_many_turns(
    crew: Crew, event: str
) -> None:
    """R-7.5: hook that always exits 2: at most N turns; the lead is told once."""
    hooks = hook(event, "echo 'write the tests' >&2; exit 2")
    alice = await crew.hire("alice", prompt="Go", hooks=hooks)
    await rested(alice, ROUNDS)
    await eventually(lambda: len(alice.told("trouble")) == 1)
    (letter,) = await letters(crew.team)
    assert "3 times in a row" in letter and "write the tests" in letter
    assert "write the tests" in alice.turns[1] and "write the tests" in alice.turns[2]
    # Another turn, for a reason of its own, is one more turn and no second letter.
    await crew.team.mailbox.send("alice", "Still there?", sender=LEAD)
    await rested(alice, ROUNDS + 1)
    await crew.team.mailbox.send("alice", "And now?", sender=LEAD)
    await rested(alice, ROUNDS + 2)
    assert len(alice.turns) == ROUNDS + 2
    assert len(await letters(crew.team)) == 1


async def test_two_hooks_that_always_refuse_cost_no_more_than_one(crew: Crew) -> None:
    """R-7.5: at most N turns, whatever the names of the hooks are."""
    hooks = {**hook("Stop", "exit 2"), **hook("TeammateIdle", "exit 2"), "breaker": 2}
    alice = await crew.hire("alice", prompt="Go", hooks=hooks)
    await rested(alice, 2)
    await eventually(lambda: len(alice.told("trouble")) == 1)
    await crew.team.mailbox.send("alice", "Still there?", sender=LEAD)
    await rested(alice, 3)
    assert len(alice.turns) == 3


async def test_a_hook_that_passes_in_between_is_counted_anew(crew: Crew, tmp_path: Path) -> None:
    """R-7.5: only refusals in a row open the breaker."""
    count = f"echo x >> {tmp_path}/n; case $(wc -l < {tmp_path}/n) in 3) exit 0;; *) exit 2; esac"
    alice = await crew.hire("alice", prompt="Go", hooks=hook("TeammateIdle", count))
    await rested(alice, 3)
    assert not await letters(crew.team)
    await crew.team.mailbox.send("alice", "Again", sender=LEAD)
    await rested(alice, 6)
    assert len(await letters(crew.team)) == 1


async def test_the_lead_is_not_a_teammate_that_idles(crew: Crew) -> None:
    hooks = {**hook("TeammateIdle", "exit 2"), **hook("SubagentStart", "exit 2")}
    lead = await crew.hire(LEAD, prompt="Go", hooks=hooks)
    await rested(lead, 1)
    assert not lead.told("hook")


async def test_declared_waiting_is_not_idle(crew: Crew, tmp_path: Path) -> None:
    """R-7.5: an agent that asked somebody and waits for the answer is not nagged."""
    await crew.hire("bob")
    hooks = {**told(tmp_path, "TeammateIdle"), **told(tmp_path, "Stop")}
    ask = uses(
        "SendMessage", recipient="bob", content="Which port?", summary="Port?", type="message"
    )
    alice = await crew.hire("alice", ask, prompt="Go", hooks=hooks)
    await rested(alice, 1)
    await eventually(lambda: len(payloads(tmp_path, "Stop")) == 1)
    assert not last_words(alice)[0].startswith("Invalid input"), last_words(alice)
    assert payloads(tmp_path, "TeammateIdle") == []


async def test_a_task_that_never_passes_its_gate_is_given_back_for_good(crew: Crew) -> None:
    """R-7.5: the completion stays refused, and the agent leaves the task."""
    hooks = hook("TaskCompleted", "echo 'tests fail' >&2; exit 2")
    said: list[str] = []

    async def turn(_: TurnInput, desk: Desk) -> str:
        done = {"taskId": "1", "status": "completed"}
        said.append((await call(toolbox(desk), "TaskUpdate", done, desk))[0])
        return ""

    await crew.team.tasks.add("Impossible", by=LEAD)
    alice = await crew.hire("alice", turn, claims=True, hooks=hooks)
    await rested(alice, ROUNDS)
    assert len(said) == ROUNDS and "Do not work on it again" in said[-1]
    task = await crew.team.tasks.get("1")
    assert (task.status, task.owner) == ("pending", None)
    await eventually(lambda: len(alice.told("trouble")) == 1)
    (letter,) = await letters(crew.team)
    assert "task #1" in letter and "gave the task back" in letter
    claim = {"taskId": "1", "status": "in_progress"}
    text, failed = await call(toolbox(alice.desk), "TaskUpdate", claim, alice.desk)
    assert failed and "refused too often" in text
    # Whoever gives it to this agent again knows why.
    await crew.team.tasks.assign("1", "alice", by=LEAD)
    text, failed = await call(toolbox(alice.desk), "TaskUpdate", claim, alice.desk)
    assert not failed, text


async def test_a_hook_can_end_an_agent(crew: Crew) -> None:
    answer = json.dumps({"continue": False, "stopReason": "the budget is for tests"})
    alice = await crew.hire("alice", prompt="Go", hooks=hook("TeammateIdle", f"echo '{answer}'"))
    await eventually(lambda: alice.ended is not None)
    assert alice.ended is not None and alice.ended.cause == "the budget is for tests"
    assert len(alice.turns) == 1


async def test_a_stop_order_does_not_wait_for_a_hook(crew: Crew, tmp_path: Path) -> None:
    hooks = hook("TeammateIdle", f"touch {tmp_path}/begun; sleep 60")
    alice = await crew.hire("alice", prompt="Go", hooks=hooks)
    await eventually(lambda: (tmp_path / "begun").exists())
    text = Control.new(action="stop", sender=LEAD).text()
    await crew.team.mailbox.send("alice", text, sender=LEAD)
    await eventually(lambda: alice.ended is not None, within_s=30)


async def test_a_hook_has_the_environment_of_a_command_and_no_key_of_the_model(
    crew: Crew, tmp_path: Path
) -> None:
    alice = await crew.hire("alice", hooks=hook("Stop", f"env > {tmp_path}/env"))
    alice.desk.env = {"ANTHROPIC_API_KEY": "sk-secret", "MINE": "1", "BULLPEN_HOME": "/h"}
    await crew.team.mailbox.send("alice", "Go", sender=LEAD)
    await eventually(lambda: (tmp_path / "env").exists())
    await rested(alice, 1)
    found = (tmp_path / "env").read_text(encoding="utf-8").splitlines()
    assert {"MINE=1", "BULLPEN_HOME=/h", "BULLPEN_TEAM=alpha", "BULLPEN_AGENT=alice"} <= {*found}
    assert any(line.startswith("CLAUDE_PROJECT_DIR=") for line in found)
    assert "sk-secret" not in "".join(found)


async def test_start_and_end_are_told_and_the_start_can_say_something(
    crew: Crew, tmp_path: Path
) -> None:
    context = json.dumps({"hookSpecificOutput": {"additionalContext": "The port is 8080."}})
    start = hook("SubagentStart", f"cat >> {tmp_path}/SubagentStart.jsonl; echo '{context}'")
    hooks = {**start, **told(tmp_path, "SubagentStop")}
    alice = await crew.hire("alice", prompt="Go", hooks=hooks)
    await rested(alice, 1)
    assert "The port is 8080." in alice.turns[0]
    alice.runner.stop("stopped", "enough")
    await eventually(lambda: alice.ended is not None)
    assert payloads(tmp_path, "SubagentStart")[0]["agent_type"] == "general-purpose"
    assert payloads(tmp_path, "SubagentStop")[0]["reason"] == "enough"


@pytest.mark.parametrize("version", ["2.1.41", "2.1.177", "2.1.325"])
async def test_the_payloads_have_the_fields_of_the_real_program(
    crew: Crew, tmp_path: Path, version: str
) -> None:
    """R-7.5: what Claude Code tells, and who, which task, which attempt and why beside it."""
    events = ["TaskCompleted", "TeammateIdle"]
    await crew.team.tasks.add("T1", description="d1", by=LEAD)
    done = uses("TaskUpdate", taskId="1", status="completed")
    hooks = {**told(tmp_path, events[0]), **told(tmp_path, events[1])}
    alice = await crew.hire("alice", done, claims=True, hooks=hooks)
    await rested(alice, 1)
    await eventually(lambda: len(payloads(tmp_path, "TeammateIdle")) == 1)
    for event in events:
        (payload,) = payloads(tmp_path, event)
        golden = json.loads((GOLDEN / version / f"hook-{event}.json").read_text(encoding="utf-8"))
        assert [key for key in payload if key in golden] == list(golden)
        mine = {"team": "alpha", "agent": "alice", "parent": LEAD}
        assert {key: payload[key] for key in mine} == mine
        (row,) = payload["task_snapshot"]
        assert (row["id"], row["subject"], row["owner"]) == ("1", "T1", "alice")
    (completed,) = payloads(tmp_path, "TaskCompleted")
    assert (completed["task"], completed["attempt"], completed["task_subject"]) == ("1", 1, "T1")
    assert completed["task_snapshot"][0]["status"] == "in_progress"
    assert payloads(tmp_path, "TeammateIdle")[0]["reason"] == "available"


async def test_a_lead_that_adds_a_task_is_told_as_the_real_program_tells_it(
    crew: Crew, tmp_path: Path
) -> None:
    turn = uses("TaskCreate", subject="T1", description="d1")
    lead = await crew.hire(LEAD, turn, prompt="Go", hooks=told(tmp_path, "TaskCreated"))
    await rested(lead, 1)
    (payload,) = payloads(tmp_path, "TaskCreated")
    golden = json.loads((GOLDEN / "2.1.177/hook-TaskCreated.json").read_text(encoding="utf-8"))
    assert [key for key in payload if key in golden] == list(golden)
    assert "teammate_name" not in payload and payload["agent"] == LEAD
