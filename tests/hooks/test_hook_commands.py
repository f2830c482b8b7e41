"""Hook commands: which run, what their ends mean, and that none is left behind."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from crews import eventually

from bullpen.agents import processes
from bullpen.errors import Invalid
from bullpen.hooks import OUTPUT_BYTES_MAX, HookSet, Verdict, own_hooks

BASH = {"tool_name": "Bash", "tool_input": {"command": "git push"}}


def hooks(event: str, *commands: str, matcher: str | None = None, **more: Any) -> dict[str, Any]:
    """Hooks for one event, as Claude Code's settings name them."""
    group: dict[str, Any] = {
        "hooks": [{"type": "command", "command": each, **more} for each in commands]
    }
    if matcher is not None:
        group["matcher"] = matcher
    return {event: [group]}


async def ran(
    raw: Mapping[str, Any],
    event: str = "PreToolUse",
    payload: Mapping[str, Any] = BASH,
    *,
    cwd: str = "/",
    env: Mapping[str, str] | None = None,
) -> Verdict:
    return await HookSet.of(raw).run(event, payload, cwd=cwd, env=dict(env or os.environ))


def answers(told: object) -> str:
    """A command that prints a JSON answer."""
    return f"cat > /dev/null; printf '%s' '{json.dumps(told)}'"


def specific(**told: object) -> dict[str, object]:
    return {"hookSpecificOutput": {"hookEventName": "PreToolUse", **told}}


MATCHERS = [
    (None, True),
    ("", True),
    ("*", True),
    ("Bash", True),
    ("Bas", False),
    ("bash", False),
    ("Edit|Bash", True),
    ("Edit | Bash", True),
    ("Edit|Write", False),
    ("B.*", True),
    ("^(Bash|Edit)$", True),
    ("mcp__.*", False),
]


@pytest.mark.parametrize(("matcher", "runs"), MATCHERS)
async def test_a_matcher_is_read_as_claude_code_reads_it(matcher: str | None, runs: bool) -> None:
    verdict = await ran(hooks("PreToolUse", "exit 2", matcher=matcher))
    assert (verdict.effect == "deny") == runs


async def test_events_without_tools_have_no_matcher() -> None:
    verdict = await ran(hooks("TaskCompleted", "exit 2", matcher="Bash"), "TaskCompleted", {})
    assert verdict.effect == "deny"


async def test_the_matcher_of_a_start_is_the_type_of_the_agent() -> None:
    raw = hooks("SubagentStart", "exit 2", matcher="reviewer")
    assert (await ran(raw, "SubagentStart", {"agent_type": "reviewer"})).refused
    assert not (await ran(raw, "SubagentStart", {"agent_type": "tester"})).refused


async def test_exit_two_refuses_with_what_it_wrote_to_standard_error() -> None:
    verdict = await ran(hooks("PreToolUse", "echo out; echo 'not on a Friday' >&2; exit 2"))
    assert (verdict.effect, verdict.refused) == ("deny", "not on a Friday")
    assert verdict.troubles == ()


async def test_exit_zero_passes_whatever_it_prints() -> None:
    assert await ran(hooks("PreToolUse", "echo fine; echo hm >&2")) == Verdict()


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("echo broken >&2; exit 1", "exit code 1: broken"),
        ("/no/such/program", "exit code 127"),
        ("kill -9 $$", "exit code -9"),
        ("echo '{\"decision\": '", "cannot be read"),
        (answers({"decision": "perhaps"}), "decision 'perhaps' is not known"),
        (answers({"decision": ["deny"]}), "decision has the wrong form"),
        (answers(specific(updatedInput="x")), "updatedInput has the wrong form"),
    ],
)
async def test_any_other_end_is_trouble_and_no_refusal(command: str, words: str) -> None:
    verdict = await ran(hooks("PreToolUse", command))
    assert verdict.effect is None
    (trouble,) = verdict.troubles
    assert words in trouble and "PreToolUse" in trouble


async def test_trouble_refuses_if_the_hook_is_said_to_deny_on_failure() -> None:
    verdict = await ran(hooks("PreToolUse", "exit 1", onFailure="deny"))
    assert verdict.effect == "deny"
    assert "exit code 1" in verdict.why


async def test_a_directory_that_is_gone_is_trouble(tmp_path: Path) -> None:
    verdict = await ran(hooks("PreToolUse", "exit 2"), cwd=str(tmp_path / "gone"))
    assert verdict.effect is None and "could not be run" in verdict.troubles[0]


