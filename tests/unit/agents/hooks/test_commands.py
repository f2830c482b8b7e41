"""Hook commands: which run, what their ends mean, and that none is left behind."""

from __future__ import annotations

from typing import Any

import pytest

from bullpen.agents.hooks.commands import matches
from bullpen.agents.hooks.hook_set import HookSet, own_hooks
from bullpen.errors import Invalid
from support.rows import each_row


def hooks(event: str, *commands: str, matcher: str | None = None, **more: Any) -> dict[str, Any]:
    """Hooks for one event, as Claude Code's settings name them."""
    group: dict[str, Any] = {
        "hooks": [{"type": "command", "command": each, **more} for each in commands]
    }
    if matcher is not None:
        group["matcher"] = matcher
    return {event: [group]}


ASYNC = {"Stop": [{"hooks": [{"type": "command", "command": "exit 2", "async": True}]}]}
UNUSED = [
    (hooks("PreCompact", "x"), "PreCompact: Bullpen does not run hooks for this event"),
    (
        {"Stop": [{"hooks": [{"type": "prompt", "prompt": "?"}]}]},
        "Stop: Bullpen does not run hooks of type 'prompt'",
    ),
    (
        hooks("Stop", "x", shell="powershell"),
        "Stop: Bullpen does not run hooks of type 'powershell'",
    ),
    (hooks("Stop", "true", once=True), "Bullpen ignores 'once' of the hook 'true'"),
    ({"PostToolUse": ASYNC["Stop"]}, "Bullpen waits for the async hook"),
]


@pytest.mark.parametrize(("raw", "words"), UNUSED)
def test_what_is_not_run_is_named(raw: dict[str, Any], words: str) -> None:
    (problem,) = HookSet.of(raw).unused
    assert words in problem


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


@each_row("raw", WRONG)
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
        ({"PreCompact": []}, "unknown event 'PreCompact'"),
        ({"Stop": [{"run": "x", "timeout": 3}]}, "unknown field 'timeout'"),
        ({"Stop": [{"matcher": "x"}]}, "a hook has no command"),
    ],
)
def test_unknown_words_in_our_own_settings_are_refused(table: dict[str, Any], words: str) -> None:
    with pytest.raises(Invalid, match=words):
        own_hooks(table)


@pytest.mark.parametrize("matcher", ["Task", "SpawnTeammate"])
def test_a_hook_about_one_name_of_a_tool_is_about_the_other_too(matcher: str) -> None:
    (hook,) = HookSet.of(hooks("PreToolUse", "./guard", matcher=matcher)).hooks
    for name in ("Task", "SpawnTeammate"):
        assert matches(hook, {"tool_name": name}, None)
    assert not matches(hook, {"tool_name": "TaskGet"}, None)
