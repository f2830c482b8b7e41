"""Row 8: how long the next sender waits after the holder of the lock was killed."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import anyio

from approaches import STALE_S, flocked, peer_update, replace, rewrite_update
from bullpen.protocol.names import LEAD
from bullpen.store.files.store import FileStore
from counts import Counts
from crowd import Start, context, together
from figures import Figure, Row, below, figure_of
from scenery import READER, TEAM, inbox_path, make_inbox, message, plain_inbox

_WRITERS = 4
_HOLD_S = 0.5
_FOREIGN_MODE = 0o755


async def rows(folder: Path, counts: Counts) -> list[Row]:
    """After a Bullpen process, after a program that releases the lock, after a dead one."""
    home = folder / "ours"
    store = await make_inbox(home, 100)
    waits = [await _wait_of(store, home) * 1e3 for _ in range(counts.kills)]
    mine = figure_of(waits, "ms", pick=max)
    rewrite, bare = (_worst(folder, name, counts.kills) for name in ("rewrite", "bare"))
    released = [await _released(store, home) for _ in range(counts.foreign_releases)]
    late = figure_of(released, "s", "past its release", pick=max)
    await store.aclose()
    ours_dead, peer_dead = _dead_holders(folder, counts)
    return [
        Row(
            8,
            f"{_WRITERS} writers killed with -9, worst wait of the next sender",
            mine,
            below(mine, 200),
            (Figure(peer_dead * 1e3, "ms", "its lock must grow old"), rewrite, bare),
        ),
        Row(8, "a foreign holder releases: worst wait after that", late, below(late, 2.0)),
        Row(
            8,
            "a foreign holder was killed: wait of the next sender",
            Figure(ours_dead, "s"),
            below(Figure(ours_dead, "s"), 2.0),
            (Figure(peer_dead, "s"),),
            note=(
                f"the lock is a bare directory that names no holder; the other program itself"
                f" counts it as alive until it is {STALE_S:g} s old, so taking it sooner would"
                f" break the lock of a live holder. {STALE_S:g} s is the floor."
            ),
        ),
    ]


# Writers that are killed


def send_for_ever(pipe: Connection, approach: str, home: Path, path: str) -> None:
    """A worker that reports its first send and then continues until it is killed."""

    content = Path(path).read_bytes()

    async def run() -> None:
        store, first = FileStore(home), True
        while True:
            letter = message()
            if approach == "ours":
                await store.append(TEAM, READER, letter, actor=LEAD, fresh=True)
            else:
                _send_other(approach, path, letter.raw, content)
            if first:
                pipe.send(True)
                first = False

    anyio.run(run)


def _send_other(approach: str, path: str, raw: dict[str, Any], content: bytes) -> None:
    if approach == "peer":
        peer_update(path, lambda rows: rows.append(raw), fsync=False, patient=True)
    elif approach == "rewrite":
        rewrite_update(path, lambda rows: rows.append(raw), fsync=True)
    else:
        with flocked(path):
            replace(path, content, fsync=True)


def _kill_writers(approach: str, home: Path, path: str) -> None:
    """Start writers and kill them all in the middle of their work."""
    processes, pipes = [], []
    for _ in range(_WRITERS):
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=send_for_ever, args=(sender, approach, home, path))
        process.start()
        sender.close()
        processes.append(process)
        pipes.append(receiver)
    for pipe in pipes:
        if not pipe.poll(60):
            raise RuntimeError("A writer did not begin.")
    time.sleep(random.uniform(0.002, 0.02))
    for process in processes:
        os.kill(process.pid or 0, signal.SIGKILL)
    for process in processes:
        process.join(60)


async def _wait_of(store: FileStore, home: Path) -> float:
    _kill_writers("ours", home, str(inbox_path(home)))
    begin = time.perf_counter()
    await store.append(TEAM, READER, message(), actor=LEAD, fresh=True)
    return time.perf_counter() - begin


def _worst(folder: Path, approach: str, kills: int) -> Figure:
    path = plain_inbox(folder / approach, 100)
    content, waits = Path(path).read_bytes(), []
    for _ in range(kills):
        _kill_writers(approach, folder, path)
        begin = time.perf_counter()
        _send_other(approach, path, message().raw, content)
        waits.append(time.perf_counter() - begin)
    return figure_of([wait * 1e3 for wait in waits], "ms", pick=max)


# Another program's lock


def hold(pipe: Connection, lock: str, hold_s: float) -> None:
    """A worker that takes the lock as the real program does, and releases it after a while."""
    os.mkdir(lock, _FOREIGN_MODE)
    pipe.send(True)
    time.sleep(hold_s)
    os.rmdir(lock)
    pipe.send(time.perf_counter())


async def _released(store: FileStore, home: Path) -> float:
    receiver, sender = context.Pipe(duplex=False)
    lock = f"{inbox_path(home)}.lock"
    process = context.Process(target=hold, args=(sender, lock, _HOLD_S))
    process.start()
    receiver.recv()
    await store.append(TEAM, READER, message(), actor=LEAD, fresh=True)
    end = time.perf_counter()
    released: float = receiver.recv()
    process.join(60)
    return end - released


def _dead_holders(folder: Path, counts: Counts) -> tuple[float, float]:
    """How long ours and the peer approach wait for a lock that nobody will release.

    A quick run starts with a lock that is already old, and adds its age to the wait.
    """
    home, age_s = folder / "dead", counts.dead_lock_age_s
    path = plain_inbox(folder / "dead-peer", 100)
    done = together(2, wait_for_the_dead, home, path, age_s)
    return age_s + done.results[0], age_s + done.results[1]


def wait_for_the_dead(index: int, start: Start, home: Path, path: str, age_s: float) -> float:
    """Ours is the first worker, the peer approach the second."""
    act: Callable[[], None]
    if index == 0:
        store = anyio.run(make_inbox, home, 100)
        lock = f"{inbox_path(home)}.lock"

        def act() -> None:
            letter = message()
            anyio.run(lambda: store.append(TEAM, READER, letter, actor=LEAD, fresh=True))
    else:
        lock = f"{path}.lock"

        def act() -> None:
            peer_update(path, lambda rows: rows.append({}), fsync=False, patient=True)

    start()
    os.mkdir(lock, _FOREIGN_MODE)
    then = time.time() - age_s
    os.utime(lock, (then, then))
    begin = time.perf_counter()
    act()
    return time.perf_counter() - begin