ANSWERS: list[tuple[object, Verdict]] = [
    ({"decision": "block", "reason": "no"}, Verdict("deny", "no")),
    ({"decision": "approve", "reason": "ok"}, Verdict("allow", "ok")),
    (
        specific(permissionDecision="ask", permissionDecisionReason="look"),
        Verdict("ask", "look"),
    ),
    (
        specific(permissionDecision="allow", updatedInput={"command": "git status"}),
        Verdict("allow", "the hook", input={"command": "git status"}),
    ),
    ({"continue": False, "stopReason": "enough"}, Verdict(stop="enough")),
    (specific(additionalContext="Use uv."), Verdict(context=("Use uv.",))),
    ({"systemMessage": "slow today"}, Verdict(messages=("slow today",))),
    ({"continue": True, "suppressOutput": True}, Verdict()),
]


@pytest.mark.parametrize(("told", "expected"), ANSWERS)
async def test_an_answer_in_json_is_understood(told: object, expected: Verdict) -> None:
    verdict = await ran(hooks("PreToolUse", answers(told)))
    if expected.why == "the hook":
        assert verdict.why.startswith("the hook ")
        expected = Verdict("allow", verdict.why, input=expected.input)
    assert verdict == expected


async def test_what_is_printed_does_not_count_when_the_exit_code_refuses() -> None:
    allowing = answers({"decision": "approve"})
    verdict = await ran(hooks("PreToolUse", f"{allowing}; echo no >&2; exit 2"))
    assert verdict.refused == "no"


async def test_the_payload_comes_on_standard_input_whole(tmp_path: Path) -> None:
    payload = {**BASH, "text": "é\n" * 200_000}
    await ran(hooks("PreToolUse", f"cat > {tmp_path}/got"), payload=payload)
    assert json.loads((tmp_path / "got").read_bytes()) == payload


async def test_a_hook_need_not_read_what_it_is_told() -> None:
    verdict = await ran(hooks("PreToolUse", "exit 2"), payload={**BASH, "text": "x" * 1_000_000})
    assert verdict.effect == "deny"


async def test_output_is_bounded_and_does_not_block() -> None:
    verdict = await ran(hooks("PreToolUse", "head -c 3000000 /dev/zero >&2; exit 2"))
    assert verdict.effect == "deny"
    assert len(verdict.why) <= OUTPUT_BYTES_MAX


async def test_several_hooks_run_at_the_same_time_and_the_strictest_wins() -> None:
    began = time.monotonic()
    raw = hooks(
        "PreToolUse",
        f"sleep 0.6; {answers(specific(permissionDecision='allow'))}",
        f"sleep 0.6; {answers(specific(permissionDecision='ask', permissionDecisionReason='hm'))}",
        "sleep 0.6; echo first no >&2; exit 2",
        "sleep 0.6; echo second no >&2; exit 2",
    )
    verdict = await ran(raw)
    assert time.monotonic() - began < 2.0
    assert verdict.effect == "deny"
    assert verdict.why.splitlines() == ["first no", "second no"]


async def test_ask_beats_allow() -> None:
    raw = hooks(
        "PreToolUse",
        answers(specific(permissionDecision="ask", permissionDecisionReason="hm")),
        answers(specific(permissionDecision="allow")),
    )
    verdict = await ran(raw)
    assert (verdict.effect, verdict.why) == ("ask", "hm")


async def test_the_same_command_from_two_files_runs_once(tmp_path: Path) -> None:
    command = f"echo x >> {tmp_path}/ran"
    group = hooks("Stop", command)["Stop"][0]
    await ran({"Stop": [{**group, "source": "a"}, {**group, "source": "b"}]}, "Stop", {})
    assert (tmp_path / "ran").read_text() == "x\n"


async def test_the_environment_is_what_is_given_and_the_project(tmp_path: Path) -> None:
    raw = hooks("Stop", f"env > {tmp_path}/env; pwd > {tmp_path}/pwd")
    raw["Stop"][0]["project"] = "/the/project"
    await ran(raw, "Stop", {}, cwd=str(tmp_path), env={"PATH": "/usr/bin:/bin", "MINE": "1"})
    found = dict(line.split("=", 1) for line in (tmp_path / "env").read_text().splitlines())
    assert found["CLAUDE_PROJECT_DIR"] == "/the/project"
    assert set(found) <= {"PATH", "MINE", "CLAUDE_PROJECT_DIR", "PWD", "SHLVL", "_", "OLDPWD"}
    assert (tmp_path / "pwd").read_text().strip() == str(tmp_path)


def alive(path: Path) -> bool:
    """Whether the process whose id is in a file runs; one that nobody waited for does not."""
    row = processes.look(int(path.read_text(encoding="utf-8")))
    return row is not None and row.runs


