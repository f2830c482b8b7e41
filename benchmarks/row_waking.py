"""Row 10: how soon a watcher sees a message, and what watching costs while nothing happens.

A wake-up counts only if the message is there. While nothing happens, the watchers are measured from
outside, after they have started and before they stop.
"""

from __future__ import annotations

import ctypes
import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import anyio

from approaches import load
from bullpen.protocol.names import LEAD
from bullpen.store.files.store import FileStore
from counts import Counts
from crowd import context
from figures import NO_GOAL, Figure, Row, figure_of, milliseconds
from machine import processor_s
from scenery import READER, TEAM, inbox_path, make_inbox, message

_POLL_S = 0.5
_IN_MOVED_TO = 0x80
_PATIENCE_S = 30.0
_SETTLE_S = 1.0
_STRETCHES = 3
_APPROACHES = ("ours", "peer", "bare")

Wait = Callable[[], None]


async def rows(folder: Path, counts: Counts) -> list[Row]:
    """Latency of waking up, and the cost of waiting."""
    home = folder / "home"
    store = await make_inbox(home, 100)
    latency = await _latencies(store, home, counts.wakes)
    await store.aclose()
    ours, peer, bare = [await _idle(name, home, counts) for name in _APPROACHES]
    polls = f"looks at the file every {_POLL_S:g} s"
    return [
        Row(
            10,
            "a message, from the beginning of the send until a watcher has read it, p50",
            milliseconds(latency["ours"]),
            NO_GOAL,
            (milliseconds(latency["peer"], polls), None, milliseconds(latency["bare"], "inotify")),
        ),
        Row(
            10,
            f"{counts.watchers} idle watchers, a process each",
            ours,
            NO_GOAL,
            (peer, None, bare),
            note=(
                f"the poller is the cheapest there is: it {polls}, and reads it only if it changed."
                f" So it sees a message {_POLL_S / 2 * 1e3:.0f} ms late on average."
            ),
        ),
    ]


# In the watchers


def watch(pipe: Connection, approach: str, home: Path) -> None:
    """A worker that tells when it has read a message, for each id that it gets."""
    if approach == "ours":
        anyio.run(_watch_ours, pipe, home)
        return
    path = str(inbox_path(home))
    wait = _inotify(path) if approach == "bare" else _polling(path)
    pipe.send(0.0)
    while wanted := pipe.recv():
        wait()
        while not any(wanted in row.values() for row in load(path)):
            wait()
        pipe.send(time.perf_counter())


async def _watch_ours(pipe: Connection, home: Path) -> None:
    store = FileStore(home)
    async with aclosing(store.watch(TEAM)) as changes:
        await anext(changes)
        pipe.send(0.0)
        while wanted := await anyio.to_thread.run_sync(pipe.recv):
            async for _ in changes:
                box = await store.mailbox(TEAM, READER)
                if any(entry.id == wanted for entry in box.entries):
                    break
            pipe.send(time.perf_counter())


def _inotify(path: str) -> Wait:
    folder, name = os.path.split(path)
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.inotify_init1(os.O_CLOEXEC)
    if fd < 0 or libc.inotify_add_watch(fd, os.fsencode(folder), _IN_MOVED_TO) < 0:
        raise OSError(ctypes.get_errno(), "inotify")
    wanted = os.fsencode(name) + b"\0"

    def wait() -> None:
        # A lock moves there too, before the inbox does.
        while wanted not in os.read(fd, 65_536):
            pass

    return wait


def _polling(path: str) -> Wait:
    known = os.stat(path)

    def wait() -> None:
        nonlocal known
        while (
            now := os.stat(path)
        ).st_mtime_ns == known.st_mtime_ns and now.st_ino == known.st_ino:
            time.sleep(_POLL_S)
        known = now

    return wait


def _stamp(path: str) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_mtime_ns, found.st_ino


# Here


@contextmanager
def _watchers(approaches: Sequence[str], home: Path) -> Iterator[list[tuple[Connection, int]]]:
    """A watching process for each approach: its pipe and its process id."""
    found, processes = [], []
    for approach in approaches:
        here, there = context.Pipe()
        process = context.Process(target=watch, args=(there, approach, home))
        process.start()
        there.close()
        processes.append(process)
        found.append((here, process.pid or 0))
    try:
        for pipe, _ in found:
            _receive(pipe)
        yield found
    finally:
        for process in processes:
            process.kill()
            process.join(_PATIENCE_S)


async def _latencies(store: FileStore, home: Path, wakes: int) -> dict[str, list[float]]:
    """All watchers wait for the same messages."""
    times: dict[str, list[float]] = {name: [] for name in _APPROACHES}
    with _watchers(_APPROACHES, home) as watchers:
        for _ in range(wakes):
            letter = message()
            for pipe, _pid in watchers:
                pipe.send(letter.id)
            await anyio.sleep(random.uniform(0.15, 0.15 + _POLL_S))
            begin = time.perf_counter()
            await store.append(TEAM, READER, letter, actor=LEAD, fresh=True)
            for name, (pipe, _pid) in zip(_APPROACHES, watchers, strict=True):
                times[name].append(_receive(pipe) - begin)
    return times


def _receive(pipe: Any) -> float:
    if not pipe.poll(_PATIENCE_S):
        raise RuntimeError("A watcher did not see the message.")
    seen: float = pipe.recv()
    return seen


async def _idle(approach: str, home: Path, counts: Counts) -> Figure:
    """What many watchers use together while they wait for a message that never comes."""
    shares = []
    with _watchers([approach] * counts.watchers, home) as watchers:
        for pipe, _ in watchers:
            pipe.send("never")
        await anyio.sleep(_SETTLE_S)
        for _ in range(_STRETCHES):
            begin, used = time.perf_counter(), processor_s(pid for _, pid in watchers)
            await anyio.sleep(counts.idle_s)
            used = processor_s(pid for _, pid in watchers) - used
            shares.append(used / (time.perf_counter() - begin) * 100)
    return figure_of(shares, "% of a core")
