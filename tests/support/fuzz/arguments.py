"""Command lines for every command there is, with words and files that nobody should trust."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from .budget import Failures, dice
from .commandline import Outcome, call, faults, root, spawn
from .damage import inflict
from .exercise import SLOW_S
from .home import MEMBERS, TASK_IDS, TEAM, Sandbox
from .values import any_text
from .watchdog import Watchdog

_ENDLESS = {"--follow", "--watch", "-f"}
# They start agents, show what runs, or write where they are told to: not for words that nobody
# should trust.
_RUNS_AGENTS = {
    ("init",),
    ("run",), ("demo",), ("spawn",), ("attach",), ("team", "resume"),
    ("up",), ("join",), ("bridge",), ("mcp",), ("server", "start"), ("host", "run"),
    ("team", "mirror"), ("merge", "run"), ("web",), ("tui",), ("telemetry",),
}  # fmt: skip
# What `report -o` is told to write it writes, wherever that is.
_NOT_ABOUT_TEAMS = {"--help", "--version", "--install-completion", "--show-completion", "--output"}
_STARTS_OTHERS = frozenset({"doctor", "drivers"})
"""Commands that start other programs, which takes seconds on a busy machine."""
_OTHERS_SLOW_S = 30.0
_SPAWNED_EVERY = 50
_WORD_MAX = 100_000
"""No longer word can be handed to a new process."""

_OFTEN_RIGHT: dict[str, tuple[str, ...]] = {
    "task_id": TASK_IDS,
    "on": TASK_IDS,
    "blocked_by": TASK_IDS,
    "name": (*MEMBERS, TEAM, "new-one", "report"),
    "to": (*MEMBERS, "@team"),
    "owner": MEMBERS,
    "common_as": MEMBERS,
    "common_team": (TEAM, "beta"),
    "status": ("pending", "in_progress", "completed"),
    "after": ("0", "1", "7"),
    "limit": ("1", "3"),
    "attempt": ("0", "1", "2"),
    "check": ("tests=make test", "=", "a=", "=b"),
}
_NUMBERS = (
    "-1", "0", "1", "2147483648", "9223372036854775808", "1e3", "1.5", "+1", " 1", "0x1", "",
    "NaN", "inf", "9" * 400, "9" * 5000,
)  # fmt: skip
_LIKE_OPTIONS = (
    "--",
    "-",
    "-x",
    "--json",
    "--jsonl",
    "--as",
    "--team=",
    "-t",
    "--no-such",
    "---",
    "-1",
    "=",
)


@dataclass(frozen=True, slots=True)
class Shape:
    """A command: the words that name it, its options and its arguments."""

    path: tuple[str, ...]
    flags: tuple[str, ...]
    options: tuple[tuple[str, str], ...]
    arguments: tuple[tuple[str, bool], ...]


@cache
def shapes() -> tuple[Shape, ...]:
    """Every command and every group."""
    return tuple(_shapes(root(), ()))


def _shapes(command: Any, path: tuple[str, ...]) -> Iterator[Shape]:
    flags: list[str] = []
    options: list[tuple[str, str]] = []
    arguments: list[tuple[str, bool]] = []
    for parameter in command.params:
        words = [*parameter.opts, *parameter.secondary_opts]
        if parameter.param_type_name == "argument":
            arguments.append((parameter.name, parameter.nargs != 1))
        elif parameter.is_flag:
            flags += [word for word in words if word not in _ENDLESS | _NOT_ABOUT_TEAMS]
        elif not set(words) & _NOT_ABOUT_TEAMS:
            options += [(word, parameter.name) for word in words]
    if path not in _RUNS_AGENTS:
        yield Shape(path, tuple(flags), tuple(options), tuple(arguments))
    if hasattr(command, "commands"):
        for name in command.list_commands(None):
            yield from _shapes(command.get_command(None, name), (*path, name))


@dataclass(frozen=True, slots=True)
class Case:
    """One command line, with what it finds around it."""

    words: tuple[str, ...]
    env: dict[str, str]
    stdin: bytes
    as_json: bool
    terminal: bool


def make(sandbox: Sandbox, rng: random.Random) -> Case:
    """A command line by chance."""
    shape = rng.choice(shapes())
    as_json = rng.random() < 0.5
    parts = [
        _option(sandbox, name, parameter, rng)
        for name, parameter in shape.options
        if rng.random() < 0.3
    ]
    parts += [[flag] for flag in shape.flags if rng.random() < 0.3]
    for name, several in shape.arguments:
        if rng.random() < 0.93:
            parts.append([_value(name, rng) for _ in range(rng.randrange(1, 4) if several else 1)])
    if rng.random() < 0.3:
        rng.shuffle(parts)
    if rng.random() < 0.05:
        parts.insert(rng.randrange(len(parts) + 1), [rng.choice((*_LIKE_OPTIONS, "list", "x"))])
    if rng.random() < 0.04 and not as_json:
        parts.insert(0, [rng.choice(("--help", "-h", "--version"))])
    words = (["--json"] if as_json else []) + [*shape.path, *(word for p in parts for word in p)]
    env = {
        "PATH": os.environ.get("PATH", ""),
        "HOME": str(sandbox.canary),
        "BULLPEN_HOME": str(sandbox.home),
        "BULLPEN_TEAM": TEAM if rng.random() < 0.9 else _in_environment(rng),
        "BULLPEN_AGENT": rng.choice(MEMBERS) if rng.random() < 0.9 else _in_environment(rng),
    }
    stdin = rng.choice((b"", b"Hello", b"\xff\xfe", b"\x1b[31m", b"x" * 100_000, b"{" * 50_000))
    terminal = rng.random() < 0.3
    if terminal:
        # Without colours, every escape character would be somebody else's.
        env |= {"NO_COLOR": "1", "TERM": "xterm", "COLUMNS": rng.choice(("1", "20", "80", "x"))}
    return Case(tuple(words), env, stdin, as_json, terminal)


def _option(sandbox: Sandbox, name: str, parameter: str, rng: random.Random) -> list[str]:
    value = _home(sandbox, rng) if parameter == "home" else _value(parameter, rng)
    together = name.startswith("--") and rng.random() < 0.3
    return [f"{name}={value}"] if together else [name, value]


def _home(sandbox: Sandbox, rng: random.Random) -> str:
    """Somewhere in the home: whatever else a user names would be a home too."""
    inside = rng.choice(("", f"tasks/{TEAM}/1.json", "not/there/yet", "teams", "a\0b", "\udcff"))
    return rng.choice((str(sandbox.home), sandbox.at(inside), ""))


def _value(parameter: str, rng: random.Random) -> str:
    right = _OFTEN_RIGHT.get(parameter, ("Some words",))
    chance = rng.random()
    if chance < 0.6:
        return rng.choice(right)
    if chance < 0.9:
        return any_text(rng)
    if chance < 0.95:
        return rng.choice(_NUMBERS)
    if chance < 0.995:
        return rng.choice(_LIKE_OPTIONS)
    return rng.choice("x\n\x1b{é😀\udcff") * 1_000_000


def _in_environment(rng: random.Random) -> str:
    return any_text(rng).replace("\0", "").encode("utf-8", "replace").decode()


def run(sandbox: Sandbox, watchdog: Watchdog, cases: Iterable[int]) -> Failures:
    """Run cases by their numbers."""
    failures = Failures("arguments")
    before = os.getcwd()
    os.chdir(sandbox.canary / "folder")
    try:
        for number in cases:
            rng = dice("arguments", number)
            sandbox.restore()
            case = make(sandbox, rng)
            damage = inflict(sandbox, rng) if rng.random() < 0.4 else None
            fifo = damage is not None and damage.how == "a FIFO"
            watchdog.begin(
                f"case arguments:{number}", (sandbox.at(damage.path),) if damage and fifo else ()
            )
            began = time.monotonic()
            # Python alone can take seconds to start on a machine that is busy.
            spawned = number % _SPAWNED_EVERY == 0 and _can_be_spawned(case)
            if spawned:
                outcome = spawn(case.words, case.env, stdin=case.stdin)
            else:
                outcome = call(case.words, case.env, stdin=case.stdin, terminal=case.terminal)
            took_s = time.monotonic() - began
            wrong = list(_wrong(sandbox, case, outcome, damaged=damage is not None))
            slow_s = _OTHERS_SLOW_S if _STARTS_OTHERS & {*case.words} else SLOW_S
            if took_s > slow_s and not spawned:
                wrong.append(f"it took {took_s:.1f} s")
            failures.ran += 1
            if wrong:
                told = [*_told(case, outcome), f"damaged: {damage and (damage.path, damage.how)}"]
                keep = {damage.path: damage.data} if damage and damage.data is not None else {}
                failures.add(number, "\n".join([*told, *wrong]), keep=keep)
            if failures.too_many:
                break
    finally:
        os.chdir(before)
    return failures


def _wrong(sandbox: Sandbox, case: Case, outcome: Outcome, *, damaged: bool) -> Iterator[str]:
    # A `--json` further back may be an option, or some option's value.
    shows_json = case.as_json or bool({"--json", "--jsonl"} & {*case.words})
    yield from faults(outcome, as_json=case.as_json, shows_json=shows_json)
    yield from (f"outside the home, {what}" for what in sandbox.escapes())
    if outcome.code in (2, 3, 4, 5) and not damaged:
        records = [path for path in sandbox.changed() if "/.bullpen/" not in path]
        yield from (f"it failed, and yet changed {path}" for path in sorted(records))


def _can_be_spawned(case: Case) -> bool:
    try:
        sizes = [len(os.fsencode(word)) for word in case.words]
    except UnicodeEncodeError:
        return False
    return max(sizes, default=0) < _WORD_MAX and not any("\0" in word for word in case.words)


def _told(case: Case, outcome: Outcome) -> list[str]:
    words = [
        repr(word if len(word) < 300 else f"{word[:300]}... ({len(word)})") for word in case.words
    ]
    return [
        f"words: {' '.join(words)}",
        f"environment: {case.env}",
        f"code: {outcome.code!r}",
        f"out: {outcome.out[:1000]!r}",
        f"err: {outcome.err[:1000]!r}",
    ]
