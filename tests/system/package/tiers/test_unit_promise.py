"""A unit test that starts a process, listens on a port or waits fails, and is told why."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[3]

BROKEN = {
    "a command": ("subprocess.run(['true'])", "it started a process: subprocess.Popen"),
    "a fork": ("os.waitpid(os.fork() or os._exit(0), 0)", "it started a process: os.fork"),
    "a spawned process": (
        "multiprocessing.get_context('spawn').Process(target=print).start()",
        "it started a process: SpawnProcess",
    ),
    "a server": ("socket.create_server(('127.0.0.1', 0)).close()", "it listened on a port"),
    "a nap": ("time.sleep(1.1)", "it waited 1.1 s"),
    "a wait of a loop": ("asyncio.run(asyncio.sleep(1.1))", "it waited 1.1 s"),
}
IMPORTS = "import asyncio, multiprocessing, os, pytest, socket, subprocess, threading, time\n"
NAPPING = "threading.Thread(target=nap, daemon=True).start()"


def run(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    """Run a file of tests under the promise of the unit tier."""
    (folder / "test_it.py").write_text(IMPORTS + text, encoding="utf-8")
    words = [sys.executable, "-m", "pytest", "-q", "-p", "support.unit_promise", "test_it.py"]
    env = {**os.environ, "PYTHONPATH": str(TESTS), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("kind", BROKEN)
def test_a_unit_test_that_breaks_the_promise_fails(tmp_path: Path, kind: str) -> None:
    deed, told = BROKEN[kind]
    done = run(tmp_path, f"def test_it():\n    {deed}\n")
    assert done.returncode == 1, done.stdout
    assert "A unit test broke the promise of its tier" in done.stdout
    assert told in done.stdout


def test_a_fixture_of_a_module_is_watched_too(tmp_path: Path) -> None:
    fixture = "@pytest.fixture(scope='module')\ndef it():\n    return subprocess.run(['true'])\n"
    done = run(tmp_path, f"{fixture}def test_it(it):\n    pass\n")
    assert done.returncode == 1, done.stdout
    assert "it started a process" in done.stdout


def test_a_unit_test_that_keeps_the_promise_passes(tmp_path: Path) -> None:
    text = "def test_it():\n    socket.socketpair()[0].close()\n    time.sleep(0.01)\n"
    assert run(tmp_path, text).returncode == 0


OLDER = """
def nap():
    while True:
        time.sleep(1.1)

{started}

def test_it():
    {deed}
    time.sleep(0.9)
    time.sleep(0.9)
"""


@pytest.mark.parametrize(
    ("started", "deed", "code"),
    [(NAPPING, "pass", 0), ("", NAPPING, 1)],
    ids=["before the test", "by the test"],
)
def test_only_threads_that_a_test_started_are_held_against_it(
    tmp_path: Path, started: str, deed: str, code: int
) -> None:
    done = run(tmp_path, OLDER.format(started=started, deed=deed))
    assert done.returncode == code, done.stdout
    assert ("it waited 1.1 s" in done.stdout) == bool(code)


def test_the_unit_tier_has_this_check() -> None:
    text = (TESTS / "unit/conftest.py").read_text(encoding="utf-8")
    assert "from support.unit_promise import" in text
