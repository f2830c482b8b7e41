"""Hook commands: who asked for which, running them, and what their answers mean.

The format is that of Claude Code's settings, so that files written for it work unchanged: JSON on
standard input; exit 0 passes, and what is printed may be a JSON answer; exit 2 refuses, with
standard error as the feedback. Any other end is no refusal but trouble, which is kept and told.
"""

from __future__ import annotations

import json
import os
import re
import signal
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Literal, Self

import anyio
from anyio.abc import Process

from bullpen.errors import Invalid
from bullpen.protocol import jsontext

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
"""The events for which hooks are run."""

BREAKER = 3
"""After so many refusals in a row of the same thing a hook is not listened to any more."""

TIMEOUT_S = 60.0
OUTPUT_BYTES_MAX = 256 * 1024

Effect = Literal["allow", "ask", "deny"]
Fits = Callable[[str], bool]
"""Whether a rule such as `Bash(git:*)` fits what the event is about."""

# What the matcher of an event is compared with. The matchers of all others mean nothing.
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
_KILLED_WITHIN_S = 2.0
_CHUNK = 65_536
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
    """One command for one event. `project` is the directory whose files ask for it."""

    event: str
    command: str
    args: tuple[str, ...] | None = None
    matcher: str = ""
    timeout_s: float = TIMEOUT_S
    # A rule as in permissions: it runs only for calls that this fits.
    only: str | None = None
    # What it answers changes nothing.
    detached: bool = False
    # Whether trouble counts as a refusal.
    denies_on_failure: bool = False
    source: str | None = None
    project: str | None = None

    def matches(self, payload: Mapping[str, Any], fits: Fits | None) -> bool:
        """Whether it is to be run for an event with this payload."""
        about = _MATCHED.get(self.event)
        if about is not None and not _matches(self.matcher, str(payload.get(about) or "")):
            return False
        return self.only is None or fits is None or fits(self.only)

    @property
    def argv(self) -> list[str]:
        """The words that run it."""
        if self.args is not None:
            return [self.command, *self.args]
        return ["/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh", "-c", self.command]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What hooks say to an event. `troubles` are those that did not say anything they should."""

    effect: Effect | None = None
    why: str = ""
    input: Mapping[str, Any] | None = None
    # For the model, for people, and why the agent is to stop for good.
    context: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()
    stop: str | None = None
    troubles: tuple[str, ...] = ()

    @property
    def refused(self) -> str | None:
        """The feedback, if it is a refusal."""
        return self.why if self.effect == "deny" else None

    def with_(self, other: Verdict) -> Verdict:
        """Both together: deny beats ask beats allow."""
        mine, theirs = _STRICTNESS[self.effect], _STRICTNESS[other.effect]
        stronger = self if mine >= theirs else other
        why = stronger.why
        if mine == theirs and other.why and other.why != self.why:
            why = f"{self.why}\n{other.why}".strip()
        return Verdict(
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
    unused: tuple[str, ...] = ()

    @classmethod
    def of(cls, raw: Mapping[str, Any] | None) -> HookSet:
        """The hooks in what stands under `hooks` in Claude Code's settings.

        Raises:
            Invalid: it is not of that form; the text says where.
        """
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

    def problems(self) -> list[str]:
        """What was asked for and is not done as Claude Code would, a sentence each."""
        return list(self.unused)

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
    ) -> Verdict:
        """Run all hooks that match, at the same time, and say what they say together.

        When it is cancelled, whatever runs is ended.
        """
        wanted = [h for h in self.hooks if h.event == event and h.matches(payload, fits)]
        # The same command twice, from two files, is one wish.
        unique = {(hook.project, *hook.argv): hook for hook in reversed(wanted)}
        chosen = list(reversed(unique.values()))
        verdicts = [Verdict()] * len(chosen)

        async def one(index: int, hook: Hook) -> None:
            verdicts[index] = await _run(hook, payload, cwd=cwd, env=env)

        async with anyio.create_task_group() as group:
            for index, hook in enumerate(chosen):
                group.start_soon(one, index, hook)
        together = Verdict()
        for verdict in verdicts:
            together = together.with_(verdict)
        return together


def own_hooks(table: Mapping[str, Any]) -> dict[str, Any]:
    """The table `[hooks]` of our own settings, in the form of Claude Code's.

    Raises:
        Invalid: something in it is not known; the text names it.
    """
    made: dict[str, Any] = {}
    for event, rows in table.items():
        if event == "breaker":
            made[event] = _count(rows)
            continue
        if event not in EVENTS:
            raise _invalid(f"there is no event {event!r}; there are {', '.join(EVENTS)}")
        made[event] = [_from_own(event, row) for row in _rows(rows, event)]
    HookSet.of(made)
    return made


def _from_own(event: str, row: Mapping[str, Any]) -> dict[str, Any]:
    for name in row:
        if name not in _OWN_KEYS:
            raise _invalid(f"{event}: there is no field {name!r}; there are {', '.join(_OWN_KEYS)}")
    hook = {"type": "command", "command": row.get("run")}
    for ours, theirs in (("timeout_s", "timeout"), ("on_failure", "onFailure")):
        if ours in row:
            hook[theirs] = row[ours]
    return {"matcher": row.get("matcher", ""), "hooks": [hook]}


def _read_group(event: str, group: Mapping[str, Any], hooks: list[Hook], unused: list[str]) -> None:
    """Take the hooks of one matcher: those that can be run, and the rest by name."""
    matcher, source = group.get("matcher") or "", group.get("source")
    if not isinstance(matcher, str):
        raise _invalid(f"{event}: the matcher {matcher!r} is no text")
    _check_matcher(event, matcher)
    where = f" ({source})" if source else ""
    for row in _rows(group.get("hooks"), f"{event}: hooks"):
        kind = row.get("type", "command")
        if event not in EVENTS:
            unused.append(f"{event}{where}: hooks of this event are not run by Bullpen.")
        elif kind != "command" or row.get("shell", "bash") != "bash":
            what = kind if kind != "command" else row["shell"]
            unused.append(f"{event}{where}: hooks of type {what!r} are not run by Bullpen.")
        else:
            hook = _hook(event, row)
            hooks.append(
                replace(hook, matcher=matcher, source=source, project=group.get("project"))
            )
            unused += _oddities(hook, row, where)


def _oddities(hook: Hook, row: Mapping[str, Any], where: str) -> list[str]:
    told = [
        f"{hook.event}{where}: {name!r} of the hook {hook.command!r} is not known to Bullpen."
        for name in sorted(set(row) - _HOOK_KEYS - {"shell"})
    ]
    if hook.detached:
        told.append(f"{hook.event}{where}: the async hook {hook.command!r} is waited for.")
    return told


def _hook(event: str, row: Mapping[str, Any]) -> Hook:
    command, args, only = row.get("command"), row.get("args"), row.get("if")
    timeout, failing = row.get("timeout", TIMEOUT_S), row.get("onFailure")
    if not isinstance(command, str) or not command.strip():
        raise _invalid(f"{event}: a hook has no command")
    if args is not None and not (isinstance(args, list) and all(isinstance(a, str) for a in args)):
        raise _invalid(f"{event}: the args of {command!r} are no list of texts")
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0:
        raise _invalid(f"{event}: the timeout {timeout!r} of {command!r} is no number of seconds")
    if failing not in (None, "deny"):
        raise _invalid(f"{event}: what {command!r} does when it fails can only be 'deny'")
    if only is not None and not isinstance(only, str):
        raise _invalid(f"{event}: the condition of {command!r} is no rule")
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


def _check_matcher(event: str, matcher: str) -> None:
    try:
        _matches(matcher, "")
    except re.error as error:
        raise _invalid(
            f"{event}: the matcher {matcher!r} is no regular expression ({error})"
        ) from None


def _rows(value: Any, where: str) -> list[Mapping[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
        raise _invalid(f"{where} is no list of objects")
    return value


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise _invalid(f"breaker is {value!r}, which is no number of refusals")
    return value


def _invalid(why: str) -> Invalid:
    return Invalid(f"The hooks cannot be used: {why}.", remedy="Mend the file that names them.")


async def _run(
    hook: Hook, payload: Mapping[str, Any], *, cwd: str, env: Mapping[str, str]
) -> Verdict:
    """Run one hook to its end, and say what that means."""
    environ = {**env, "CLAUDE_PROJECT_DIR": hook.project or cwd}
    try:
        code, out, err = await _ended(hook, payload, cwd=cwd, env=environ)
        verdict = _answer(hook, code, out, err)
    except TimeoutError:
        verdict = _trouble(hook, f"took longer than {hook.timeout_s:g} s and was ended")
    except (OSError, ValueError) as error:
        verdict = _trouble(hook, f"could not be run: {error}")
    if hook.detached:
        return Verdict(troubles=verdict.troubles, messages=verdict.messages)
    return verdict


async def _ended(
    hook: Hook, payload: Mapping[str, Any], *, cwd: str, env: Mapping[str, str]
) -> tuple[int, bytes, bytes]:
    """The exit code and what was printed. The process has a group of its own, ended with it."""
    with _Printed() as out, _Printed() as err, tempfile.TemporaryFile() as given:
        given.write(jsontext.dumps_line(dict(payload)) + b"\n")
        given.seek(0)
        # Cancelled half-way, it could not be told what to end.
        with anyio.CancelScope(shield=True):
            process = await anyio.open_process(
                hook.argv,
                stdin=given,
                stdout=out.writing,
                stderr=err.writing,
                cwd=cwd,
                env=dict(env),
                start_new_session=True,
            )
        try:
            with anyio.fail_after(hook.timeout_s):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(out.collect)
                    tasks.start_soon(err.collect)
                    # Whatever it leaves in the background may hold the pipes open.
                    code = await process.wait()
                    tasks.cancel_scope.cancel()
        except BaseException:
            await _end(process)
            raise
        return code, out.all(), err.all()


class _Printed:
    """What is printed into a pipe, up to a bound."""

    def __init__(self) -> None:
        self._reading, self.writing = os.pipe()
        os.set_blocking(self._reading, False)
        self._kept = bytearray()
        self._open = [self._reading, self.writing]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for descriptor in self._open:
            os.close(descriptor)

    async def collect(self) -> None:
        """Take what comes until the last process that can write has gone."""
        os.close(self.writing)
        self._open.remove(self.writing)
        while True:
            await anyio.wait_readable(self._reading)
            if self._take() == 0:
                return

    def all(self) -> bytes:
        """All that was kept, with what is in the pipe still."""
        taken = 0
        while taken < OUTPUT_BYTES_MAX and (count := self._take()):
            taken += count
        return bytes(self._kept)

    def _take(self) -> int | None:
        """How many bytes were read: 0 at the end, None if there are none yet."""
        try:
            chunk = os.read(self._reading, _CHUNK)
        except BlockingIOError:
            return None
        self._kept += chunk[: OUTPUT_BYTES_MAX - len(self._kept)]
        return len(chunk)


async def _end(process: Process) -> None:
    """End all that is in its process group: ask, wait a moment, kill."""
    with anyio.CancelScope(shield=True):
        _signal(process.pid, signal.SIGTERM)
        with anyio.move_on_after(_GRACE_S):
            await process.wait()
        _signal(process.pid, signal.SIGKILL)
        with anyio.move_on_after(_KILLED_WITHIN_S):
            await process.wait()


def _signal(group: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _answer(hook: Hook, code: int, out: bytes, err: bytes) -> Verdict:
    """What an exit code and the output of a hook mean."""
    words = err.decode("utf-8", "replace").strip()[:_WORDS_MAX]
    if code == 2:
        return Verdict("deny", words or f"the hook {hook.command!r} refused it without a word")
    if code != 0:
        said = f": {words}" if words else ""
        return _trouble(hook, f"ended with exit code {code}{said}")
    text = out.decode("utf-8", "replace").strip()
    if not text.startswith("{"):
        return Verdict()
    try:
        told = json.loads(text)
        return _told(hook, told)
    except (ValueError, RecursionError) as error:
        return _trouble(hook, f"answered with what cannot be read ({error})")


def _told(hook: Hook, told: dict[str, Any]) -> Verdict:
    """What a JSON answer says. Raises ValueError if a part of it has the wrong form."""
    specific = _typed(told, "hookSpecificOutput", dict) or {}
    effect = _effect(told, specific)
    why = _typed(specific, "permissionDecisionReason", str) or _typed(told, "reason", str) or ""
    stop = None
    if told.get("continue") is False:
        stop = _typed(told, "stopReason", str) or f"the hook {hook.command!r} said so"
    context = [_typed(each, "additionalContext", str) for each in (told, specific)]
    message = _typed(told, "systemMessage", str)
    return Verdict(
        effect=effect,
        why=(why or f"the hook {hook.command!r} said so")[:_WORDS_MAX] if effect else "",
        input=_typed(specific, "updatedInput", dict),
        context=tuple(each[:_WORDS_MAX] for each in context if each),
        messages=(message[:_WORDS_MAX],) if message else (),
        stop=stop,
    )


def _effect(told: Mapping[str, Any], specific: Mapping[str, Any]) -> Effect | None:
    for values, name in ((specific, "permissionDecision"), (told, "decision")):
        value = _typed(values, name, str)
        if value is not None and value not in _EFFECTS:
            raise ValueError(f"{name} {value!r} is not known")
        if value is not None:
            return _EFFECTS[value]
    return None


def _typed(told: Mapping[str, Any], name: str, kind: type) -> Any:
    value = told.get(name)
    if value is not None and not isinstance(value, kind):
        raise ValueError(f"{name} has the wrong form")
    return value


def _trouble(hook: Hook, what: str) -> Verdict:
    source = f" ({hook.source})" if hook.source else ""
    text = f"The {hook.event} hook {hook.command!r}{source} {what}."
    if hook.denies_on_failure:
        return Verdict("deny", text, troubles=(text,))
    return Verdict(troubles=(text,))
