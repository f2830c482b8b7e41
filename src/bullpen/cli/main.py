"""The command `bullpen`: its commands, and the one place where errors become exit codes."""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Any

import typer

from bullpen.cli import (
    agent,
    agents,
    auth,
    bridge,
    budget,
    cost,
    doctor,
    drivers,
    events,
    host,
    init,
    join,
    mail,
    mcp,
    member,
    merge,
    mirror,
    policy,
    requests,
    run,
    server,
    summary,
    task,
    team,
    team_move,
    telemetry,
    trust,
    tui,
    up,
    web,
    workspace,
)
from bullpen.cli import report as report_page
from bullpen.cli.command import Group, group
from bullpen.cli.text import fit_to_keep, say, tell, version
from bullpen.errors import BullpenError, Conflict, NotFound, Refused, StartFailed, Unavailable
from bullpen.view.text import one_line

PROGRAM = "bullpen"
FAILED = 1
PIPE_CLOSED = 141

_SHOWN_MAX = 2000

EXITS: tuple[tuple[type[BullpenError], str, int], ...] = (
    (Refused, "refused", 2),
    (NotFound, "not_found", 3),
    (Conflict, "conflict", 4),
    (Unavailable, "unavailable", 5),
    (BullpenError, "failed", FAILED),
)


class Door(Group):
    """The outermost group: whatever happens inside it becomes an exit code here."""

    def main(self, args: Sequence[str] | None = None, *_: Any, **__: Any) -> Any:
        """Run a command line and exit."""
        words = fit_to_keep(sys.argv[1:] if args is None else args)
        for stream in (sys.stdout, sys.stderr):
            # A character that the terminal lacks must not keep the rest from being shown.
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
        try:
            code = super().main(words, PROGRAM, standalone_mode=False)
        except Exception as error:
            # Shell completion must never write into the line that somebody is typing.
            completing = f"_{PROGRAM.upper()}_COMPLETE" in os.environ
            code = FAILED if completing else report(error, words)
        _let_go_of_output()
        sys.exit(code if isinstance(code, int) else 0)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; a reader that has gone away ends it without a word."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise typer.Exit(PIPE_CLOSED) from None
        except KeyboardInterrupt:
            if sys.stderr is not None and sys.stderr.isatty():
                # The terminal shows ^C on the line that is being written; the prompt goes below.
                say("")
            raise


def report(error: Exception, words: Sequence[str]) -> int:
    """Say what went wrong on standard error, and return the exit code that says it to programs.

    If the command line asks for JSON, one object also goes to standard output.
    """
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    told, code = _told(error)
    tell(f"error: {_short(told['message'])}", hang=" " * 7)
    if told.get("screen"):
        say("  its last screen:")
        for line in told["screen"].splitlines():
            tell(f"    | {_short(line)}", hang="    |   ")
    if told["remedy"]:
        tell(f"  hint: {_short(told['remedy'])}", hang=" " * 8)
    if told["kind"] == "bug" and os.environ.get("BULLPEN_DEBUG") == "1":
        say("".join(traceback.format_exception(error)))
    if "--json" in words:
        # Escaped to ASCII, so that any encoding of standard output leaves it JSON. What cannot
        # be written may be the very error that this is about.
        with contextlib.suppress(OSError):
            print(json.dumps({"error": told}, indent=2), flush=True)
    return code


def _short(text: str) -> str:
    """`text` on one line, not longer than a screen: it may quote what was on the command line."""
    line = one_line(text)
    return line if len(line) <= _SHOWN_MAX else f"{line[:_SHOWN_MAX]}…"


def _told(error: Exception) -> tuple[dict[str, str], int]:
    if isinstance(error, BullpenError):
        kind, code = next((kind, code) for cls, kind, code in EXITS if isinstance(error, cls))
        told = {"kind": kind, "message": error.message, "remedy": error.remedy}
        if isinstance(error, Refused):
            told["reason"] = error.reason
        if isinstance(error, StartFailed):
            told["screen"] = error.screen
        return told, code
    if isinstance(error, OSError) and error.filename is not None:
        # What the system says of a path is about the path, wherever it was found out.
        name = error.filename if isinstance(error.filename, str) else os.fsdecode(error.filename)
        told = {
            "kind": "unavailable",
            "message": f"{name} cannot be used: {error.strerror}.",
            "remedy": "Name another file or directory, or mend that one.",
        }
        return told, next(code for cls, _, code in EXITS if cls is Unavailable)
    if isinstance(error, typer.TyperException):
        context: typer.Context | None = getattr(error, "ctx", None)
        path = context.command_path if context is not None else PROGRAM
        remedy = f"Try: {path} --help"
        return {
            "kind": "usage",
            "message": error.format_message(),
            "remedy": remedy,
        }, error.exit_code
    return {
        "kind": "bug",
        "message": f"This is a bug in bullpen: {type(error).__name__}: {error}",
        "remedy": "Please report it, with what BULLPEN_DEBUG=1 shows.",
    }, FAILED


def _let_go_of_output() -> None:
    """Flush, so that nothing is left to fail when Python ends and would complain."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"{PROGRAM} {version()}")
        raise typer.Exit


_VERSION = inspect.Parameter(
    "version",
    inspect.Parameter.KEYWORD_ONLY,
    annotation=bool,
    default=typer.Option(
        False, "--version", help="Show the version.", is_eager=True, callback=_show_version
    ),
)

app = group(
    "Teams of coding agents, on one machine or many.",
    cls=Door,
    options=[_VERSION],
    examples=(
        "bullpen demo",
        "bullpen run 'Make the tests pass'",
        "bullpen team create alpha",
        "bullpen spawn alice 'Write the parser'",
        "bullpen task add 'Test the parser' --owner alice",
    ),
)
app.add_typer(team.noun.app, name="team")
app.add_typer(member.noun.app, name="member")
app.add_typer(task.noun.app, name="task")
app.add_typer(workspace.noun.app, name="workspace")
app.add_typer(merge.noun.app, name="merge")
app.add_typer(policy.noun.app, name="policy")
app.add_typer(mcp.noun.app, name="mcp")
app.add_typer(server.noun.app, name="server")
app.add_typer(auth.noun.app, name="auth")
app.add_typer(host.noun.app, name="host")
app.add_typer(agent.noun.app, name="agent", hidden=True)
run.register(app)
init.register(app)
up.register(app)
agents.register(app)
join.register(app)
bridge.register(app)
drivers.register(app)
cost.register(app)
summary.register(app)
report_page.register(app)
budget.register(team.noun.commands, task.noun.commands)
host.register(app)
team_move.register(team.noun.commands)
mirror.register(team.noun.commands)
requests.register(app)
mail.register(app)
events.register(app)
web.register(app)
telemetry.register(app)
doctor.register(app)
trust.register(app)
tui.register(app)


def main() -> None:
    """Run the command line of this process."""
    app()


def bridge_main() -> None:
    """Run `bullpen bridge` with the words of this process."""
    app(["bridge", *sys.argv[1:]])
