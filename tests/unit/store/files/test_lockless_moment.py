"""Programs without a lock that write in the very moment between our last look and our write."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bullpen.protocol.changes import Change, DeleteTask, Deliver, PutMember, PutTask
from bullpen.protocol.names import LEAD
from bullpen.store.contract import View
from bullpen.store.files.disk import Disk
from bullpen.store.files.store import FileStore
from bullpen.testing.sample_records import member, message, put, task
from support.store.peers import INBOX, TEAM, Files, assert_the_log_tells_all

pytestmark = pytest.mark.no_loss


class Meddled(Disk):
    """Lets another program write before one step, as `CountingDisk` spells it, once."""

    def __init__(self, point: str, meddle: Callable[[], object]) -> None:
        super().__init__(fsync=True)
        self._point, self._meddle = point, meddle
        self.met = 0

    def step(self, what: str, path: str) -> None:
        if f"{what} {Path(path).name}" == self._point and not self.met:
            self.met += 1
            self._meddle()


def claim(view: View) -> list[Change]:
    found = view.task("1")
    assert found is not None
    return [PutTask(found.evolve(owner="ann"))]


MOMENTS = ["write events.jsonl", "fsync events.jsonl"]


@pytest.mark.parametrize("point", [*MOMENTS, "exchange 1.json"])
async def test_a_task_written_at_that_moment_keeps_both_changes(
    tmp_path: Path, store: FileStore, files: Files, point: str
) -> None:
    await put(store, PutTask(task("1", description="first")))
    disk = Meddled(
        point,
        lambda: files.edit(
            files.task("1"), lambda raw: raw.update(description="later", status="in_progress")
        ),
    )
    await FileStore(tmp_path, disk=disk).commit(TEAM, claim, actor="ann", op="claim")
    found = (await store.read(TEAM)).tasks["1"]
    assert disk.met
    assert (found.description, found.status, found.owner) == ("later", "in_progress", "ann")
    events = await store.events(TEAM)
    assert [event.op for event in events[-3:]] == ["claim", "observed", "claim"]
    await assert_the_log_tells_all(store)


@pytest.mark.parametrize("point", MOMENTS)
async def test_a_task_made_at_that_moment_under_our_id_is_in_the_log(
    tmp_path: Path, store: FileStore, files: Files, point: str
) -> None:
    theirs = task("1", subject="theirs")
    disk = Meddled(point, lambda: files.write(files.task("1"), theirs.raw))
    await put(FileStore(tmp_path, disk=disk), PutTask(task("1", subject="ours")))
    changes = [c for e in await store.events(TEAM) if e.observed for c in e.changes]
    assert changes == [PutTask(theirs)]
    assert (await store.read(TEAM)).tasks["1"].subject == "ours"
    await assert_the_log_tells_all(store)


@pytest.mark.parametrize("point", MOMENTS)
async def test_a_task_deleted_or_changed_at_that_moment_is_in_the_log(
    tmp_path: Path, store: FileStore, files: Files, point: str
) -> None:
    await put(store, PutTask(task("1")), PutTask(task("2")))
    disk = Meddled(point, files.task("1").unlink)
    await FileStore(tmp_path, disk=disk).commit(TEAM, claim, actor="ann", op="claim")
    disk = Meddled(
        point, lambda: files.edit(files.task("2"), lambda raw: raw.update(subject="later"))
    )
    await put(FileStore(tmp_path, disk=disk), DeleteTask("2"))
    changes = [c for e in await store.events(TEAM) if e.observed for c in e.changes]
    assert changes == [DeleteTask("1"), PutTask(task("2", subject="later"))]
    assert list((await store.read(TEAM)).tasks) == ["1"]
    await assert_the_log_tells_all(store)


@pytest.mark.parametrize("point", [*MOMENTS, "exchange config.json"])
async def test_a_config_written_at_that_moment_keeps_both_changes(
    tmp_path: Path, store: FileStore, files: Files, point: str
) -> None:
    def add_dora(raw: dict[str, Any]) -> None:
        raw["description"] = "theirs"
        raw["members"][1]["isActive"] = True
        raw["members"].append(member("dora").raw)

    disk = Meddled(point, lambda: files.edit(files.config, add_dora))
    await put(FileStore(tmp_path, disk=disk), PutMember(member("cleo")))
    found = await store.config(TEAM)
    assert [row.name for row in found.roster] == [LEAD, "ann", "bob", "dora", "cleo"]
    assert (found.description, found.roster[1].is_active) == ("theirs", True)
    await assert_the_log_tells_all(store)


@pytest.mark.parametrize("sent", [0, 1, 3])
async def test_mail_added_at_that_moment_stays(
    tmp_path: Path, store: FileStore, files: Files, sent: int
) -> None:
    for number in range(sent):
        await store.append(TEAM, INBOX, message(f"m{number}"), actor=LEAD)
    files.inbox().parent.mkdir(exist_ok=True)
    if not sent:
        files.write(files.inbox(), [])

    def add() -> None:
        files.edit(files.inbox(), lambda rows: rows.append(message("theirs").raw))

    for msg_id, deliver in (("one", False), ("two", True)):
        other = FileStore(tmp_path, disk=Meddled("exchange ann.json", add))
        if deliver:
            await put(other, Deliver(INBOX, message(msg_id)))
        else:
            await other.append(TEAM, INBOX, message(msg_id), actor=LEAD)
            rows = json.loads(files.inbox().read_bytes())
            assert [row["msg_id"] for row in rows[sent:]] == ["theirs", "one"]
            files.edit(files.inbox(), lambda rows: rows.remove(message("theirs").raw))
    rows = json.loads(files.inbox().read_bytes())
    assert [row["msg_id"] for row in rows[sent:]] == ["one", "theirs", "two"]
    await store.append(TEAM, INBOX, message("three"), actor=LEAD)
    await assert_the_log_tells_all(store)
