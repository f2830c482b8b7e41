"""Many processes write one note and are killed with -9: no text is lost, no conflict unseen.

Each process adds lines to the same note, always over the version that it read. The killed ones are
started again and go on. CI plays a sample; this is the whole:

    BULLPEN_NOTE_WRITES=100 uv run pytest tests/chaos/races/test_notes_killed.py
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import anyio
import pytest

from bullpen.errors import Conflict, NotFound
from bullpen.fleet.servers.server_process import Cluster
from bullpen.protocol.changes import PutNote
from bullpen.protocol.record.note import Note
from bullpen.store.contract import Store
from bullpen.store.files.store import FileStore
from bullpen.store.nats.client.connection import Endpoint
from bullpen.store.nats.store import NatsStore
from bullpen.team.team import Team, Teams
from support.store.nats_parts import servers
from support.store.race import Diary

pytestmark = pytest.mark.no_loss

WRITERS = 10
WRITES = int(os.environ.get("BULLPEN_NOTE_WRITES", "10"))
KILLS = 6 + WRITES // 4
TEAM, NOTE = "race", "plan"
DEADLINE_S = 60 + 12 * WRITES

_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload(
    ["bullpen.team.team", "bullpen.store.files.store", "bullpen.store.nats.store"]
)


def _store(where: str) -> Store:
    if where.startswith("nats:"):
        return NatsStore(Endpoint(tuple(where.split(","))))
    return FileStore(Path(where))


def _write_lines(where: str, number: int, launch: int, folder: str) -> None:
    anyio.run(_add_all, where, number, launch, Path(folder))


async def _add_all(where: str, number: int, launch: int, folder: Path) -> None:
    diary = Diary(folder / f"{number}-{launch}.diary")
    async with Teams(_store(where)) as teams:
        team, chance = teams.open(TEAM), random.Random(f"{number} {launch}")
        await _read(team)
        if launch == 0:
            await anyio.to_thread.run_sync(_begin_together, folder, number)
        for index in range(WRITES):
            await _add(team, f"member-{number}", f"{number}-{index}", diary, chance)


def _begin_together(folder: Path, number: int) -> None:
    """Wait until every writer is connected, or on a fast machine they would never meet."""
    (folder / f"{number}.ready").touch()
    deadline = time.monotonic() + DEADLINE_S
    while len(list(folder.glob("*.ready"))) < WRITERS:
        assert time.monotonic() < deadline, "the writers did not begin"
        time.sleep(0.01)


async def _add(team: Team, me: str, line: str, diary: Diary, chance: random.Random) -> None:
    """Add a line over the version that was read, as often as it takes."""
    while True:
        text, version = await _read(team)
        if line in text.split("\n"):
            return  # An earlier launch wrote it, and was killed before it could say so.
        try:
            note = await team.notes.write(NOTE, f"{text}{line}\n", over=version, by=me)
        except Conflict:
            diary.note(conflict=line, over=version)
            await anyio.sleep(chance.uniform(0, 0.05))
            continue
        diary.note(wrote=line, over=version, version=note.version)
        return


async def _read(team: Team) -> tuple[str, int]:
    try:
        note = await team.notes.read(NOTE)
    except NotFound:
        return "", 0
    return note.text, note.version


def _play(where: str, folder: Path) -> int:
    """Run all writers to their end, kill some on the way, and return how many were killed."""
    chance, deadline = random.Random(22), time.monotonic() + DEADLINE_S
    running: dict[int, BaseProcess] = {}
    launches: Counter[int] = Counter()
    kills = 0

    def launch(number: int) -> None:
        child = _PROCESSES.Process(
            target=_write_lines, args=(where, number, launches[number], str(folder)), daemon=True
        )
        child.start()
        launches[number] += 1
        running[number] = child

    for number in range(WRITERS):
        launch(number)
    while running:
        assert time.monotonic() < deadline, "the writers did not come to an end"
        time.sleep(chance.uniform(0.01, 0.05))
        # The kills are spread over the writes, however fast these are: the first is not before
        # something was written, and the last has writers to meet.
        written = sum("wrote" in row for row in Diary.read_all(folder))
        is_due = kills < KILLS and written > kills * WRITERS * WRITES // (KILLS + 1)
        victim = chance.choice(list(running.values())) if is_due else None
        if victim is not None and victim.is_alive() and victim.pid:
            # One that came to its end in this moment cannot be killed any more.
            with suppress(ProcessLookupError):
                os.kill(victim.pid, signal.SIGKILL)
                kills += 1
        for number, child in list(running.items()):
            if not child.is_alive():
                child.join()
                del running[number]
                if child.exitcode == -signal.SIGKILL:
                    launch(number)
                else:
                    assert child.exitcode == 0
    return kills


async def _versions(where: str) -> tuple[list[Note], Note]:
    async with Teams(_store(where)) as teams:
        team = teams.open(TEAM)
        events = await team.events()
        logged = [
            change.note
            for event in events
            for change in event.changes
            if isinstance(change, PutNote)
        ]
        return logged, await team.notes.read(NOTE)


async def _create(where: str) -> None:
    async with Teams(_store(where)) as teams:
        await teams.create(TEAM)


def _check(where: str, folder: Path) -> dict[str, Any]:
    logged, last = anyio.run(_versions, where)
    said = Diary.read_all(folder)
    wrote = {row["version"]: row for row in said if "wrote" in row}
    # No line is lost, and none is there twice.
    lines = last.text.rstrip("\n").split("\n")
    wanted = {f"{number}-{index}" for number in range(WRITERS) for index in range(WRITES)}
    assert len(lines) == len(wanted) and set(lines) == wanted
    # Each version is the one before and one line: whoever read an older one was refused.
    assert [note.version for note in logged] == list(range(1, len(wanted) + 1))
    before = ""
    for note in logged:
        line = note.text.removeprefix(before)
        assert note.text == before + line and line.count("\n") == 1
        assert note.author == f"member-{line.split('-')[0]}"
        if note.version in wrote:
            row = wrote[note.version]
            assert (row["wrote"], row["over"]) == (line.strip(), note.version - 1)
        before = note.text
    assert logged[-1] == last
    # What a writer was told is stored, is. Only who was killed did not hear of it.
    assert set(wrote) <= {note.version for note in logged}
    conflicts = sum("conflict" in row for row in said)
    return {"versions": len(logged), "acknowledged": len(wrote), "conflicts": conflicts}


def test_no_text_is_lost_in_files_and_every_conflict_is_seen(tmp_path: Path) -> None:
    home = str(tmp_path / "home")
    anyio.run(_create, home)
    kills = _play(home, tmp_path)
    told = _check(home, tmp_path)
    print(f"files: {told}, {kills} kills")
    assert kills == KILLS and told["conflicts"] > 0
    shown = (tmp_path / "home/teams" / TEAM / "notes" / f"{NOTE}.md").read_text("utf-8")
    assert len(shown.splitlines()) == WRITERS * WRITES


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with servers(1) as cluster:
        yield cluster


def test_no_text_is_lost_on_nats_and_every_conflict_is_seen(
    tmp_path: Path, cluster: Cluster
) -> None:
    where = ",".join(cluster.urls)
    anyio.run(_create, where)
    kills = _play(where, tmp_path)
    told = _check(where, tmp_path)
    print(f"NATS: {told}, {kills} kills")
    assert kills == KILLS and told["conflicts"] > 0
