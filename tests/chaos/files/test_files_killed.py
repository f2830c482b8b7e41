"""Killed with -9 before every single step, and half-way through every write."""

from __future__ import annotations

import multiprocessing
import shutil
import signal
from pathlib import Path
from typing import Any

import anyio
import pytest

from bullpen.protocol.changes import Event, PutTask
from bullpen.store.files.log.split import PartSize
from bullpen.store.files.store import FileStore
from bullpen.testing.faults import CountingDisk, DyingDisk, FailingDisk
from bullpen.testing.sample_records import assert_replay_is_live, put, task

from .killed_scenarios import (  # isort: skip
    LONG,
    SCENARIOS,
    SHORT,
    prepare,
    run_in_child,
    state_of,
    store_on,
)

pytestmark = pytest.mark.no_loss

FORKSERVER = multiprocessing.get_context("forkserver")
FORKSERVER.set_forkserver_preload(["bullpen.testing.sample_records", "bullpen.store.files.store"])


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("prepared")
    anyio.run(prepare, store_on(home))
    return home


def steps_of(home: Path, scenario: str, *, part: PartSize = LONG) -> list[str]:
    disk = CountingDisk()
    anyio.run(SCENARIOS[scenario], store_on(home, disk, part=part))
    return disk.steps


async def work(store: FileStore) -> None:
    """Make the log long, and the state no larger."""
    for number in range(12):
        await put(store, PutTask(task("1", subject=f"Try {number} " + "x" * 300)))


async def log_of(home: Path) -> list[Event]:
    store = store_on(home)
    events = await store.events("alpha")
    await store.aclose()
    return events


def kill_at(home: Path, scenario: str, n: int, *, torn: bool) -> None:
    child = FORKSERVER.Process(target=run_in_child, args=(home, scenario, DyingDisk(n, torn=torn)))
    child.start()
    child.join(30)
    assert child.exitcode == -signal.SIGKILL


async def check(home: Path) -> dict[str, Any]:
    found = await state_of(home)
    store = store_on(home)
    for team in await store.teams():
        await assert_replay_is_live(store, team)
        # The team is as good as new: it takes the next commit and has no leftovers in the way.
        assert [f for f in await store.checkup(team, fix=True) if not f.fixed] == []
        assert await store.checkup(team, fix=False) == []
    assert [f for f in await store.checkup(None, fix=True) if not f.fixed] == []
    await store.aclose()
    return found


ALL_OR_NOTHING = ["commit_eight_files", "write_notes", "create", "delete", "append"]


@pytest.mark.parametrize("torn", [False, True], ids=["killed-before", "killed-half-way"])
@pytest.mark.parametrize("scenario", ALL_OR_NOTHING)
def test_killed_at_any_step_it_happened_wholly_or_not_at_all(
    prepared: Path, tmp_path: Path, scenario: str, torn: bool
) -> None:
    whole = tmp_path / "whole"
    shutil.copytree(prepared, whole)
    before = anyio.run(state_of, whole)
    steps = steps_of(whole, scenario)
    after = anyio.run(state_of, whole)
    assert before != after
    seen = set()
    for n in range(1, len(steps) + 1):
        if torn and not steps[n - 1].startswith("write"):
            continue
        home = tmp_path / f"killed{n}"
        shutil.copytree(prepared, home)
        kill_at(home, scenario, n, torn=torn)
        found = anyio.run(check, home)
        assert found in (before, after), f"killed at step {n}: {steps[n - 1]}"
        seen.add("after" if found == after else "before")
        shutil.rmtree(home)
    assert torn or seen == {"before", "after"}


