"""Rows 3, 4 and 5: many processes that send, join and create tasks at once."""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from approaches import (
    GaveUp,
    append,
    flocked,
    load,
    mkdir_lock,
    peer_update,
    replace,
    rewrite_update,
    write_in_place,
)
from bullpen.errors import BullpenError
from bullpen.protocol.names import LEAD
from bullpen.store.files.store import FileStore
from bullpen.team.team import Teams
from counts import Counts
from crowd import Start, Together, together
from figures import Figure, Goal, Row, Verdict, at_least, below, figure_of
from scenery import (
    READER,
    TEAM,
    make_inbox,
    make_team,
    message,
    plain_config,
    plain_inbox,
)

APPROACHES = ("peer", "rewrite", "bare")


async def rows(folder: Path, counts: Counts) -> list[Row]:
    """All rows about many writers."""
    found = [await _sends(folder / "sends", counts)]
    for members in counts.joins:
        found += await _joins(folder / f"joins-{members}", members, counts)
    for fsync in (True, False):
        found.append(await _creates(folder / f"creates-{fsync}", counts, fsync=fsync))
    return found


def repeat(start: Start, times: int, act: Callable[[int], None]) -> int:
    """Act this many times, in parallel with the others; return how often locking failed."""
    start()
    failed = 0
    for number in range(times):
        try:
            act(number)
        except GaveUp:
            failed += 1
    return failed


def our_loop(
    start: Start, home: Path, fsync: bool, times: int, act: Callable[[Teams, FileStore, int], Any]
) -> int:
    """Await `act` this many times in one event loop; return how often it failed."""

    async def run() -> int:
        store = FileStore(home, fsync=fsync)
        teams, failed = Teams(store), 0
        await store.config(TEAM)  # The worker thread is up before the start.
        start()
        for number in range(times):
            try:
                await act(teams, store, number)
            except BullpenError:
                failed += 1
        await store.aclose()
        return failed

    return anyio.run(run)


@dataclass(frozen=True, slots=True)
class Rate:
    """How many acts per second succeeded, and how many failed."""

    per_s: float
    failed: int


def _rate(done: Together[int], asked: int) -> Rate:
    failed = sum(done.results)
    return Rate((asked - failed) / done.wall_s, failed)


async def _rates(repeats: int, measure: Callable[[int], Awaitable[Rate]]) -> Figure:
    found = [await measure(number) for number in range(repeats)]
    failed = sum(rate.failed for rate in found)
    return figure_of([rate.per_s for rate in found], "/s", f"{failed} failed" if failed else "")


# Row 3


def send_ours(index: int, start: Start, home: Path, times: int) -> int:
    """A worker."""
    letters = [message() for _ in range(times)]

    async def act(_: Teams, store: FileStore, number: int) -> None:
        await store.append(TEAM, READER, letters[number], actor=LEAD, fresh=True)

    return our_loop(start, home, True, times, act)


def send_others(index: int, start: Start, path: str, approach: str, times: int) -> int:
    """A worker."""
    letters = [message().raw for _ in range(times)]
    content = Path(path).read_bytes()

    def act(number: int) -> None:
        if approach == "peer":
            peer_update(path, lambda rows: rows.append(letters[number]), fsync=True)
        elif approach == "rewrite":
            rewrite_update(path, lambda rows: rows.append(letters[number]), fsync=True)
        else:
            with flocked(path):
                replace(path, content, fsync=True)

    return repeat(start, times, act)


async def _sends(folder: Path, counts: Counts) -> Row:
    async def ours(number: int) -> Rate:
        home = folder / f"ours-{number}"
        store = await make_inbox(home, 100)
        done = together(counts.writers, send_ours, home, counts.sends_each)
        asked = counts.writers * counts.sends_each
        box = await store.mailbox(TEAM, READER)
        lost = 100 + asked - sum(done.results) - len(box.entries)
        if lost:
            raise RuntimeError(f"{lost} messages that were sent are not in the inbox.")
        return _rate(done, asked)

    def others(approach: str) -> Callable[[int], Awaitable[Rate]]:
        async def measure(number: int) -> Rate:
            path = plain_inbox(folder / f"{approach}-{number}", 100)
            times = counts.peer_sends_each
            done = together(counts.writers, send_others, path, approach, times)
            return _rate(done, counts.writers * times)

        return measure

    rate = await _rates(counts.repeats, ours)
    columns = [await _rates(counts.repeats, others(approach)) for approach in APPROACHES]
    work = f"{counts.writers} writers, one inbox, sends/s, fsync on"
    return Row(3, work, rate, at_least(rate, 500), columns)


# Row 4


@dataclass(frozen=True, slots=True)
class Joined:
    """How a rush of joins went."""

    lost: int
    failed: int
    wall_s: float


def join_ours(index: int, start: Start, home: Path) -> int:
    """A worker."""

    async def act(teams: Teams, _: FileStore, __: int) -> None:
        await teams.open(TEAM).roster.join(f"member-{index}", by=LEAD)

    return our_loop(start, home, True, 1, act)


def join_others(index: int, start: Start, path: str, approach: str) -> int:
    """A worker."""

    def add(config: Any) -> None:
        config["members"].append({"name": f"member-{index}"})

    def act(_: int) -> None:
        if approach == "peer":
            peer_update(path, add, fsync=False)
        elif approach == "rewrite":
            rewrite_update(path, add, fsync=True)
        else:
            with flocked(path):
                replace(path, Path(path).read_bytes(), fsync=True)

    return repeat(start, 1, act)


