"""Notes as files: private, kept when other programs edit them, and nothing but plain files."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bullpen.errors import Conflict, Unreadable
from bullpen.protocol.changes import PutNote, PutTask
from bullpen.protocol.format_version import FORMAT
from bullpen.protocol.names import LEAD
from bullpen.protocol.record.note import NOTE_BYTES_MAX, NOTES_MAX, OTHER_PROGRAM
from bullpen.store.files.disk import Disk
from bullpen.store.files.log.event_log import read_head
from bullpen.store.files.store import FileStore
from bullpen.team.team import Team, Teams
from bullpen.testing.sample_records import assert_replay_is_live, config, note, put, task

from .test_versions import set_head


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[FileStore]:
    store = FileStore(tmp_path)
    await store.create("alpha", config(), actor=LEAD)
    yield store
    await store.aclose()


@pytest.fixture
def team(store: FileStore) -> Team:
    return Teams(store).open("alpha")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "teams/alpha/notes"


async def test_a_note_is_a_private_markdown_file_that_others_can_read(
    team: Team, folder: Path
) -> None:
    await team.notes.write("plan", "# Plän", over=0, by="ann")
    assert (folder / "plan.md").read_text("utf-8") == "# Plän\n"
    assert stat.S_IMODE(os.stat(folder / "plan.md").st_mode) == 0o600
    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
    await team.notes.write("plan", "", over=1, by="ann")
    assert os.listdir(folder) == []


async def test_an_edit_of_the_file_is_a_version_of_another_program(
    team: Team, store: FileStore, folder: Path
) -> None:
    await team.notes.write("plan", "One", over=0, by="ann")
    (folder / "plan.md").write_text("One\nmore")
    seen = await team.notes.read("plan")
    assert (seen.text, seen.version, seen.author) == ("One\nmore", 2, OTHER_PROGRAM)
    history = await team.notes.history("plan")
    assert [(each.note.text, each.note.author) for each in history] == [
        ("One\n", "ann"),
        ("One\nmore", OTHER_PROGRAM),
    ]
    assert (await team.events())[-1].observed
    await assert_replay_is_live(store)
    assert await store.checkup("alpha", fix=False) == []


async def test_who_writes_next_is_told_of_the_edit_and_overwrites_nothing(
    team: Team, folder: Path
) -> None:
    await team.notes.write("plan", "One", over=0, by="ann")
    (folder / "plan.md").write_text("Theirs\n")
    with pytest.raises(Conflict, match="another program"):
        await team.notes.write("plan", "Mine", over=1, by="ann")
    assert (folder / "plan.md").read_text() == "Theirs\n"
    # The number that was reported stands for that text only.
    (folder / "plan.md").write_text("Theirs again\n")
    with pytest.raises(Conflict, match="version 3"):
        await team.notes.write("plan", "Mine", over=2, by="ann")
    await team.notes.write("plan", "Merged", over=3, by="ann")
    texts = [each.note.text for each in await team.notes.history("plan")]
    assert texts == ["One\n", "Theirs\n", "Theirs again\n", "Merged\n"]


async def test_a_file_that_another_program_creates_or_removes_is_a_version_too(
    team: Team, store: FileStore, folder: Path
) -> None:
    os.mkdir(folder)
    (folder / "api.md").write_text("GET /\n")
    (found,) = (await team.notes.list()).notes
    assert (found.name, found.version, found.author) == ("api", 1, OTHER_PROGRAM)
    os.unlink(folder / "api.md")
    assert (await team.notes.list()).notes == []
    assert (await team.notes.write("api", "New", over=0, by="ann")).version == 3
    await assert_replay_is_live(store)


async def test_other_files_in_the_folder_are_left_alone(team: Team, folder: Path) -> None:
    os.mkdir(folder)
    for name in (".plan.md.swp", "plan.md~", "picture.png"):
        (folder / name).write_bytes(b"\xff")
    assert await team.notes.list() == await Teams(team._store).open("alpha").notes.list()
    assert (await team.notes.list()).problems == ()
    assert len(os.listdir(folder)) == 3


@pytest.mark.parametrize("kind", ["link", "folder", "pipe", "binary", "long"])
async def test_what_is_no_plain_text_is_refused_and_reported(
    kind: str, team: Team, store: FileStore, folder: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("the secret")
    await team.notes.write("plan", "One", over=0, by="ann")
    path = folder / "plan.md"
    os.unlink(path)
    if kind == "link":
        os.symlink(secret, path)
    elif kind == "folder":
        os.mkdir(path)
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.write_bytes(b"\xff\xfe" if kind == "binary" else b"x" * (NOTE_BYTES_MAX + 1))
    with pytest.raises(Unreadable):
        await team.notes.read("plan")
    assert [each.where for each in (await team.notes.list()).problems] == [str(path)]
    with pytest.raises(Unreadable):
        await team.notes.write("plan", "Two", over=1, by="ann")
    assert secret.read_text() == "the secret"
    assert [found.where for found in await store.checkup("alpha", fix=True)] == [str(path)]
    assert (await team.notes.read("plan")).text == "One\n"
    assert await store.checkup("alpha", fix=False) == []


async def test_a_link_in_the_place_of_the_folder_is_never_followed(
    team: Team, folder: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    os.mkdir(elsewhere)
    (elsewhere / "plan.md").write_text("outside")
    os.symlink(elsewhere, folder)
    assert (await team.notes.list()).notes == []
    with pytest.raises(Unreadable):
        await team.notes.write("plan", "x", over=0, by="ann")
    assert (elsewhere / "plan.md").read_text() == "outside"
    assert os.listdir(elsewhere) == ["plan.md"]


async def test_more_files_than_a_team_can_have_notes_are_reported(team: Team, folder: Path) -> None:
    os.mkdir(folder)
    for number in range(NOTES_MAX + 2):
        (folder / f"n{number}.md").write_text("x")
    found = await team.notes.list()
    assert (len(found.notes), len(found.problems)) == (NOTES_MAX, 2)


class Editor(Disk):
    """Somebody saves the file in the moment before it is replaced."""

    def __init__(self, path: Path) -> None:
        super().__init__(fsync=False)
        self.path, self.text = path, ""

    def step(self, what: str, path: str) -> None:
        if what == "exchange" and path == str(self.path) and self.text:
            self.path.unlink(missing_ok=True)
            if self.text == "link":
                self.path.symlink_to("/etc/passwd")
            else:
                self.path.write_text(self.text)
            self.text = ""


async def test_what_was_saved_in_the_last_moment_is_the_next_version(
    tmp_path: Path, folder: Path, store: FileStore
) -> None:
    disk = Editor(folder / "plan.md")
    racing = FileStore(tmp_path, disk=disk)
    team = Teams(racing).open("alpha")
    await team.notes.write("plan", "One", over=0, by="ann")
    disk.text = "Saved\n"
    await team.notes.write("plan", "Two", over=1, by="ann")
    assert [(each.note.text, each.note.author) for each in await team.notes.history("plan")] == [
        ("One\n", "ann"),
        ("Two\n", "ann"),
        ("Saved\n", OTHER_PROGRAM),
    ]
    assert (folder / "plan.md").read_text() == "Saved\n"
    disk.text = "link"
    await team.notes.write("plan", "Four", over=3, by="ann")
    assert (await team.notes.read("plan")).text == "Four\n"
    assert os.listdir(folder) == ["plan.md"]
    await racing.aclose()


async def test_the_first_note_raises_the_format_of_an_older_team(
    store: FileStore, tmp_path: Path
) -> None:
    set_head(tmp_path, format="1.1")
    await put(store, PutTask(task("1")))
    path = str(tmp_path / "teams/alpha/.bullpen/head")
    head = read_head(path)
    assert head is not None and head.format == "1.1"
    await put(store, PutNote(note("plan")))
    head = read_head(path)
    assert head is not None and head.format == FORMAT == "1.2"


async def test_an_index_that_an_earlier_version_saved_makes_no_edits_of_others(
    store: FileStore, tmp_path: Path
) -> None:
    await put(store, PutNote(note("plan")))
    await store.events("alpha")
    # What an earlier version saved lacks the notes, although the log has one.
    own = tmp_path / "teams/alpha/.bullpen"
    saved: dict[str, object] = {
        name: {} for name in ("fields", "members", "tasks", "requests", "mail", "looked")
    }
    size = os.stat(own / "events.jsonl").st_size
    (own / "ledger.json").write_text(json.dumps({"seq": 2, "size": size, "begin": 0, **saved}))
    fresh = FileStore(tmp_path)
    assert len(await fresh.events("alpha")) == 2
    await fresh.aclose()
