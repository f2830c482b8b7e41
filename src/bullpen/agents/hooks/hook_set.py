"""The hooks that settings name: parsed and checked, not run.

The format is that of Claude Code's settings, so that files written for it work unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from bullpen.errors import Invalid
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

_STRICTNESS = {None: 0, "allow": 1, "ask": 2, "deny": 3}
_NAMES = re.compile(r"[A-Za-z0-9_]+(\s*\|\s*[A-Za-z0-9_]+)*")
_OWN_KEYS = ("run", "matcher", "timeout_s", "on_failure")
_HOOK_KEYS = {"type", "command", "args", "timeout", "if", "async", "onFailure", "statusMessage"}


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
        matches_name(matcher, "")
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


def matches_name(matcher: str, name: str) -> bool:
    """Whether a matcher is about a tool or a kind of agent with this name."""
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