def test_killed_while_it_mends_it_is_mended_by_the_next(prepared: Path, tmp_path: Path) -> None:
    """The process that carries out a dead one's commit dies too, at every step."""
    half = tmp_path / "half"
    shutil.copytree(prepared, half)
    steps = steps_of(half, "commit_eight_files")
    after = anyio.run(state_of, half)
    committed = next(n for n, step in enumerate(steps) if step == "fsync events.jsonl") + 2
    shutil.rmtree(half)
    shutil.copytree(prepared, half)
    kill_at(half, "commit_eight_files", committed, torn=False)
    mending = tmp_path / "mending"
    shutil.copytree(half, mending)
    steps = steps_of(mending, "only_look")
    assert len(steps) > 20
    for n in range(1, len(steps) + 1):
        home = tmp_path / f"killed{n}"
        shutil.copytree(half, home)
        kill_at(home, "only_look", n, torn=False)
        assert anyio.run(check, home) == after, f"killed at step {n}: {steps[n - 1]}"
        shutil.rmtree(home)


@pytest.mark.parametrize("torn", [False, True], ids=["killed-before", "killed-half-way"])
def test_killed_while_the_log_is_split_every_event_is_there_once(
    prepared: Path, tmp_path: Path, torn: bool
) -> None:
    long = tmp_path / "long"
    shutil.copytree(prepared, long)
    anyio.run(work, store_on(long))
    whole = tmp_path / "whole"
    shutil.copytree(long, whole)
    before = anyio.run(state_of, whole), anyio.run(log_of, whole)
    steps = steps_of(whole, "split_log", part=SHORT)
    after = anyio.run(state_of, whole), anyio.run(log_of, whole)
    assert list((whole / "teams/alpha/.bullpen/log").iterdir())
    committed = next(n for n, step in enumerate(steps) if step == "fsync events.jsonl")
    assert len(steps) - committed > 15
    for n in range(1, len(steps) + 1):
        if torn and not steps[n - 1].startswith("write"):
            continue
        home = tmp_path / f"killed{n}"
        shutil.copytree(long, home)
        kill_at(home, "split_log", n, torn=torn)
        found = anyio.run(check, home), anyio.run(log_of, home)
        assert found in (before, after), f"killed at step {n}: {steps[n - 1]}"
        # The next writer splits it, whatever is left of the first.
        anyio.run(SCENARIOS["append"], store_on(home, part=SHORT))
        parts = sorted((home / "teams/alpha/.bullpen/log").glob("*.gz"))
        assert parts and anyio.run(log_of, home)[0].seq == 1
        anyio.run(check, home)
        shutil.rmtree(home)


def test_killed_while_mail_is_archived_no_message_is_lost_or_doubled(
    prepared: Path, tmp_path: Path
) -> None:
    whole = tmp_path / "whole"
    shutil.copytree(prepared, whole)
    steps = steps_of(whole, "acknowledge_and_archive")
    for n in range(1, len(steps) + 1):
        home = tmp_path / f"killed{n}"
        shutil.copytree(prepared, home)
        kill_at(home, "acknowledge_and_archive", n, torn=False)
        mail = [key for key, _ in anyio.run(check, home)["alpha"]["mail"]["ann"]]
        assert mail[:6] == [f"old{number}" for number in range(6)], steps[n - 1]
        assert len(mail) == len(set(mail))
        shutil.rmtree(home)


@pytest.mark.parametrize("forever", [False, True], ids=["one-error", "full-disk"])
@pytest.mark.parametrize("scenario", ALL_OR_NOTHING)
def test_refused_by_the_disk_at_any_step_it_happened_wholly_or_not_at_all(
    prepared: Path, tmp_path: Path, scenario: str, forever: bool
) -> None:
    from bullpen.errors import Unavailable

    whole = tmp_path / "whole"
    shutil.copytree(prepared, whole)
    before = anyio.run(state_of, whole)
    steps = steps_of(whole, scenario)
    after = anyio.run(state_of, whole)
    for n in range(1, len(steps) + 1):
        home = tmp_path / f"broken{n}"
        shutil.copytree(prepared, home)
        disk = FailingDisk(n, forever=forever)
        try:
            anyio.run(SCENARIOS[scenario], store_on(home, disk))
            refused = False
        except Unavailable:
            refused = True
        found = anyio.run(check, home)
        assert found in (before, after), f"refused at step {n}: {steps[n - 1]}"
        assert refused or found == after
        shutil.rmtree(home)