STUBBORN = (
    "trap '' TERM; sleep 60 & echo $! > {0}/child; echo $$ > {0}/h; mv {0}/h {0}/hook;"
    " wait; sleep 60"
)


async def test_a_hook_that_takes_too_long_is_ended_with_all_it_started(tmp_path: Path) -> None:
    verdict = await ran(hooks("PreToolUse", STUBBORN.format(tmp_path), timeout=1.5))
    assert verdict.effect is None
    assert "took longer than 1.5 s" in verdict.troubles[0]
    assert not alive(tmp_path / "hook")
    await eventually(lambda: not alive(tmp_path / "child"), within_s=3)


async def test_a_hook_is_ended_when_the_agent_is_cancelled(tmp_path: Path) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(ran, hooks("PreToolUse", STUBBORN.format(tmp_path)))
        await eventually(lambda: (tmp_path / "hook").exists())
        assert alive(tmp_path / "hook") and alive(tmp_path / "child")
        group.cancel_scope.cancel()
    assert not alive(tmp_path / "hook")
    await eventually(lambda: not alive(tmp_path / "child"), within_s=3)


async def test_what_a_hook_leaves_in_the_background_does_not_hold_it_up(tmp_path: Path) -> None:
    began = time.monotonic()
    await ran(hooks("Stop", f"sleep 30 & echo $! > {tmp_path}/child"), "Stop", {})
    assert time.monotonic() - began < 5
    os.kill(int((tmp_path / "child").read_text()), 9)


ASYNC = {"Stop": [{"hooks": [{"type": "command", "command": "exit 2", "async": True}]}]}
UNUSED = [
    (hooks("PreCompact", "x"), "PreCompact: hooks of this event are not run"),
    ({"Stop": [{"hooks": [{"type": "prompt", "prompt": "?"}]}]}, "Stop: hooks of type 'prompt'"),
    (hooks("Stop", "x", shell="powershell"), "Stop: hooks of type 'powershell'"),
    (hooks("Stop", "true", once=True), "'once' of the hook 'true' is not known"),
    ({"PostToolUse": ASYNC["Stop"]}, "is waited for"),
]


@pytest.mark.parametrize(("raw", "words"), UNUSED)
def test_what_is_not_run_is_named(raw: dict[str, Any], words: str) -> None:
    (problem,) = HookSet.of(raw).problems()
    assert words in problem


async def test_what_an_async_hook_answers_changes_nothing() -> None:
    assert (await ran({"PreToolUse": ASYNC["Stop"]})).effect is None


async def test_a_hook_can_be_a_program_with_arguments(tmp_path: Path) -> None:
    await ran(hooks("Stop", "touch", args=[f"{tmp_path}/a b"]), "Stop", {})
    assert (tmp_path / "a b").exists()


WRONG = [
    {"Stop": {"hooks": []}},
    {"Stop": [{"hooks": "x"}]},
    {"Stop": [{}]},
    hooks("Stop", " "),
    hooks("Stop", "x", timeout="soon"),
    hooks("Stop", "x", timeout=0),
    hooks("Stop", "x", timeout=True),
    hooks("Stop", "x", onFailure="allow"),
    hooks("PreToolUse", "x", matcher="Bash("),
    {"breaker": 0},
]


@pytest.mark.parametrize("raw", WRONG)
def test_what_cannot_be_understood_is_refused(raw: dict[str, Any]) -> None:
    with pytest.raises(Invalid, match="The hooks cannot be used: "):
        HookSet.of(raw)


def test_hooks_in_our_own_settings_say_the_same() -> None:
    table = {
        "breaker": 5,
        "TaskCompleted": [{"run": "make test", "timeout_s": 30, "on_failure": "deny"}],
        "PreToolUse": [{"run": "./guard", "matcher": "Bash"}],
    }
    found = HookSet.of(own_hooks(table))
    completed, before = found.hooks
    assert found.breaker == 5
    assert (completed.command, completed.timeout_s) == ("make test", 30.0)
    assert completed.denies_on_failure and not before.denies_on_failure
    assert (before.matcher, before.timeout_s) == ("Bash", 60.0)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"PreCompact": []}, "there is no event 'PreCompact'"),
        ({"Stop": [{"run": "x", "timeout": 3}]}, "there is no field 'timeout'"),
        ({"Stop": [{"matcher": "x"}]}, "a hook has no command"),
    ],
)
def test_unknown_words_in_our_own_settings_are_refused(table: dict[str, Any], words: str) -> None:
    with pytest.raises(Invalid, match=words):
        own_hooks(table)
