"""What the ends of hook commands mean: which are asked, and what their answers change."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from typing import Any

import pytest

from bullpen.agents.hooks import commands
from bullpen.agents.hooks.commands import run_hooks
from bullpen.agents.hooks.hook_set import Hook, HookSet, HookVerdict
from support.rows import each_row

from .test_commands import ASYNC, hooks

BASH = {"tool_name": "Bash", "tool_input": {"command": "git push"}}


def ends(code: int, out: str = "", err: str = "") -> str:
    """A command that ends like this."""
    return repr((code, out.encode(), err.encode()))


def answers(told: object) -> str:
    """A command that prints a JSON answer."""
    return ends(0, json.dumps(told))


def specific(**told: object) -> dict[str, object]:
    return {"hookSpecificOutput": {"hookEventName": "PreToolUse", **told}}


@pytest.fixture(autouse=True)
def no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands say how they end instead of being run."""

    async def ended(hook: Hook, payload: object, **where: object) -> tuple[int, bytes, bytes]:
        code, out, err = ast.literal_eval(hook.command)
        return code, out, err

    monkeypatch.setattr(commands, "_ended", ended)


async def ran(
    raw: Mapping[str, Any], event: str = "PreToolUse", payload: Mapping[str, Any] = BASH
) -> HookVerdict:
    return await run_hooks(HookSet.of(raw), event, payload, cwd="/", env={})


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


@each_row(("matcher", "runs"), MATCHERS)
async def test_a_matcher_is_read_as_claude_code_reads_it(matcher: str | None, runs: bool) -> None:
    verdict = await ran(hooks("PreToolUse", ends(2), matcher=matcher))
    assert (verdict.effect == "deny") == runs


async def test_events_without_tools_have_no_matcher() -> None:
    verdict = await ran(hooks("TaskCompleted", ends(2), matcher="Bash"), "TaskCompleted", {})
    assert verdict.effect == "deny"


async def test_the_matcher_of_a_start_is_the_type_of_the_agent() -> None:
    raw = hooks("SubagentStart", ends(2), matcher="reviewer")
    assert (await ran(raw, "SubagentStart", {"agent_type": "reviewer"})).refused
    assert not (await ran(raw, "SubagentStart", {"agent_type": "tester"})).refused


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (ends(0, '{"decision": '), "cannot be parsed"),
        (answers({"decision": ["deny"]}), "decision has the wrong type"),
        (answers(specific(updatedInput="x")), "updatedInput has the wrong type"),
    ],
)
async def test_an_answer_that_cannot_be_understood_is_trouble_and_no_refusal(
    command: str, words: str
) -> None:
    verdict = await ran(hooks("PreToolUse", command))
    assert verdict.effect is None
    (trouble,) = verdict.troubles
    assert words in trouble and "PreToolUse" in trouble


async def test_trouble_refuses_if_the_hook_is_said_to_deny_on_failure() -> None:
    verdict = await ran(hooks("PreToolUse", ends(1), onFailure="deny"))
    assert verdict.effect == "deny"
    assert "exit code 1" in verdict.why


ANSWERS: list[tuple[object, HookVerdict]] = [
    ({"decision": "block", "reason": "no"}, HookVerdict("deny", "no")),
    ({"decision": "approve", "reason": "ok"}, HookVerdict("allow", "ok")),
    (
        specific(permissionDecision="ask", permissionDecisionReason="look"),
        HookVerdict("ask", "look"),
    ),
    (
        specific(permissionDecision="allow", updatedInput={"command": "git status"}),
        HookVerdict("allow", "the hook", input={"command": "git status"}),
    ),
    ({"continue": False, "stopReason": "enough"}, HookVerdict(stop="enough")),
    (specific(additionalContext="Use uv."), HookVerdict(context=("Use uv.",))),
    ({"systemMessage": "slow today"}, HookVerdict(messages=("slow today",))),
    ({"continue": True, "suppressOutput": True}, HookVerdict()),
]


@pytest.mark.parametrize(("told", "expected"), ANSWERS)
async def test_an_answer_in_json_is_understood(told: object, expected: HookVerdict) -> None:
    verdict = await ran(hooks("PreToolUse", answers(told)))
    if expected.why == "the hook":
        assert verdict.why.startswith("the hook ")
        expected = HookVerdict("allow", verdict.why, input=expected.input)
    assert verdict == expected


async def test_what_is_printed_does_not_count_when_the_exit_code_refuses() -> None:
    allowing = json.dumps({"decision": "approve"})
    verdict = await ran(hooks("PreToolUse", ends(2, allowing, "no")))
    assert verdict.refused == "no"


async def test_ask_beats_allow() -> None:
    raw = hooks(
        "PreToolUse",
        answers(specific(permissionDecision="ask", permissionDecisionReason="hm")),
        answers(specific(permissionDecision="allow")),
    )
    verdict = await ran(raw)
    assert (verdict.effect, verdict.why) == ("ask", "hm")


async def test_what_an_async_hook_answers_changes_nothing() -> None:
    (group,) = ASYNC["Stop"]
    (hook,) = group["hooks"]
    raw = {"PreToolUse": [{"hooks": [{**hook, "command": ends(2)}]}]}
    assert (await ran(raw)).effect is None
