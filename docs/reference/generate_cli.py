"""Writes `cli.md`, the reference of the command line, from the help texts of the commands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from bullpen.cli.main import EXITS, app

PAGE = Path(__file__).with_name("cli.md")
WIDTH = 90

INTRODUCTION = """\
# The command line

This page is made from the help texts: `python docs/reference/generate_cli.py`.

Every command takes `--home`, `--team`, `--as` and `--json`, before or after its name. An option
wins over the environment (`BULLPEN_HOME`, `BULLPEN_TEAM`, `BULLPEN_AGENT`).

**Output.** On a terminal: tables and colours (`NO_COLOR` turns them off). Otherwise: plain
columns, `-` for an empty cell, free text last. With `--json`: one JSON value on standard output,
or one object a line with `--follow` and `--watch` and from `logs`, `run` and `demo`. Warnings and
errors go to standard error. Control characters in names, subjects and messages are shown as
escapes, `\\x1b` for one.

**Errors.** `error:` says what happened, `hint:` what to do next. With `--json` there is also
`{"error": {"kind", "message", "remedy", "reason"}}` on standard output; `reason` is there when a
rule refused. `BULLPEN_DEBUG=1` adds the traceback of a bug.

| Exit code | Kind | Meaning |
|---|---|---|
"""

MEANINGS = {
    "refused": "A rule said no, or a name or value cannot be one.",
    "not_found": "No such team, member, task, check or message; or no task is ready.",
    "conflict": "Somebody else was first: it exists already or has changed.",
    "unavailable": "The store could not be read or written, or an agent could not be started.",
    "failed": "Anything else went wrong; `doctor` left something open.",
}


def page() -> str:
    """The whole page."""
    rows = [(0, "", "Done."), *((code, f"`{kind}`", MEANINGS[kind]) for _, kind, code in EXITS)]
    rows += [
        (2, "`usage`", "The command line cannot be understood."),
        (1, "`bug`", "Something that should not happen."),
        (1, "", "`run`, `demo`: the team failed."),
        (2, "", "`run`, `demo`: the team stopped before the goal was reached."),
        (2, "", "`policy check`: the call is denied."),
        (6, "", "`policy check`: somebody would be asked."),
        (130, "", "Interrupted with Ctrl-C."),
        (141, "", "The reader of a pipe went away."),
    ]
    table = [f"| {code} | {kind} | {meaning} |" for code, kind, meaning in sorted(rows)]
    sections = [f"## {name}\n\n```text\n{text}\n```" for name, text in _helps()]
    return INTRODUCTION + "\n".join(table) + "\n\n" + "\n\n".join(sections) + "\n"


def _helps() -> Iterator[tuple[str, str]]:
    root = get_command(app)
    todo: list[tuple[Any, str, Any]] = [(root, "bullpen", None)]
    while todo:
        command, name, parent = todo.pop(0)
        context = command.make_context(
            name, [], parent=parent, resilient_parsing=True, terminal_width=WIDTH
        )
        lines = (line.rstrip() for line in command.get_help(context).splitlines())
        yield context.command_path, "\n".join(lines)
        if hasattr(command, "list_commands"):
            below = [
                (command.get_command(context, word), word, context)
                for word in command.list_commands(context)
            ]
            todo = below + todo


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
