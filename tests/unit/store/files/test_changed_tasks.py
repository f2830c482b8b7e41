"""In a long list only the tasks that changed are looked at, and no change is missed."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from bullpen.protocol.changes import Change, DeleteTask, PutTask
from bullpen.protocol.names import LEAD
from bullpen.store.contract import View
from bullpen.store.files.records import Records
from bullpen.store.files.store import FileStore
from bullpen.store.files.watch import inotify
from bullpen.testing.sample_records import put, task
from support.store.peers import TEAM, Files

MANY = 150

pytestmark = pytest.mark.skipif(inotify._calls is None, reason="needs Linux")


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The names of the changes that were looked at; "all" for a look at all files."""
    found: list[str] = []
    every, some = Records._look_at_all, Records._look_at

    def at_all(self: Records) -> None:
        found.append("all")
        every(self)

    def at(self: Records, changed: set[str]) -> None:
        found.extend(sorted(name for name in changed if name.endswith(".json") and name[0] != "."))
        some(self, changed)

    monkeypatch.setattr(Records, "_look_at_all", at_all)
    monkeypatch.setattr(Records, "_look_at", at)
    yield found


async def many(store: FileStore) -> None:
    await put(store, *(PutTask(task(str(number))) for number in range(1, MANY + 1)))
    for _ in range(2):
        await store.read(TEAM)  # The first reads them all; the second asks to be told.


async def states(store: FileStore) -> dict[str, str]:
    state = await store.read(TEAM)
    assert list(state.tasks) == sorted(state.tasks, key=int)
    return {key: each.status for key, each in state.tasks.items()}


async def test_only_what_changed_is_looked_at(store: FileStore, looks: list[str]) -> None:
    await many(store)
    looks.clear()
    await store.read(TEAM)
    assert looks == []
    other = FileStore(Path(store.home))
    await put(other, PutTask(task("7", status="completed")), PutTask(task("1000")))
    await put(other, DeleteTask("8"))
    found = await states(store)
    assert (found["7"], found["1000"], "8" in found) == ("completed", "pending", False)
    assert looks == ["1000.json", "7.json", "8.json"]
    await other.aclose()


def in_place(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def by_rename(path: Path, text: str) -> None:
    temporary = path.with_name(f"{path.name}.tmp.0123abcd")
    temporary.write_text(text, encoding="utf-8")
    temporary.rename(path)


def as_text(raw: dict[str, Any]) -> str:
    return json.dumps(raw, indent=2)


@pytest.mark.parametrize("write", [in_place, by_rename])
async def test_what_other_programs_write_create_and_remove_is_seen(
    store: FileStore, files: Files, write: Callable[[Path, str], None]
) -> None:
    await many(store)
    raw = task("9", status="in_progress").raw
    write(files.task("9"), as_text(raw))
    write(files.task("2000"), as_text({**raw, "id": "2000"}))
    files.task("10").unlink()
    found = await states(store)
    assert (found["9"], found["2000"], "10" in found) == ("in_progress", "in_progress", False)
    write(files.task("151"), as_text({**raw, "id": "151"}))
    assert list(await states(store))[-2:] == ["151", "2000"]


async def test_a_damaged_task_is_a_problem_until_it_is_whole_again(
    store: FileStore, files: Files
) -> None:
    await many(store)
    files.task("9").write_text("{", "utf-8")
    os.utime(files.task("9"), (0, 0))
    state = await store.read(TEAM)
    assert "9" not in state.tasks
    assert [problem.where for problem in state.problems] == [str(files.task("9"))]
    files.task("9").write_text(as_text(task("9").raw), "utf-8")
    state = await store.read(TEAM)
    assert (list(state.tasks)[8], state.problems) == ("9", ())


async def test_a_task_list_that_was_replaced_is_read_again(
    store: FileStore, files: Files, looks: list[str]
) -> None:
    await many(store)
    folder = files.task("1").parent
    shutil.copytree(folder, folder.with_name("copy"))
    in_place(folder.with_name("copy") / "9.json", as_text(task("9", status="completed").raw))
    folder.rename(folder.with_name("old"))
    folder.with_name("copy").rename(folder)
    assert (await states(store))["9"] == "completed"
    in_place(files.task("11"), as_text(task("11", status="completed").raw))
    assert (await states(store))["11"] == "completed"


@pytest.mark.parametrize("why", ["queues", "network"])
async def test_without_notices_each_file_is_looked_at(
    store: FileStore,
    files: Files,
    looks: list[str],
    monkeypatch: pytest.MonkeyPatch,
    why: str,
) -> None:
    def refuse(self: object) -> None:
        raise OSError("no more queues")

    if why == "queues":
        monkeypatch.setattr(inotify.Inotify, "__init__", refuse)
    else:
        monkeypatch.setattr(inotify, "reports_all", lambda path: False)
    await many(store)
    looks.clear()
    in_place(files.task("9"), as_text(task("9", status="completed").raw))
    assert (await states(store))["9"] == "completed"
    assert looks == ["all"]


async def test_a_claim_is_decided_again_if_what_blocks_the_task_changed(
    store: FileStore, files: Files
) -> None:
    """The list may be old; the task and those before it are looked at under the locks."""
    blocked = task("200", blocked_by=["9"])
    await many(store)
    await put(store, PutTask(task("9", status="completed")), PutTask(blocked))
    runs: list[bool] = []

    def decide(view: View) -> Sequence[Change]:
        assert view.tasks()
        before = view.task("9")
        assert before is not None
        runs.append(before.status == "completed")
        if len(runs) == 1:
            in_place(files.task("9"), as_text(task("9").raw))
        return [PutTask(blocked.evolve(owner="ann"))] if runs[-1] else []

    committed = await store.commit(TEAM, decide, actor=LEAD, op="test")
    assert (runs, committed.changes) == ([True, False], ())
