"""The commands on a home of a newer version, and on a copy that cannot be written."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

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


def set_head(home: Path, **fields: Any) -> None:
    path = home / OWN / "head"
    raw = {**json.loads(path.read_bytes()[:255]), **fields}
    with path.open("r+b") as file:
        file.write(json.dumps(raw, separators=(",", ":")).encode().ljust(255) + b"\n")


def test_a_new_kind_of_change_and_a_new_status_are_shown_and_kept(home: Path) -> None:
    log = home / OWN / "events.jsonl"
    last = json.loads(log.read_bytes().splitlines()[-1])
    new = {**last, "seq": last["seq"] + 1, "op": "sprint.open", "changes": [{"put": "sprint"}]}
    line = json.dumps(new).encode() + b"\n"
    log.write_bytes(log.read_bytes() + line)
    set_head(home, seq=new["seq"], size=log.stat().st_size, epoch=3)
    path = home / "tasks/shop/1.json"
    path.write_text(json.dumps({**json.loads(path.read_bytes()), "status": "review", "points": 5}))
    before = path.read_bytes()
    assert bullpen(home, "task", "add", "Two").returncode == 0
    assert bullpen(home, "send", "ann", "yo").returncode == 0
    shown = bullpen(home, "events")
    assert shown.returncode == 0 and "does not know: sprint" in shown.stdout
    listed = bullpen(home, "task", "list")
    assert listed.returncode == 0 and "unknown (review)" in listed.stdout
    refused = bullpen(home, "task", "claim", "1", "--as", "ann")
    assert refused.returncode != 0 and "'review'" in refused.stderr
    for words in (("ps",), ("summary",), ("team", "show"), ("doctor",), ("doctor", "--fix")):
        assert bullpen(home, *words).returncode == 0, words
    assert path.read_bytes() == before
    assert line in log.read_bytes()
    assert not (home / OWN / "quarantine").exists()
    assert json.loads((home / OWN / "head").read_bytes()[:255])["epoch"] == 3


def test_a_home_of_a_newer_major_is_read_and_not_written(home: Path) -> None:
    set_head(home, format="2.0")
    for words in (("task", "list"), ("events",), ("ps",), ("team", "show"), ("summary",)):
        assert bullpen(home, *words).returncode == 0, words
    for write in ("task add Two", "send ann yo", "team delete shop --yes"):
        told = bullpen(home, *write.split())
        assert told.returncode == 5 and "format 2.0" in told.stderr, write
        assert "hint: Upgrade Bullpen" in told.stderr
    found = bullpen(home, "doctor", "--fix")
    assert found.returncode == 1 and "newer_format" in found.stdout


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
