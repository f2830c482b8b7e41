"""Running `bullpen` in this process, in another one, and at a terminal."""

from __future__ import annotations

import json
import os
import pty
import queue
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import typer.testing
from typer.main import get_command
from typer.testing import CliRunner, Result

from bullpen.app.config.keys import KEYS
from bullpen.doors.cli.main import app

from .json_shapes import faults, objects

DEADLINE_S = 60

Run = Callable[..., Result]
_COMMAND = get_command(app)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home that every command of a test uses."""
    for name in (
        "BULLPEN_TEAM", "BULLPEN_AGENT", "BULLPEN_DEBUG", "NO_COLOR", "FORCE_COLOR",
        "PYTHONUNBUFFERED", "PYTHONIOENCODING", *(key.variable for key in KEYS),
    ):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("BULLPEN_CONFIG", str(tmp_path / "config.toml"))
    home = tmp_path / "home"
    monkeypatch.setenv("BULLPEN_HOME", str(home))
    return home


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command in this process."""
    # Else all commands are put together anew for each that is run.
    monkeypatch.setattr(typer.testing, "_get_command", lambda _: _COMMAND)

    def invoke(*words: str, typed: bytes | None = None) -> Result:
        result = CliRunner().invoke(app, list(words), input=typed)
        options = words[: words.index("--")] if "--" in words else words
        if "--json" in options or "--jsonl" in options:
            assert [each for value in objects(result.stdout) for each in faults(value)] == []
        return result

    return invoke


@pytest.fixture
def ok(run: Run) -> Callable[..., str]:
    """What a command says when it succeeds without a warning."""

    def said(*words: str) -> str:
        result = run(*words)
        assert (result.exit_code, result.stderr) == (0, ""), result.output
        return result.stdout

    return said


@pytest.fixture
def as_json(run: Run) -> Callable[..., Any]:
    """What a command answers as JSON when it succeeds, without the name of its schema."""

    def value(*words: str) -> Any:
        result = run(*words, "--json")
        assert result.exit_code == 0, result.output
        told = json.loads(result.stdout)
        del told["schema"]
        return told

    return value


@pytest.fixture
def team(ok: Callable[..., str]) -> str:
    """A team with two teammates and three tasks, of which the last waits for the first two."""
    ok("team", "create", "alpha", "--description", "Ship it")
    ok("member", "add", "alice")
    ok("member", "add", "bob")
    ok("task", "add", "Write the parser")
    ok("task", "add", "Write the lexer")
    ok("task", "add", "Test both", "--blocked-by", "1", "--blocked-by", "2")
    return "alpha"


@pytest.fixture
def spawn() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a command in a process of its own, without a terminal."""

    def start(*words: str | bytes, typed: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "bullpen", *words],
            input=typed,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )

    return start


class Following:
    """A command that goes on until it is interrupted, line by line."""

    def __init__(self, *words: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bullpen", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.rstrip("\n"))

    def line(self) -> str:
        """The next line."""
        return self._lines.get(timeout=DEADLINE_S)

    def interrupt(self) -> tuple[int, str]:
        """Press Ctrl-C; the exit code and what was said on standard error."""
        self._process.send_signal(signal.SIGINT)
        return self.ended()

    def ended(self) -> tuple[int, str]:
        """Wait for its end; the exit code and what was said on standard error."""
        code = self._process.wait(DEADLINE_S)
        self._reader.join(DEADLINE_S)
        assert self._process.stderr is not None
        return code, self._process.stderr.read()

    def close(self) -> None:
        self._process.kill()
        self.ended()
        for stream in (self._process.stdout, self._process.stderr):
            assert stream is not None
            stream.close()


@pytest.fixture
def follow() -> Iterator[Callable[..., Following]]:
    """Start commands that go on until they are interrupted."""
    started: list[Following] = []

    def start(*words: str) -> Following:
        started.append(Following(*words))
        return started[-1]

    yield start
    for following in started:
        following.close()


Step = tuple[str, Callable[[int, "subprocess.Popen[bytes]"], object]]


@pytest.fixture
def at_terminal() -> Callable[..., tuple[int, str]]:
    """Run a command at a terminal of 100 columns; its exit code and all it wrote.

    Steps are taken one after another, each when its text was written since the one before.
    """

    def start(*words: str, steps: Sequence[Step] = (), **env: str) -> tuple[int, str]:
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            [sys.executable, "-m", "bullpen", *words],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", **env},
        )
        os.close(theirs)
        try:
            written = _play(ours, process, list(steps))
            return process.wait(DEADLINE_S), written.decode()
        finally:
            process.kill()
            process.wait()
            os.close(ours)

    return start


def _play(terminal: int, process: subprocess.Popen[bytes], steps: list[Step]) -> bytes:
    written, start = b"", 0
    until = time.monotonic() + DEADLINE_S
    while time.monotonic() < until:
        if not select.select([terminal], [], [], 1)[0]:
            continue
        try:
            chunk = os.read(terminal, 65536)
        except OSError:
            break  # So Linux says that the last process has closed the terminal.
        if not chunk:
            break
        written += chunk
        if steps and steps[0][0].encode() in written[start:]:
            start = len(written)
            steps.pop(0)[1](terminal, process)
    return written
