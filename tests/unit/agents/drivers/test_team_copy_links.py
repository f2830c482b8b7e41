"""A program that writes in the team copy cannot lead its runner to another place."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from bullpen.agents.drivers.claude_code.conversation_log import ClaudeTail
from bullpen.agents.drivers.claude_code.lead import message_of_lead
from bullpen.agents.drivers.claude_code.team_copy import Mirror


@pytest.fixture
def mirror(tmp_path: Path) -> Mirror:
    found = Mirror(tmp_path / "copy", "crew", "ann")
    found.furnish(str(tmp_path), {"HOME": str(tmp_path)})
    return found


def _link(path: Path, target: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(target)


def test_a_link_in_the_place_of_a_file_is_not_written_through(
    mirror: Mirror, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    for name in ("settings-of-ours.json", f"settings-of-ours.json.tmp.{os.getpid()}"):
        _link(mirror.root / name, victim)
    box = mirror.root / "teams/crew/inboxes/ann.json"
    for path in (box, box.with_name(f"ann.json.tmp.{os.getpid()}")):
        _link(path, victim)
    kept = Path(mirror.keep("settings-of-ours.json", {"hooks": {}}))
    mirror.put([message_of_lead("Hello.")])
    assert victim.read_text() == "mine"
    assert json.loads(kept.read_bytes()) == {"hooks": {}}
    assert kept.stat().st_mode & 0o777 == 0o600


def test_a_link_in_the_place_of_a_file_is_not_read(mirror: Mirror, tmp_path: Path) -> None:
    secret = tmp_path / "credentials.json"
    secret.write_text('{"token": "hidden"}')
    _link(mirror.root / ".claude.json", secret)
    mirror.furnish(str(tmp_path), {"HOME": str(tmp_path)})
    assert "hidden" not in (mirror.root / ".claude.json").read_text()
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"type": "user"}\n')
    _link(mirror.root / "projects" / "session.jsonl", rows)
    tail = ClaudeTail(mirror.root / "projects" / "session.jsonl")
    tail.read()
    assert tail.rows == []


def test_every_directory_that_the_runner_uses_is_named_from_the_outside_in(
    mirror: Mirror,
) -> None:
    names = [os.path.relpath(path, mirror.root) for path in mirror.directories]
    assert names == [
        *(".", "teams", "teams/crew", "teams/crew/inboxes", "tasks", "tasks/crew"),
        *("projects", "plans"),
    ]
    assert all(Path(path).is_dir() for path in mirror.directories)
