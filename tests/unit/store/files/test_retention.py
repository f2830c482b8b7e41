"""Old parts of a log are removed if a team's settings say so; then the log begins later."""

from __future__ import annotations

import gzip
import os
import shutil
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from bullpen.errors import BullpenError
from bullpen.protocol.changes import PutTask, PutTeam
from bullpen.protocol.team import Retention
from bullpen.store.events.checkpoint import BEGIN
from bullpen.store.events.fold import fold
from bullpen.store.files.store import FileStore
from bullpen.testing.faults import FailingDisk
from bullpen.testing.sample_records import put, task
from chaos.files.killed_scenarios import LIMITS, SHORT, prepare

from .test_log_parts import parts_of, work

pytestmark = pytest.mark.no_loss


def store_on(home: Path, **options: Any) -> FileStore:
    """A store with the real clock: parts get older."""
    return FileStore(home, limits=LIMITS, part_size=SHORT, **options)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[FileStore]:
    store = store_on(tmp_path / "home")
    await prepare(store)
    await work(store, 20)
    yield store
    await store.aclose()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


async def keep(store: FileStore, **rule: Any) -> None:
    facts = {"retention": Retention.new(**rule).raw}
    await put(store, PutTeam({"bullpen": facts}))


def make_old(paths: list[Path], days: float) -> None:
    for path in paths:
        then = time.time() - days * 86_400
        os.utime(path, (then, then))


async def check(store: FileStore) -> None:
    """The log begins later, says so, and is good for everything else."""
    events = await store.events("alpha")
    first = events[0]
    assert first.op == BEGIN and first.seq > 5
    assert [event.seq for event in events] == list(range(first.seq, first.seq + len(events)))
    assert await store.events("alpha", after=2) == events
    assert await store.events("alpha", after=first.seq) == events[1:]
    live, replayed = await store.read("alpha"), fold(events)
    assert replayed.tasks == {key: each.raw for key, each in live.tasks.items()}
    assert replayed.team == live.team.header
    assert await store.checkup("alpha", fix=False) == []
    await put(store, PutTask(task("77")))


async def test_everything_is_kept_unless_told(store: FileStore, home: Path) -> None:
    make_old(parts_of(home), 3650)
    await work(store, 10)
    assert (await store.events("alpha"))[0].op == "team.create"


async def test_parts_that_are_too_old_are_removed(store: FileStore, home: Path) -> None:
    old = parts_of(home)[:2]
    make_old(old, 31)
    await keep(store, keep_days=30.0)
    await work(store, 10)
    assert not any(path.exists() for path in old) and parts_of(home)
    await check(store)


async def test_the_oldest_parts_are_removed_if_all_are_too_large(
    store: FileStore, home: Path
) -> None:
    await keep(store, keep_mb=0.002)
    await work(store, 10)
    assert sum(path.stat().st_size for path in parts_of(home)) <= 2_000
    await check(store)


async def test_a_checkup_removes_them_too_and_no_part_may_be_left(
    store: FileStore, home: Path
) -> None:
    await keep(store, keep_mb=0.000001)
    await store.checkup("alpha", fix=True)
    assert parts_of(home) == []
    await check(store)


async def test_parts_are_exported_before_they_are_removed(
    store: FileStore, home: Path, tmp_path: Path
) -> None:
    before, whole = {path.name: path.read_bytes() for path in parts_of(home)}, tmp_path / "old"
    await keep(store, keep_mb=0.000001, export=str(whole))
    await store.checkup("alpha", fix=True)
    exported = {path.name.removeprefix("alpha-"): path.read_bytes() for path in whole.iterdir()}
    assert before.items() <= exported.items()
    assert b"team.create" in gzip.decompress(exported[min(exported)])


async def test_nothing_is_removed_that_cannot_be_exported(
    store: FileStore, home: Path, tmp_path: Path
) -> None:
    (tmp_path / "in the way").write_text("")
    await keep(store, keep_mb=0.000001, export=str(tmp_path / "in the way"))
    await work(store, 10)
    assert (await store.events("alpha"))[0].op == "team.create"


async def test_a_removal_that_fails_half_way_is_finished_by_the_next_checkup(
    store: FileStore, home: Path, tmp_path: Path
) -> None:
    await keep(store, keep_mb=0.000001, export=str(tmp_path / "old"))
    await store.aclose()
    for number in range(1, 200):
        copy = tmp_path / f"failing{number}"
        shutil.copytree(home, copy)
        failing = store_on(copy, disk=FailingDisk(number))
        try:
            await failing.checkup("alpha", fix=True)
        except BullpenError:
            pass
        else:
            if not parts_of(copy):
                break
        finally:
            await failing.aclose()
        again = store_on(copy)
        await again.checkup("alpha", fix=True)
        await check(again)
        await again.aclose()
        shutil.rmtree(copy)
    else:
        pytest.fail("it never ended")


async def test_a_log_that_begins_later_can_be_moved(store: FileStore) -> None:
    await keep(store, keep_mb=0.002)
    await work(store, 10)
    events = await store.events("alpha")
    await store.restore("beta", events)
    assert await store.events("beta") == events
    assert await store.checkup("beta", fix=False) == []
