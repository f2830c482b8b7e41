"""The mirror: what Claude Code finds in its config directory, and what it leaves there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bullpen.agents.drivers.claude_code.team_copy import Mirror
from bullpen.errors import Unavailable
from bullpen.protocol.message import Message
from bullpen.protocol.task import Task
from bullpen.protocol.team import Member


@pytest.fixture
def mirror(tmp_path: Path) -> Mirror:
    mirror = Mirror(tmp_path / "claude", "alpha", "ann")
    mirror.furnish("/project", {"HOME": str(tmp_path)})
    return mirror


def inbox(mirror: Mirror, name: str) -> Path:
    return mirror.root / "teams" / "alpha" / "inboxes" / f"{name}.json"


def message(key: str) -> Message:
    return Message.new(sender="team-lead", text=key, timestamp="", msg_id=key)


def test_mail_is_taken_when_the_program_removed_or_marked_it(mirror: Mirror) -> None:
    mirror.put([message("one"), message("two")])
    assert not mirror.has_taken(["one"])
    rows = json.loads(inbox(mirror, "ann").read_text())
    rows[0]["read"] = True
    inbox(mirror, "ann").write_text(json.dumps(rows))
    assert mirror.has_taken(["one"])
    assert not mirror.has_taken(["one", "two"])
    inbox(mirror, "ann").write_text("[]")
    assert mirror.has_taken(["one", "two"])


def test_mail_that_is_withdrawn_is_gone_and_other_mail_is_not(mirror: Mirror) -> None:
    mirror.put([message("one"), message("two")])
    mirror.withdraw(["one"])
    assert [row["msg_id"] for row in json.loads(inbox(mirror, "ann").read_text())] == ["two"]


def test_what_it_writes_to_its_lead_is_collected_once_and_copies_are_dropped(
    mirror: Mirror,
) -> None:
    inbox(mirror, "team-lead").write_text('[{"from": "ann", "text": "idle", "read": false}]')
    inbox(mirror, "bob").write_text('[{"from": "ann", "text": "hello", "read": false}]')
    assert mirror.collect() == ["idle"]
    assert mirror.collect() == []
    assert inbox(mirror, "bob").read_text() == "[]"


def test_a_lock_is_respected_until_it_is_old(
    mirror: Mirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = Path(f"{inbox(mirror, 'ann')}.lock")
    lock.mkdir()
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        assert "one" not in inbox(mirror, "ann").read_text(), "another one has the lock"
        pauses.append(seconds)
        if len(pauses) == 5:
            lock.rmdir()

    monkeypatch.setattr("bullpen.agents.drivers.claude_code.team_copy.time.sleep", pause)
    mirror.put([message("one")])
    assert len(pauses) == 5
    monkeypatch.undo()
    lock.mkdir()
    monkeypatch.setattr("bullpen.agents.drivers.claude_code.team_copy._LOCK_WAIT_S", 0.1)
    with pytest.raises(Unavailable, match="does not release the lock"):
        mirror.put([message("two")])
    monkeypatch.setattr("bullpen.agents.drivers.claude_code.team_copy._LOCK_STALE_S", -1.0)
    mirror.put([message("three")])


def test_what_a_killed_program_held_and_had_not_read_is_gone_at_the_next_start(
    mirror: Mirror, tmp_path: Path
) -> None:
    mirror.put([message("one")])
    lock = mirror.root / "teams" / "alpha" / "config.json.lock"
    lock.mkdir()
    mirror.furnish("/project", {"HOME": str(tmp_path)})
    assert not lock.exists()
    assert inbox(mirror, "ann").read_text() == "[]"


def test_its_tasks_are_the_teams_without_our_own_facts(mirror: Mirror) -> None:
    task = Task.new(
        id="2", subject="Paint", description="", metadata={"bullpen": {"attempt": 1}, "a": 1}
    )
    folder = mirror.root / "tasks" / "alpha"
    (folder / "1.json").write_text("{}")
    mirror.show([task])
    assert sorted(path.name for path in folder.glob("*.json")) == ["2.json"]
    assert json.loads((folder / "2.json").read_text())["metadata"] == {"a": 1}


def test_the_next_task_gets_the_number_that_the_team_gave_it(mirror: Mirror) -> None:
    mirror.expect("7")
    assert (mirror.root / "tasks" / "alpha" / ".highwatermark").read_text() == "6"


def test_a_roster_that_the_program_left_empty_is_written_anew(mirror: Mirror) -> None:
    """One version writes without a lock, and leaves no bytes when it is killed meanwhile."""
    members = [Member.new(name="team-lead", agent_type="team-lead"), Member.new(name="ann")]
    path = mirror.root / "teams" / "alpha" / "config.json"
    path.write_bytes(b"")
    mirror.seat(members, cwd="/project", plan=False)
    rows = {row["name"]: row for row in json.loads(path.read_text())["members"]}
    assert set(rows) == {"team-lead", "ann"}
    rows["ann"]["isActive"] = True
    path.write_text(json.dumps({"name": "alpha", "members": list(rows.values())}))
    mirror.seat([*members, Member.new(name="bob")], cwd="/project", plan=False)
    again = {row["name"]: row for row in json.loads(path.read_text())["members"]}
    assert set(again) == {"team-lead", "ann", "bob"}
    assert again["ann"]["isActive"] is True


def test_it_begins_where_its_user_has_worked_before(tmp_path: Path) -> None:
    users = tmp_path / ".claude"
    users.mkdir()
    (users / "CLAUDE.md").write_text("Be brief.")
    (tmp_path / ".claude.json").write_text('{"oauthAccount": {"id": "a"}, "secret": "s"}')
    mirror = Mirror(tmp_path / "mirror", "alpha", "ann")
    env = {"HOME": str(tmp_path), "ANTHROPIC_API_KEY": "k" * 30 + "-the-end"}
    mirror.furnish("/project", env)
    told = json.loads((mirror.root / ".claude.json").read_text())
    assert (mirror.root / "CLAUDE.md").read_text() == "Be brief."
    assert told["oauthAccount"] == {"id": "a"} and "secret" not in told
    assert told["projects"]["/project"]["hasTrustDialogAccepted"] is True
    assert told["customApiKeyResponses"]["approved"] == [env["ANTHROPIC_API_KEY"][-20:]]
