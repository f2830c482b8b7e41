"""Servers whose power fails: their disks are devices in files, and what was on them is kept.

Everything is frozen, the files are copied, and the servers begin again from the copies: what was
only in the memory of the system is gone, as it is when a machine loses power.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bullpen.errors import BullpenError
from bullpen.fleet.servers.server_process import Cluster
from bullpen.protocol.changes import PutTask
from bullpen.protocol.names import LEAD
from bullpen.store.contract import StoreLimits
from bullpen.store.nats.client.connection import Endpoint, NatsConnection
from bullpen.store.nats.client.streams import prepare
from bullpen.store.nats.store import NatsStore
from bullpen.testing.sample_records import config, put, task

_BYTES = 256 * 1024 * 1024
_WRITERS = 8
# Otherwise the file system saves by itself every few seconds what nobody asked it to.
_OPTIONS = "loop,commit=300"


def why_not() -> str | None:
    """Why there can be no such disks here, if so."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "needs Linux and root"
    for command in ("losetup", "mkfs.ext4", "mount"):
        if shutil.which(command) is None:
            return f"needs the command `{command}`"
    found = subprocess.run(["losetup", "-f"], capture_output=True, check=False)
    return None if found.returncode == 0 else "needs loop devices"


class Disk:
    """One device in a file, mounted where a server keeps its streams."""

    def __init__(self, image: Path, place: Path) -> None:
        self._image = image
        self._copy = image.with_suffix(".copy")
        self._place = place

    def make(self) -> None:
        self._place.mkdir(parents=True)
        with self._image.open("wb") as file:
            file.truncate(_BYTES)
        _run("mkfs.ext4", "-q", "-F", os.fspath(self._image))
        self._mount()

    def _mount(self) -> None:
        _run("mount", "-o", _OPTIONS, os.fspath(self._image), os.fspath(self._place))

    def save(self) -> None:
        """Have all that was written so far on the device."""
        _run("sync", "-f", os.fspath(self._place))

    def freeze(self) -> None:
        """Keep what is on the device in this moment."""
        _run("cp", "--sparse=always", os.fspath(self._image), os.fspath(self._copy))

    def lose_the_rest(self) -> None:
        """Go back to that moment."""
        self.unmount()
        self._copy.replace(self._image)
        self._mount()

    def unmount(self) -> None:
        deadline = time.monotonic() + 20
        while os.path.ismount(self._place):
            done = subprocess.run(["umount", os.fspath(self._place)], capture_output=True)
            if done.returncode != 0:
                assert time.monotonic() < deadline, done.stderr.decode()
                time.sleep(0.1)


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)


@contextmanager
def disks(folder: Path, nodes: int) -> Iterator[list[Disk]]:
    made = [
        Disk(folder / f"{number}.img", folder / f"n{number}" / "store")
        for number in range(1, nodes + 1)
    ]
    try:
        for disk in made:
            disk.make()
        yield made
    finally:
        for disk in made:
            disk.unmount()


@dataclass(frozen=True, slots=True)
class Loss:
    """What was acknowledged before the power failed, and how much of it is not there after."""

    acknowledged: int
    lost: int


class Blackout:
    """Writers on servers that all lose their power at once."""

    def __init__(self, folder: Path, nodes: int, sync: str) -> None:
        self._folder = folder
        self._nodes = nodes
        self._cluster = Cluster(folder, nodes, sync=sync)
        self._acknowledged: list[tuple[str, int, str]] = []

    async def run(self, made: list[Disk], *, commits: int, ready_s: float) -> Loss:
        try:
            await self._cluster.start()
            await self._cluster.wait_ready()
            for disk in made:
                disk.save()
            await self._write(made, commits)
            for disk in made:
                disk.lose_the_rest()
            await self._cluster.start()
            return Loss(len(self._acknowledged), await self._lost(ready_s))
        finally:
            await self._cluster.stop()

    @property
    def _endpoint(self) -> Endpoint:
        return Endpoint(tuple(self._cluster.urls))

    async def _write(self, made: list[Disk], commits: int) -> None:
        link = NatsConnection(self._endpoint)
        await prepare(await link.client(), partitions=2, replicas=self._nodes)
        await link.aclose()
        store = NatsStore(self._endpoint, limits=StoreLimits(lock_wait_s=5.0), events_kept=16)
        writers = [asyncio.create_task(self._writer(store, n)) for n in range(_WRITERS)]
        try:
            async with asyncio.timeout(120):
                while len(self._acknowledged) < commits:  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
            self._fail(made)
        finally:
            for writer in writers:
                writer.cancel()
            await asyncio.gather(*writers, return_exceptions=True)
            await store.aclose()

    def _fail(self, made: list[Disk]) -> None:
        for index in range(self._nodes):
            self._cluster.pause(index)
        for disk in made:
            disk.freeze()
        for index in range(self._nodes):
            self._cluster.kill(index)

    async def _writer(self, store: NatsStore, number: int) -> None:
        team, count = f"team-{number}", 0
        await store.create(team, config(team), actor=LEAD)
        while True:
            count += 1
            # A few tasks over and over: what counts is the log.
            change = PutTask(task(str(count % 5 + 1), subject=f"{count}"))
            committed = await put(store, change, team=team, op=f"put.{count}")
            self._acknowledged.append((team, committed.seq, f"put.{count}"))

    async def _lost(self, ready_s: float) -> int:
        try:
            await self._cluster.wait_ready(ready_s)
        except BullpenError:
            return len(self._acknowledged)
        store = NatsStore(self._endpoint)
        there: set[tuple[str, int, str]] = set()
        try:
            for team in {each[0] for each in self._acknowledged}:
                try:
                    found = await store.events(team)
                except BullpenError:
                    # One is enough to know, and each takes its time to give up.
                    break
                there |= {(team, event.seq, event.op) for event in found}
        finally:
            await store.aclose()
        return sum(each not in there for each in self._acknowledged)
