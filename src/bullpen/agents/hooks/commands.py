"""Run hook commands and interpret their answers.

A hook gets JSON on standard input. Exit code 0 passes, and the output may be a JSON answer. Exit
code 2 refuses, with standard error as the feedback. Any other end is a failure, which is reported.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

import anyio

from bullpen.agents.hooks.hook_set import Hook, HookSet, HookVerdict, matches_name
from bullpen.agents.permissions.rule_language.rule import names_of
from bullpen.agents.system.run_command import keep_first, running, shell
from bullpen.errors import Unavailable
from bullpen.protocol import json_text
from bullpen.team.requests.mode_rules import Effect

OUTPUT_BYTES_MAX = 256 * 1024

Fits = Callable[[str], bool]
"""Whether a rule such as `Bash(git:*)` matches the call of an event."""

# The field that the matcher of an event is compared with. Other events ignore matchers.
_MATCHED = {
    "PreToolUse": "tool_name",
    "PostToolUse": "tool_name",
    "PostToolUseFailure": "tool_name",
    "SubagentStart": "agent_type",
    "SubagentStop": "agent_type",
}
_WORDS_MAX = 8_000
_GRACE_S = 1.0
_EFFECTS: dict[str, Effect] = {
    "allow": "allow",
    "ask": "ask",
    "deny": "deny",
    # The older words for the first and the last.
    "approve": "allow",
    "block": "deny",
}


async def run_hooks(
    hooks: HookSet,
    event: str,
    payload: Mapping[str, Any],
    *,
    cwd: str,
    env: Mapping[str, str],
    fits: Fits | None = None,
) -> HookVerdict:
    """Run all matching hooks in parallel and combine their answers.

    If this is cancelled, running hooks are killed.
    """
    wanted = [h for h in hooks.hooks if h.event == event and matches(h, payload, fits)]
    # The same command from two files runs once.
    unique = {(hook.project, *_argv(hook)): hook for hook in reversed(wanted)}
    chosen = list(reversed(unique.values()))
    verdicts = [HookVerdict()] * len(chosen)

    async def one(index: int, hook: Hook) -> None:
        verdicts[index] = await _run(hook, payload, cwd=cwd, env=env)

    async with anyio.create_task_group() as group:
        for index, hook in enumerate(chosen):
            group.start_soon(one, index, hook)
    together = HookVerdict()
    for verdict in verdicts:
        together = together.with_(verdict)
    return together


def matches(hook: Hook, payload: Mapping[str, Any], fits: Fits | None) -> bool:
    """Whether to run a hook for an event with this payload."""
    about = _MATCHED.get(hook.event)
    if about is not None:
        name = str(payload.get(about) or "")
        if not any(matches_name(hook.matcher, each) for each in names_of(name)):
            return False
    return hook.only is None or fits is None or fits(hook.only)


def _argv(hook: Hook) -> list[str]:
    """The command line that runs a hook."""
    return shell(hook.command) if hook.args is None else [hook.command, *hook.args]


async def _run(
    hook: Hook, payload: Mapping[str, Any], *, cwd: str, env: Mapping[str, str]
) -> HookVerdict:
    """Run one hook to its end and interpret the result."""
    environ = {**env, "CLAUDE_PROJECT_DIR": hook.project or cwd}
    try:
        code, out, err = await _ended(hook, payload, cwd=cwd, env=environ)
        verdict = _answer(hook, code, out, err)
    except TimeoutError:
        verdict = _trouble(hook, f"timed out after {hook.timeout_s:g} s and was killed")
    except (OSError, Unavailable) as error:
        verdict = _trouble(hook, f"could not be run: {error.__cause__ or error}")
    if hook.detached:
        return HookVerdict(troubles=verdict.troubles, messages=verdict.messages)
    return verdict


async def _ended(
    hook: Hook, payload: Mapping[str, Any], *, cwd: str, env: Mapping[str, str]
) -> tuple[int, bytes, bytes]:
    """The exit code and the output. On a timeout, the hook's process group is killed."""
    out, err = bytearray(), bytearray()
    with tempfile.TemporaryFile() as given:
        given.write(json_text.dumps_line(dict(payload)) + b"\n")
        given.seek(0)
        async with running(
            _argv(hook),
            cwd=cwd,
            env=env,
            takes=[keep_first(out, OUTPUT_BYTES_MAX), keep_first(err, OUTPUT_BYTES_MAX)],
            stdin=given,
            grace_s=_GRACE_S,
        ) as command:
            with anyio.fail_after(hook.timeout_s):
                code = await command.finished()
    return code, bytes(out), bytes(err)


def _answer(hook: Hook, code: int, out: bytes, err: bytes) -> HookVerdict:
    """Interpret the exit code and the output of a hook."""
    words = err.decode("utf-8", "replace").strip()[:_WORDS_MAX]
    if code == 2:
        return HookVerdict("deny", words or f"the hook {hook.command!r} refused without a reason")
    if code != 0:
        said = f": {words}" if words else ""
        return _trouble(hook, f"failed with exit code {code}{said}")
    text = out.decode("utf-8", "replace").strip()
    if not text.startswith("{"):
        return HookVerdict()
    try:
        told = json.loads(text)
        return _told(hook, told)
    except (ValueError, RecursionError) as error:
        return _trouble(hook, f"printed an answer that cannot be parsed ({error})")


def _told(hook: Hook, told: dict[str, Any]) -> HookVerdict:
    """Interpret a JSON answer. Raises ValueError if a part of it has the wrong type."""
    specific = _typed(told, "hookSpecificOutput", dict) or {}
    effect = _effect(told, specific)
    why = _typed(specific, "permissionDecisionReason", str) or _typed(told, "reason", str) or ""
    stop = None
    if told.get("continue") is False:
        stop = _typed(told, "stopReason", str) or f"the hook {hook.command!r} gave no reason"
    context = [_typed(each, "additionalContext", str) for each in (told, specific)]
    message = _typed(told, "systemMessage", str)
    return HookVerdict(
        effect=effect,
        why=(why or f"the hook {hook.command!r} gave no reason")[:_WORDS_MAX] if effect else "",
        input=_typed(specific, "updatedInput", dict),
        context=tuple(each[:_WORDS_MAX] for each in context if each),
        messages=(message[:_WORDS_MAX],) if message else (),
        stop=stop,
    )


def _effect(told: Mapping[str, Any], specific: Mapping[str, Any]) -> Effect | None:
    for values, name in ((specific, "permissionDecision"), (told, "decision")):
        value = _typed(values, name, str)
        if value is not None and value not in _EFFECTS:
            raise ValueError(f"unknown {name} {value!r}")
        if value is not None:
            return _EFFECTS[value]
    return None


def _typed(told: Mapping[str, Any], name: str, kind: type) -> Any:
    value = told.get(name)
    if value is not None and not isinstance(value, kind):
        raise ValueError(f"{name} has the wrong type")
    return value


def _trouble(hook: Hook, what: str) -> HookVerdict:
    source = f" ({hook.source})" if hook.source else ""
    text = f"The {hook.event} hook {hook.command!r}{source} {what}."
    if hook.denies_on_failure:
        return HookVerdict("deny", text, troubles=(text,))
    return HookVerdict(troubles=(text,))
