"""The commands on a home of a newer version, and on a copy that cannot be written."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

OWN = "teams/shop/.bullpen"


def bullpen(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bullpen", *words],
        env={**os.environ, "BULLPEN_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("made") / "home"
    for words in ("team create shop", "member add ann", "task add One", "send ann hi"):
        assert bullpen(home, *words.split()).returncode == 0, words
    return home


@pytest.fixture
def home(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "home")
    (tmp_path / "home").chmod(0o700)
    return tmp_path / "home"


READ_ONLY = """
mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" || exit 99
if touch "$0/x" 2>/dev/null; then exit 99; fi
exec "$@"
"""


def read_only(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    told = subprocess.run(
        [
            "unshare",
            "-rm",
            "sh",
            "-c",
            READ_ONLY,
            str(home),
            sys.executable,
            "-m",
            "bullpen",
            *words,
        ],
        env={**os.environ, "BULLPEN_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    if told.returncode == 99 or "unshare" in told.stderr:
        pytest.skip("a read-only mount cannot be made here")
    return told


@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs unshare")
def test_a_copy_that_cannot_be_written_can_be_looked_at(home: Path) -> None:
    for words in (
        ("events",),
        ("events", "--limit", "2"),
        ("doctor",),
        ("ps",),
        ("task", "list"),
        ("summary",),
        ("team", "show"),
    ):
        told = read_only(home, *words)
        assert told.returncode == 0, (words, told.stdout, told.stderr)
    assert "task.add" in read_only(home, "events").stdout
    told = read_only(home, "task", "add", "Two")
    assert told.returncode == 5 and "Read-only" in told.stderr


@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs unshare")
def test_a_copy_made_in_the_middle_of_a_commit_can_be_looked_at(home: Path) -> None:
    log = home / OWN / "events.jsonl"
    log.write_bytes(log.read_bytes() + b'{"seq":5,"ti')
    assert "message" in read_only(home, "events").stdout
    assert read_only(home, "task", "list").returncode == 0
    found = read_only(home, "doctor")
    assert found.returncode == 1 and "half_done" in found.stdout
