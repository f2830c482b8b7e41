"""Running one command line, in this process or in one of its own, and judging what it showed."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

EXIT_CODES = range(6)

# What a terminal would obey: all control characters but line breaks and tabs, and those that
# turn the direction of text around.
_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_IN_JSON = re.compile(b"[\x00-\x09\x0b-\x1f]")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a command line left behind."""

    code: Any
    out: bytes
    err: bytes


@cache
def root() -> Any:
    """The command `bullpen` as it is built from its parts."""
    # Imported late: this module is also used to start processes of their own.
    from typer.main import get_command

    from bullpen.doors.cli.main import app

    return get_command(app)


class _Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


def call(
    words: Sequence[str], env: Mapping[str, str], *, stdin: bytes = b"", terminal: bool = False
) -> Outcome:
    """Run a command line in this process."""
    with _streams(stdin, _Terminal if terminal else io.TextIOWrapper) as (out, err), _only(env):
        code: Any = 0
        try:
            root().main(list(words))
        except SystemExit as end:
            code = end.code or 0
        except BaseException as error:
            code = f"{type(error).__name__}: {error}"
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        return Outcome(code, out.getvalue(), err.getvalue())


def spawn(
    words: Sequence[str], env: Mapping[str, str], *, stdin: bytes = b"", timeout_s: float = 60
) -> Outcome:
    """Run a command line in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "bullpen", *words],
        env=dict(env),
        input=stdin,
        capture_output=True,
        timeout=timeout_s,
        check=False,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


@contextmanager
def _streams(
    stdin: bytes, screen: type[io.TextIOWrapper]
) -> Iterator[tuple[io.BytesIO, io.BytesIO]]:
    out, err = io.BytesIO(), io.BytesIO()
    before = sys.stdin, sys.stdout, sys.stderr
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin), "utf-8")
    sys.stdout = screen(out, "utf-8")
    sys.stderr = io.TextIOWrapper(err, "utf-8")
    try:
        yield out, err
    finally:
        sys.stdin, sys.stdout, sys.stderr = before


@contextmanager
def _only(env: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(env)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def faults(outcome: Outcome, *, as_json: bool, shows_json: bool = False) -> Iterator[str]:
    """Everything that no command line may do."""
    if outcome.code not in EXIT_CODES:
        yield f"it ended with {outcome.code!r}"
    both = outcome.out + outcome.err
    if b"Traceback" in both:
        yield "it showed a traceback"
    if b"bug in bullpen" in both:
        yield "it says itself that this is a bug"
    if b"\x1b" in both:
        yield "it showed a raw escape character"
    said = outcome.err if as_json or shows_json else both
    steering = _STEERING.search(said.decode("utf-8", "replace"))
    if steering:
        yield f"it showed the raw character {steering[0]!r}"
    if as_json:
        yield from _not_one_value(outcome.out)


def _not_one_value(out: bytes) -> Iterator[str]:
    try:
        json.loads(out.decode("utf-8"), parse_constant=_refuse)
    except ValueError as error:
        yield f"standard output is not one JSON value ({error})"
    if _IN_JSON.search(out):
        yield "standard output has a raw control character"


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
