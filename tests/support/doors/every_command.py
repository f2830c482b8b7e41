"""A command line for every command of `bullpen`, good enough to reach the command itself."""

from __future__ import annotations

from collections.abc import Iterator

from bullpen.doors.cli.command import _build
from bullpen.doors.cli.commands import AGENTS_MAY_TYPE, COMMANDS

_VALUES = {
    "--resolver": "nats",
    "--to": "nats://127.0.0.1:1",
    "form": "harbor",
    "program": "claude",
    "role": "host",
    "task_id": "1",
}


def commands() -> list[str]:
    """Every command that does something, and every group that does something by itself."""
    return [path for path, entry in COMMANDS.items() if entry.target]


def for_people() -> list[str]:
    """The commands that agents may not type."""
    return [path for path in commands() if path not in AGENTS_MAY_TYPE]


def line_of(path: str) -> list[str]:
    """The words of a command, with a value for everything that it requires."""
    return [*path.split(), *_required(path)]


def _required(path: str) -> Iterator[str]:
    for param in _build(path, path.split()[-1]).params:
        if param.required:
            first = param.opts[0]
            if param.param_type_name == "option":
                yield first
            yield _VALUES.get(first, "x")
