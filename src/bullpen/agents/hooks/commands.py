"""Hook commands: parse their settings, run them, and interpret their answers.

The format is that of Claude Code's settings, so that files written for it work unchanged. A hook
gets JSON on standard input. Exit code 0 passes, and the output may be a JSON answer. Exit code 2
refuses, with standard error as the feedback. Any other end is a failure, which is reported.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import anyio

from bullpen.agents.permissions.rule_language.rule import names_of
from bullpen.agents.system.run_command import keep_first, running, shell
from bullpen.errors import Invalid, Unavailable
from bullpen.protocol import json_text
from bullpen.team.requests.mode_rules import Effect

EVENTS = (
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "TaskCreated",
    "TaskCompleted",
    "TeammateIdle",
    "SubagentStart",
    "SubagentStop",
    "Stop",
)
"""The events that have hooks."""

BREAKER = 3
"""How many times in a row a hook may refuse the same thing before the breaker opens."""

TIMEOUT_S = 60.0
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
_STRICTNESS = {None: 0, "allow": 1, "ask": 2, "deny": 3}
_NAMES = re.compile(r"[A-Za-z0-9_]+(\s*\|\s*[A-Za-z0-9_]+)*")
_OWN_KEYS = ("run", "matcher", "timeout_s", "on_failure")
_HOOK_KEYS = {"type", "command", "args", "timeout", "if", "async", "onFailure", "statusMessage"}
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


@dataclass(frozen=True, slots=True)
class Hook:
    """One command for one event. `project` is the directory whose settings name it."""

    event: str
    command: str
    args: tuple[str, ...] | None = None
    matcher: str = ""
    timeout_s: float = TIMEOUT_S
    # A permission rule: the hook runs only for calls that match it.
    only: str | None = None
    # Its answer is ignored.
    detached: bool = False
    # Whether a failure counts as a refusal.
    denies_on_failure: bool = False
    source: str | None = None
    project: str | None = None

    def matches(self, payload: Mapping[str, Any], fits: Fits | None) -> bool:
        """Whether to run the hook for an event with this payload."""
        about = _MATCHED.get(self.event)
        if about is not None:
            name = str(payload.get(about) or "")
            if not any(_matches(self.matcher, each) for each in names_of(name)):
                return False
        return self.only is None or fits is None or fits(self.only)

    @property
    def argv(self) -> list[str]:
        """The command line that runs it."""
        if self.args is not None:
            return [self.command, *self.args]
        return shell(self.command)


@dataclass(frozen=True, slots=True)
class HookVerdict:
    """The combined answer of hooks to an event. `troubles` are the hooks that failed."""

    effect: Effect | None = None
    why: str = ""
    input: Mapping[str, Any] | None = None
    # A text for the model, one for people, and why the agent has to stop.
    context: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()
    stop: str | None = None
    troubles: tuple[str, ...] = ()

    @property
    def refused(self) -> str | None:
        """The feedback, if it is a refusal."""
        return self.why if self.effect == "deny" else None

    def with_(self, other: HookVerdict) -> HookVerdict:
        """Both answers combined: deny beats ask, ask beats allow."""
        mine, theirs = _STRICTNESS[self.effect], _STRICTNESS[other.effect]
        stronger = self if mine >= theirs else other
        why = stronger.why
        if mine == theirs and other.why and other.why != self.why:
            why = f"{self.why}\n{other.why}".strip()
        return HookVerdict(
            effect=stronger.effect,
            why=why,
            input=self.input if other.input is None else other.input,
            context=self.context + other.context,
            messages=self.messages + other.messages,
            stop=self.stop if other.stop is None else other.stop,
            troubles=self.troubles + other.troubles,
        )


@dataclass(frozen=True, slots=True)
class HookSet:
    """The hooks of one agent or one project."""

    hooks: tuple[Hook, ...] = ()
    breaker: int = BREAKER
    # What Bullpen does not do as Claude Code does, one sentence each.
    unused: tuple[str, ...] = ()

    @classmethod
    def of(cls, raw: Mapping[str, Any] | None) -> HookSet:
        """Parse the value of `hooks` in Claude Code's settings. Raises Invalid."""
        hooks: list[Hook] = []
        unused: list[str] = []
        breaker = BREAKER
        for event, groups in (raw or {}).items():
            if event == "breaker":
                breaker = _count(groups)
                continue
            for group in _rows(groups, event):
                _read_group(event, group, hooks, unused)
        return cls(tuple(hooks), breaker, tuple(unused))

    def has(self, *events: str) -> bool:
        """Whether there is a hook for any of these events."""
        return any(hook.event in events for hook in self.hooks)

    async def run(
        self,
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
        wanted = [h for h in self.hooks if h.event == event and h.matches(payload, fits)]
        # The same command from two files runs once.
        unique = {(hook.project, *hook.argv): hook for hook in reversed(wanted)}
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


def own_hooks(table: Mapping[str, Any]) -> dict[str, Any]:
    """The table `[hooks]` of our own settings, in Claude Code's form. Raises Invalid."""
    made: dict[str, Any] = {}
    for event, rows in table.items():
        if event == "breaker":
            made[event] = _count(rows)
            continue
        if event not in EVENTS:
            raise _invalid(f"unknown event {event!r}; known are {', '.join(EVENTS)}")
        made[event] = [_from_own(event, row) for row in _rows(rows, event)]
    HookSet.of(made)
    return made


def _from_own(event: str, row: Mapping[str, Any]) -> dict[str, Any]:
    for name in row:
        if name not in _OWN_KEYS:
            raise _invalid(f"{event}: unknown field {name!r}; known are {', '.join(_OWN_KEYS)}")
    hook = {"type": "command", "command": row.get("run")}
    for ours, theirs in (("timeout_s", "timeout"), ("on_failure", "onFailure")):
        if ours in row:
            hook[theirs] = row[ours]
    return {"matcher": row.get("matcher", ""), "hooks": [hook]}


def _read_group(event: str, group: Mapping[str, Any], hooks: list[Hook], unused: list[str]) -> None:
    """Add the hooks of one matcher: those that can run, and notes on the others."""
    matcher, source = group.get("matcher") or "", group.get("source")
    if not isinstance(matcher, str):
        raise _invalid(f"{event}: the matcher {matcher!r} is not text")
    try:
        _matches(matcher, "")
    except re.error as error:
        why = f"is not a valid regular expression ({error})"
        raise _invalid(f"{event}: the matcher {matcher!r} {why}") from None
    where = f" ({source})" if source else ""
    for row in _rows(group.get("hooks"), f"{event}: hooks"):
        kind = row.get("type", "command")
        if event not in EVENTS:
            unused.append(f"{event}{where}: Bullpen does not run hooks for this event.")
        elif kind != "command" or row.get("shell", "bash") != "bash":
            what = kind if kind != "command" else row["shell"]
            unused.append(f"{event}{where}: Bullpen does not run hooks of type {what!r}.")
        else:
            hook = _hook(event, row)
            hooks.append(
                replace(hook, matcher=matcher, source=source, project=group.get("project"))
            )
            unused += _oddities(hook, row, where)


def _oddities(hook: Hook, row: Mapping[str, Any], where: str) -> list[str]:
    told = [
        f"{hook.event}{where}: Bullpen ignores {name!r} of the hook {hook.command!r}."
        for name in sorted(set(row) - _HOOK_KEYS - {"shell"})
    ]
    if hook.detached:
        told.append(f"{hook.event}{where}: Bullpen waits for the async hook {hook.command!r}.")
    return told


def _hook(event: str, row: Mapping[str, Any]) -> Hook:
    command, args, only = row.get("command"), row.get("args"), row.get("if")
    timeout, failing = row.get("timeout", TIMEOUT_S), row.get("onFailure")
    if not isinstance(command, str) or not command.strip():
        raise _invalid(f"{event}: a hook has no command")
    if args is not None and not (isinstance(args, list) and all(isinstance(a, str) for a in args)):
        raise _invalid(f"{event}: the args of {command!r} are not a list of texts")
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0:
        raise _invalid(f"{event}: the timeout {timeout!r} of {command!r} is not in seconds")
    if failing not in (None, "deny"):
        raise _invalid(f"{event}: onFailure of {command!r} can only be 'deny'")
    if only is not None and not isinstance(only, str):
        raise _invalid(f"{event}: the condition of {command!r} is not a rule")
    return Hook(
        event,
        command,
        args=None if args is None else tuple(args),
        timeout_s=float(timeout),
        only=only,
        detached=row.get("async") is True,
        denies_on_failure=failing == "deny",
    )


def _matches(matcher: str, name: str) -> bool:
    if matcher in ("", "*"):
        return True
    if _NAMES.fullmatch(matcher):
        return name in [each.strip() for each in matcher.split("|")]
    return re.search(matcher, name) is not None


def _rows(value: Any, where: str) -> list[Mapping[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
        raise _invalid(f"{where} is not a list of objects")
    return value


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise _invalid(f"breaker is {value!r}, which is not a number of refusals")
    return value


def _invalid(why: str) -> Invalid:
    return Invalid(f"The hooks cannot be used: {why}.", remedy="Fix the file that lists them.")


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
            hook.argv,
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
