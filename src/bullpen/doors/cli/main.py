"""The command `bullpen`: its commands, and the one place where errors become exit codes."""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import typer

from bullpen.doors.cli.command import TopGroup, fit_to_keep, group
from bullpen.doors.cli.commands import GroupEntry
from bullpen.doors.cli.output.text import say, tell, version
from bullpen.doors.cli.screens.extras import without_extra
from bullpen.errors import BullpenError, Conflict, NotFound, Refused, StartFailed, Unavailable
from bullpen.view.text import one_line

PROGRAM = "bullpen"
FAILED = 1
PIPE_CLOSED = 141

_SHOWN_MAX = 2000
_ERROR = "bullpen/error/1"

EXITS: tuple[tuple[type[BullpenError], str, int], ...] = (
    (Refused, "refused", 2),
    (NotFound, "not_found", 3),
    (Conflict, "conflict", 4),
    (Unavailable, "unavailable", 5),
    (BullpenError, "failed", FAILED),
)


class MainGroup(TopGroup):
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
        _flush_output()
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
    """Print what failed and what to do on standard error; return the exit code.

    With `--json` or `--jsonl`, one object also goes to standard output.
    """
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    told, code = _told(error)
    tell(f"error: {_short(told['message'])}", hang=" " * 7)
    if told.get("screen"):
        say("its last screen:")
        for line in told["screen"].splitlines():
            tell(f"  | {_short(line)}", hang="  |   ")
    if told["remedy"]:
        tell(f"hint: {_short(told['remedy'])}", hang=" " * 6)
    if told["kind"] == "bug" and os.environ.get("BULLPEN_DEBUG") == "1":
        say("".join(traceback.format_exception(error)))
    if "--json" in words or "--jsonl" in words:
        # Escaped to ASCII, so that any encoding of standard output leaves it JSON. What cannot
        # be written may be the very error that this is about.
        indent = None if "--jsonl" in words else 2
        with contextlib.suppress(OSError):
            print(json.dumps({"schema": _ERROR, "error": told}, indent=indent), flush=True)
    return code


def _short(text: str) -> str:
    """`text` on one line, not longer than a screen: it may quote what was on the command line."""
    line = one_line(text)
    return line if len(line) <= _SHOWN_MAX else f"{line[:_SHOWN_MAX]}…"


def _told(error: Exception) -> tuple[dict[str, str], int]:
    if isinstance(error, ModuleNotFoundError):
        # A command of an extra imports its packages only when it is typed.
        error = without_extra(error) or error
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
            "message": f"Cannot use {name}: {error.strerror}.",
            "remedy": "Name another file or directory, or fix this one.",
        }
        return told, next(code for cls, _, code in EXITS if cls is Unavailable)
    if isinstance(error, typer.TyperException):
        context: typer.Context | None = getattr(error, "ctx", None)
        path = context.command_path if context is not None else PROGRAM
        remedy = f"Run: {path} --help"
        # The library that converts values says how it failed, which is nothing to people.
        message = error.format_message().replace(": Value error, ", ": ", 1)
        return {"kind": "usage", "message": message, "remedy": remedy}, error.exit_code
    return {
        "kind": "bug",
        "message": f"Bug in bullpen: {type(error).__name__}: {error}",
        "remedy": "Set BULLPEN_DEBUG=1, run the same command again and report what it prints.",
    }, FAILED


def _flush_output() -> None:
    """Flush now, so that Python does not fail to flush when it exits."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"{PROGRAM} {version()}")
        raise typer.Exit


def _only_with_help(wanted: bool) -> None:
    """Do nothing: `--help` looks for the word itself."""


def _flag(name: str, text: str, act: Callable[..., None]) -> inspect.Parameter:
    """An option that does something at once and ends the program."""
    option = typer.Option(False, f"--{name}", help=text, is_eager=True, callback=act)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=bool, default=option)


_VERSION = _flag("version", "Show the version", _show_version)
_ALL = _flag("all", "With --help: list every command", _only_with_help)

app = group(
    GroupEntry(
        "Teams of coding agents, on one machine or many",
        examples=(
            "bullpen demo",
            "bullpen run 'Make the tests pass'",
            "bullpen team create alpha",
            "bullpen spawn alice 'Write the parser'",
            "bullpen task add 'Test the parser' --owner alice",
        ),
        target="start.overview:overview",
    ),
    cls=MainGroup,
    options=[_VERSION, _ALL],
)


def main() -> None:
    """Run the command line of this process."""
    app()


def bridge_main() -> None:
    """Run `bullpen bridge` with the words of this process."""
    app(["bridge", *sys.argv[1:]])
