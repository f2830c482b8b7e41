"""A home of every format that a version ever wrote is opened, left as it is, and goes on.

Run this module to record the home of the current format, once, when it is new.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import anyio
import pytest

from bullpen.protocol.changes import PutNote, PutTask
from bullpen.protocol.format_version import FORMAT
from bullpen.protocol.names import LEAD
from bullpen.store.events.fold import fold
from bullpen.store.files.log.split import PartSize
from bullpen.store.files.store import FileStore
from bullpen.testing.sample_records import config, message, note, put, task

from .stage import HERE, RECORDED, contents

HOMES = {"1.0": RECORDED / "home"} | {
    folder.name: folder for folder in sorted((HERE / "formats").iterdir())
}


@pytest.fixture(params=HOMES)
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    shutil.copytree(HOMES[request.param], tmp_path / "home")
    for path in (tmp_path / "home", *(tmp_path / "home").rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)
    return tmp_path / "home"


def test_there_is_a_home_of_every_format() -> None:
    major, minor = map(int, FORMAT.split("."))
    assert major == 1
    assert list(HOMES) == [f"1.{number}" for number in range(minor + 1)]


async def test_it_is_opened_and_nothing_is_written(home: Path) -> None:
    before = contents(home)
    store = FileStore(home)
    for team in await store.teams():
        state = await store.read(team)
        assert state.problems == ()
        assert [event.seq for event in await store.events(team)] == list(range(1, state.seq + 1))
        assert fold(await store.events(team)).tasks == {k: t.raw for k, t in state.tasks.items()}
        assert await store.checkup(team, fix=False) == []
    await store.aclose()
    assert contents(home) == before


async def test_it_goes_on(home: Path) -> None:
    store = FileStore(home)
    for team in await store.teams():
        known = (await store.read(team)).seq
        await put(store, PutTask(task("900")), team=team)
        await store.append(team, LEAD, message("new"), actor=LEAD)
        assert (await store.read(team)).seq == known + 2
        assert await store.checkup(team, fix=True) == []
    await store.aclose()


async def _record(home: Path) -> None:
    """A team whose log is in parts, with notes."""
    store = FileStore(home, clock=lambda: 1_700_000_000_000, part_size=PartSize(events=10))
    await store.create("alpha", config(), actor=LEAD)
    await put(store, *(PutTask(task(str(number))) for number in range(1, 4)))
    await store.append("alpha", "ann", message("first"), actor=LEAD)
    await put(store, PutNote(note("plan")), PutNote(note("old")))
    await put(store, PutNote(note("plan", "Two\n", version=2)), PutNote(note("old", "", version=2)))
    for number in range(30):
        await put(store, PutTask(task("1", subject=f"Try {number} " + "x" * 100)))
    await store.acknowledge("alpha", "ann", ["first"], "seen", actor="ann")
    await store.aclose()


if __name__ == "__main__":
    anyio.run(_record, HERE / "formats" / FORMAT)
