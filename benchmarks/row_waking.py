"""Row 10: how fast a watcher wakes up, and what watching costs while nothing happens."""

from __future__ import annotations

import ctypes
import os
import random
import resource
import time
from contextlib import aclosing
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import anyio

from approaches import load
from bullpen.protocol.names import LEAD
from bullpen.store.files.store import FileStore
from counts import Counts
from crowd import Start, context, together
from figures import NO_GOAL, Figure, Row, milliseconds
from scenery import READER, TEAM, inbox_path, make_inbox, message

_POLL_S = 0.5
_IN_MOVED_TO = 0x80
_PATIENCE_S = 30.0


async def rows(folder: Path, counts: Counts) -> list[Row]:
    """Latency of waking up, and the cost of waiting."""
    home = folder / "home"
    store = await make_inbox(home, 100)
    latency = await _latencies(store, home, counts.wakes)
    await store.aclose()
    ours, peer, bare = (_idle(name, home, counts) for name in ("ours", "peer", "bare"))
    return [
        Row(
            10,
            "wake-up of a watcher, from the beginning of the send, p50",
            milliseconds(latency["ours"]),
            NO_GOAL,
            (
                milliseconds(latency["peer"], f"polls every {_POLL_S:g} s"),
                None,
                milliseconds(latency["bare"], "inotify"),
            ),
        ),
        Row(
            10,
            f"{counts.watchers} idle watchers, a process each",
            ours,
            NO_GOAL,
            (peer, None, bare),
        ),
    ]


# Waking up


def watch(pipe: Connection, approach: str, home: Path) -> None:
    """A worker that reports when it saw a change, each time it is asked to wait for one."""
    if approach == "ours":
        anyio.run(_watch_ours, pipe, home)
        return
    path = str(inbox_path(home))
    wait = _inotify(path) if approach == "bare" else _polling(path)
    pipe.send(0.0)
    while pipe.recv():
        wait()
        pipe.send(time.perf_counter())


async def _watch_ours(pipe: Connection, home: Path) -> None:
    async with aclosing(FileStore(home).watch(TEAM)) as changes:
        await anext(changes)
        pipe.send(0.0)
        while await anyio.to_thread.run_sync(pipe.recv):
            await anext(changes)
            pipe.send(time.perf_counter())


def _inotify(path: str) -> Any:
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


def _polling(path: str) -> Any:
    known = len(load(path))

    def wait() -> None:
        nonlocal known
        while len(load(path)) == known:
            time.sleep(_POLL_S)
        known = len(load(path))

    return wait


async def _latencies(store: FileStore, home: Path, wakes: int) -> dict[str, list[float]]:
    """All watchers observe the same sends."""
    pipes, processes = {}, []
    for approach in ("ours", "peer", "bare"):
        here, there = context.Pipe()
        process = context.Process(target=watch, args=(there, approach, home))
        process.start()
        there.close()
        _receive(here)
        pipes[approach] = here
        processes.append(process)
    times: dict[str, list[float]] = {name: [] for name in pipes}
    for _ in range(wakes):
        for pipe in pipes.values():
            pipe.send(True)
        await anyio.sleep(random.uniform(0.15, 0.15 + _POLL_S))
        letter, begin = message(), time.perf_counter()
        await store.append(TEAM, READER, letter, actor=LEAD, fresh=True)
        for name, pipe in pipes.items():
            times[name].append(_receive(pipe) - begin)
    for pipe in pipes.values():
        pipe.send(False)
    for process in processes:
        process.join(_PATIENCE_S)
    return times


def _receive(pipe: Any) -> float:
    if not pipe.poll(_PATIENCE_S):
        raise RuntimeError("A watcher did not wake up.")
    seen: float = pipe.recv()
    return seen


# Waiting


def _idle(approach: str, home: Path, counts: Counts) -> Figure:
    done = together(counts.watchers, wait_idle, approach, home, counts.idle_s)
    return Figure(sum(done.results) / counts.idle_s * 100, "% of a core")


def wait_idle(index: int, start: Start, approach: str, home: Path, idle_s: float) -> float:
    """Run a worker; return the processor time it used while nothing happened."""
    if approach == "ours":
        return anyio.run(_idle_ours, start, home, idle_s)
    path = str(inbox_path(home))
    if approach == "bare":
        _inotify(path)
    start()
    begin, deadline = _cpu_s(), time.monotonic() + idle_s
    while (left := deadline - time.monotonic()) > 0:
        if approach == "peer":
            load(path)
        time.sleep(min(left, _POLL_S) if approach == "peer" else left)
    return _cpu_s() - begin


async def _idle_ours(start: Start, home: Path, idle_s: float) -> float:
    async with aclosing(FileStore(home).watch(TEAM)) as changes:
        await anext(changes)
        start()
        begin = _cpu_s()
        with anyio.move_on_after(idle_s):
            while True:
                await anext(changes)
        return _cpu_s() - begin


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
