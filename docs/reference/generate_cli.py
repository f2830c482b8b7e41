"""Write `cli.md`, the command line reference, from the help texts of the commands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from bullpen.doors.cli.commands import ADVANCED, PANELS
from bullpen.doors.cli.main import EXITS, app

PAGE = Path(__file__).with_name("cli.md")
WIDTH = 90

INTRODUCTION = """\
# Command line

This page is generated from the help texts: `python docs/reference/generate_cli.py`.

Every command takes `--home`, `--team`, `--as`, `--json` and `--jsonl`, before or after its name. An
option takes precedence over the environment (`BULLPEN_HOME`, `BULLPEN_TEAM`, `BULLPEN_AGENT`).

**Output.** On a terminal, commands print tables and colors (`NO_COLOR` turns colors off).
Otherwise they print plain columns, with `-` for an empty cell and free text last. With `--json`,
they print one JSON object at the end; with `--jsonl`, one object per line, at once.
[JSON output](json.md) has the schemas. Warnings and errors go to standard error. Control characters
in names, subjects and messages are escaped, for example as `\\x1b`.

**Errors.** `error:` says what failed, `hint:` what to do next. With `--json` or `--jsonl`, standard
output also has `{"schema": "bullpen/error/1", "error": {"kind", "message", "remedy", "reason"}}`;
`reason` is set when a rule refused.
`BULLPEN_DEBUG=1` adds the traceback of a bug.

| Exit code | Kind | Meaning |
|---|---|---|
"""

MEANINGS = {
    "refused": "A rule refused, or a name or value is not valid.",
    "not_found": "No such team, member, task, check or message; or no task is ready.",
    "conflict": "Somebody else was first: it already exists or has changed.",
    "unavailable": "The store could not be read or written, or an agent could not be started.",
    "failed": "Anything else went wrong, or `doctor` found a problem that it did not fix.",
}


def page() -> str:
    """The whole page."""
    rows = [(0, "", "Success."), *((code, f"`{kind}`", MEANINGS[kind]) for _, kind, code in EXITS)]
    rows += [
        (2, "`usage`", "The command line is not valid."),
        (1, "`bug`", "A bug in Bullpen."),
        (1, "", "`run`, `demo`: the team failed."),
        (2, "", "`run`, `demo`: the team stopped before the goal was reached."),
        (6, "", "`run`: all that is left waits for you."),
        (2, "", "`policy check`: the call is denied."),
        (6, "", "`policy check`: the call needs approval."),
        (130, "", "Interrupted with Ctrl-C."),
        (141, "", "The reader of the pipe is gone."),
    ]
    table = [f"| {code} | {kind} | {meaning} |" for code, kind, meaning in sorted(rows)]
    sections = [f"{head}\n\n```text\n{text}\n```" for head, text in _helps()]
    return INTRODUCTION + "\n".join(table) + "\n\n" + "\n\n".join(sections) + "\n"


def _helps() -> Iterator[tuple[str, str]]:
    root: Any = get_command(app)
    context = root.make_context("bullpen", ["--all"], resilient_parsing=True, terminal_width=WIDTH)
    yield "## bullpen", _text(root, context)
    everyday = {name for names in PANELS.values() for name in names}
    rest = [name for name in root.list_commands(context) if name not in everyday]
    for panel, names in {**PANELS, ADVANCED: rest}.items():
        head = f"## {panel}\n\n"
        for name in names:
            for path, text in _below(root.get_command(context, name), name, context):
                yield f"{head}### {path}", text
                head = ""


def _below(command: Any, name: str, parent: Any) -> Iterator[tuple[str, str]]:
    """The help of a command, and of the commands in it."""
    context = command.make_context(
        name, [], parent=parent, resilient_parsing=True, terminal_width=WIDTH
    )
    yield context.command_path, _text(command, context)
    if hasattr(command, "list_commands"):
        for word in command.list_commands(context):
            yield from _below(command.get_command(context, word), word, context)


def _text(command: Any, context: Any) -> str:
    return "\n".join(line.rstrip() for line in command.get_help(context).splitlines())


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