async def _joins(folder: Path, members: int, counts: Counts) -> list[Row]:
    async def ours(number: int) -> Joined:
        home = folder / f"ours-{number}"
        store = await make_team(home)
        done = together(members, join_ours, home)
        failed = sum(done.results)
        stored = len((await store.config(TEAM)).roster) - 1
        return Joined(members - failed - stored, failed, done.wall_s)

    def others(approach: str, number: int) -> Joined:
        path = plain_config(folder / f"{approach}-{number}")
        done = together(members, join_others, path, approach)
        failed = sum(done.results)
        stored = len(load(path)["members"]) - 1 if approach != "bare" else members - failed
        return Joined(members - failed - stored, failed, done.wall_s)

    mine = [await ours(number) for number in range(counts.repeats)]
    columns = [
        _joined([others(approach, number) for number in range(counts.repeats)])
        for approach in APPROACHES
    ]
    wall, faults = _joined(mine), Figure(sum(join.lost + join.failed for join in mine), "")
    verdict: Verdict = "PASS" if faults.value == 0 else "FAIL"
    none = Goal("0 lost, 0 errors", "-", verdict, at_any_load=True)
    work = f"{members} joins at once"
    return [
        Row(4, f"{work}: lost or failed", faults, none, [_faults(column) for column in columns]),
        Row(4, f"{work}: wall time", wall, below(wall, 1.0), columns),
    ]


def _joined(found: list[Joined]) -> Figure:
    lost, failed = sum(join.lost for join in found), sum(join.failed for join in found)
    told = [f"{lost} lost"] * bool(lost) + [f"{failed} errors"] * bool(failed)
    return figure_of([join.wall_s for join in found], "s", ", ".join(told))


def _faults(wall: Figure) -> Figure:
    numbers = [int(part.split()[0]) for part in wall.note.split(", ") if part]
    return Figure(sum(numbers), "", wall.note)


# Row 5


def create_ours(index: int, start: Start, home: Path, fsync: bool, times: int) -> int:
    """A worker."""

    async def act(teams: Teams, _: FileStore, number: int) -> None:
        await teams.open(TEAM).tasks.add(f"Task {index}-{number}", by=LEAD)

    return our_loop(start, home, fsync, times, act)


def create_others(
    index: int, start: Start, folder: Path, approach: str, fsync: bool, times: int
) -> int:
    """A worker. The next id is one more than the highest file name, as the peers do it."""
    lock, log = str(folder / ".lock"), str(folder / ".log")

    def body(task_id: int) -> str:
        task = {"id": str(task_id), "subject": f"Task {index}", "description": ""}
        rest = {"status": "pending", "blocks": [], "blockedBy": []}
        return json.dumps({**task, **rest}, indent=2)

    def next_id() -> int:
        stems = (name[:-5] for name in os.listdir(folder) if name.endswith(".json"))
        return max((int(stem) for stem in stems), default=0) + 1

    def act(number: int) -> None:
        if approach == "peer":
            with mkdir_lock(lock):
                task_id = next_id()
                write_in_place(str(folder / f"{task_id}.json"), body(task_id), fsync=fsync)
        elif approach == "rewrite":
            with flocked(lock):
                task_id = next_id()
                replace(str(folder / f"{task_id}.json"), body(task_id).encode(), fsync=fsync)
        else:
            with flocked(lock):
                task_id = index * times + number
                text = body(task_id).encode()
                if approach == "same files":
                    append(log, text + b"\n", fsync=fsync)
                replace(str(folder / f"{task_id}.json"), text, fsync=fsync)

    return repeat(start, times, act)


async def _creates(folder: Path, counts: Counts, *, fsync: bool) -> Row:
    async def ours(number: int) -> Rate:
        home = folder / f"ours-{number}"
        store = await make_team(home, fsync=fsync)
        done = together(counts.writers, create_ours, home, fsync, counts.creates_each)
        asked = counts.writers * counts.creates_each
        missing = asked - sum(done.results) - len((await store.read(TEAM)).tasks)
        if missing:
            raise RuntimeError(f"{missing} tasks that were created are not there.")
        return _rate(done, asked)

    def others(approach: str) -> Callable[[int], Awaitable[Rate]]:
        async def measure(number: int) -> Rate:
            here, times = folder / f"{approach}-{number}", counts.peer_creates_each
            here.mkdir(parents=True)
            done = together(counts.writers, create_others, here, approach, fsync, times)
            return _rate(done, counts.writers * times)

        return measure

    rate = await _rates(counts.repeats, ours)
    columns = [await _rates(counts.repeats, others(approach)) for approach in APPROACHES]
    same = await _rates(counts.repeats, others("same files"))
    words = "on" if fsync else "off"
    work = f"{counts.writers} x {counts.creates_each} task creates/s, fsync {words}"
    # What a log and a task file cost in plain Python, if that is less than the goal.
    goal = at_least(rate, min(1_000, 0.8 * same.value))
    return Row(
        5, f"{work}; plain Python writes the same files {same.value:.0f}/s", rate, goal, columns
    )
