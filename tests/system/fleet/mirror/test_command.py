"""`bullpen team mirror`, as a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio

from bullpen.protocol.names import LEAD
from bullpen.store.files.store import FileStore
from support.doors.json_shapes import fitting
from support.fleet.homes import Program, new_team


@contextmanager
def mirroring(home: Path, into: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    command = [
        sys.executable,
        "-m",
        "bullpen",
        "team",
        "mirror",
        "alpha",
        "--into",
        str(into),
        *words,
    ]
    env = {name: value for name, value in os.environ.items() if not name.startswith("BULLPEN_")}
    child = subprocess.Popen(
        command,
        env={**env, "BULLPEN_HOME": str(home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


def first_line(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline()


async def make_team(home: Path, *messages: str) -> None:
    store = FileStore(home, fsync=False)
    team = await new_team(store)
    for text in messages:
        await team.mailbox.send("ann", text, sender=LEAD)
    await store.aclose()


def test_a_mirror_runs_until_it_is_stopped_and_says_how_it_stands(tmp_path: Path) -> None:
    home, into = tmp_path / "home", tmp_path / "into"
    anyio.run(make_team, home, "Hello")
    with mirroring(home, into, "--member", "ann", "--jsonl") as child:
        status: dict[str, Any] = fitting(first_line(child))
        assert (status["team"], status["state"]) == ("alpha", "in step")
        assert status["contactAgeMs"] >= 0
        assert Program(into).texts("ann") == ["Hello"]
        child.send_signal(signal.SIGINT)
        assert child.wait(30) != 0


def test_a_mirror_tells_people_where_the_team_is(tmp_path: Path) -> None:
    home, into = tmp_path / "home", tmp_path / "into"
    anyio.run(make_team, home)
    with mirroring(home, into) as child:
        assert first_line(child) == f"Team alpha is mirrored in {into}.\n"


def test_a_team_that_is_not_there_is_not_mirrored(tmp_path: Path) -> None:
    with mirroring(tmp_path / "home", tmp_path / "into") as child:
        _, said = child.communicate(timeout=30)
    assert child.returncode == 3
    assert "There is no team 'alpha'" in said
