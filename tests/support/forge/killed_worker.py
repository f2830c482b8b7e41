"""A forge worker in a process of its own that ends itself with kill -9 at a certain write.

A write is a request that changes the forge, or a push. All of them are counted in one file, so that
the workers of a story know what those before them wrote.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias
from urllib.parse import unquote

import anyio
import httpx2

from bullpen.runs.forge.connect import connect, only_worker
from bullpen.runs.forge.pushes import Pushes
from bullpen.runs.forge.worker import ForgeWorker
from bullpen.store.files.store import FileStore
from bullpen.team.team import Team

TEAM = "alpha"
SPEED = 25.0
"""How much faster the clock of the worker is than ours: it looks again after that much less."""

When: TypeAlias = int | Literal["each kind", "each"]

_GRAPH_WRITE = re.compile(r"\s*mutation[^{]*\{\s*(\w+)")


@dataclass(frozen=True, slots=True)
class Death:
    """At which write a worker is killed: the n-th, the first of each kind, or every single one.

    `after` says: when its answer has arrived, and nothing of it is recorded yet.
    """

    when: When
    after: bool


class Writes:
    """The writes of all workers of a story, in a file.

    `+` was begun, `!` is a kill, `-` was answered, and `x` too: with a failure, so nothing changed.
    """

    def __init__(self, file: Path) -> None:
        self._file = file

    def rows(self) -> list[tuple[str, str]]:
        """What happened to which write, in order."""
        text = self._file.read_text("utf-8") if self._file.exists() else ""
        return [(line[0], line[1:]) for line in text.splitlines()]

    def begun(self) -> list[str]:
        """The kinds of all writes that were begun."""
        return [_kind(write) for what, write in self.rows() if what == "+"]

    def kinds_made(self) -> set[str]:
        """The kinds of all writes that were made."""
        return {_kind(write) for what, write in self.rows() if what == "-"}

    def kills(self) -> list[str]:
        """The kinds of the writes at which a worker was killed."""
        return [_kind(write) for what, write in self.rows() if what == "!"]

    def made(self, *, after: bool) -> list[str]:
        """The writes that were made; after a kill that came with its answer, each is made."""
        return [write for what, write in self.rows() if what == ("!" if after else "-")]

    def spared(self, *, after: bool) -> list[str]:
        """The writes that were made without a kill of their own."""
        rows = self.rows()
        if after:
            return [write for what, write in rows if what == "-"]
        return [
            write
            for at, (what, write) in enumerate(rows)
            if what == "-" and is_spared(rows[: at + 1])
        ]

    def note(self, what: str, write: str) -> None:
        """Add a row."""
        with self._file.open("a", encoding="utf-8") as file:
            file.write(f"{what}{write}\n")


def is_spared(rows: Sequence[tuple[str, str]]) -> bool:
    """Return whether the write of the last row was answered oftener than it killed."""
    mine = [what for what, write in rows if write == rows[-1][1]]
    return mine.count("!") < mine.count("-") + mine.count("x")


def _kind(write: str) -> str:
    return write.rpartition(" ")[0]


class Deadly:
    """Ends this process at the write that it is told. A write is its kind and a digest of it."""

    def __init__(self, writes: Writes, death: Death | None) -> None:
        self._writes = writes
        self._death = death

    def begin(self, write: str) -> bool:
        """Count a write that is about to be made; return whether its answer is deadly."""
        killed = self._writes.kills()
        self._writes.note("+", write)
        rows, death = self._writes.rows(), self._death
        if death is None:
            return False
        first = death.when == "each kind" and _kind(write) not in killed
        # Killed before each write, no worker would get anywhere: the next one may make it.
        each = death.when == "each" and (death.after or is_spared([*rows, ("-", write)]))
        if not (first or each or death.when == len(self._writes.begun())):
            return False
        if not death.after:
            self._kill(write)
        return True

    def answered(self, write: str, *, deadly: bool, made: bool = True) -> None:
        """Count an answer."""
        if deadly and made:
            self._kill(write)
        self._writes.note("-" if made else "x", write)

    def _kill(self, write: str) -> None:
        self._writes.note("!", write)
        os.kill(os.getpid(), signal.SIGKILL)


def kind_of(request: httpx2.Request) -> str | None:
    """Which kind of write a request is; None for one that only reads."""
    if request.method in {"GET", "HEAD"}:
        return None
    path = unquote(request.url.path)
    if path == "/graphql":
        found = _GRAPH_WRITE.match(json.loads(request.content)["query"])
        return found and found[1]
    named = re.sub(r"^(?:/api/v1)?/repos/[^/]+/[^/]+", "", path)
    named = re.sub(r"/labels/.+", "/labels/N", re.sub(r"/[0-9]+", "/N", named))
    return f"{request.method} {named}"


def named(kind: str, *parts: bytes) -> str:
    """Return the name of one write: its kind, and a digest of all that it says."""
    return f"{kind} {hashlib.sha256(bytes(1).join(parts)).hexdigest()[:12]}"


def wrap(deadly: Deadly) -> None:
    """Let all requests and pushes of this process count."""
    send, push = httpx2.AsyncClient.send, Pushes.push

    async def counted(
        self: httpx2.AsyncClient, request: httpx2.Request, **more: Any
    ) -> httpx2.Response:
        kind = kind_of(request)
        if kind is None:
            return await send(self, request, **more)
        write = named(kind, str(request.url).encode(), request.content)
        is_deadly = deadly.begin(write)
        response = await send(self, request, **more)
        deadly.answered(write, deadly=is_deadly, made=response.is_success)
        return response

    def pushed(self: Pushes, branch: str, commit: str, *, expected: str | None) -> None:
        write = named(f"push {branch}", commit.encode())
        is_deadly = deadly.begin(write)
        push(self, branch, commit, expected=expected)
        deadly.answered(write, deadly=is_deadly)

    httpx2.AsyncClient.send = counted  # type: ignore[method-assign]
    Pushes.push = pushed  # type: ignore[method-assign]


def work(folder: Path, environ: Mapping[str, str], death: Death | None) -> None:
    """Be the worker of the team in a folder, until killed. The start of a process."""
    os.environ.clear()
    os.environ.update(environ)
    wrap(Deadly(Writes(folder / "writes"), death))
    anyio.run(_work, folder, environ)


async def _work(folder: Path, environ: Mapping[str, str]) -> None:
    home = folder / "home"
    team = Team(FileStore(home, fsync=False), TEAM)
    connected = partial(connect, team=team, home=home, environ=environ)
    worker = ForgeWorker(team, connected, clock=lambda: time.monotonic() * SPEED)

    def tell(text: str) -> None:
        with (folder / "told").open("a", encoding="utf-8") as file:
            file.write(f"{text}\n")

    worker._tell = tell
    parent = os.getppid()
    with only_worker(home, TEAM):
        # A test that was killed leaves no worker.
        while os.getppid() == parent:
            wait_s = await worker.step()
            if (trouble := worker.state().trouble) is not None:
                tell(f"trouble: {trouble}")
            await anyio.sleep(min(max(wait_s / SPEED, 0.05), 1.0))
