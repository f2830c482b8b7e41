"""Real processes that begin at the same moment, and what they write down about themselves."""

from __future__ import annotations

import json
import multiprocessing
import os
import time
import uuid
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import anyio

from bullpen.store.files.store import FileStore
from bullpen.team.team import Team, Teams

FORKSERVER = multiprocessing.get_context("forkserver")
# Modules of the package only: the fork server does not know the path of the tests.
FORKSERVER.set_forkserver_preload(["bullpen.team.team", "bullpen.store.files.store"])

TEAM = "race"


class Diary:
    """Lines that survive a kill -9: each is one write, made after the thing it tells of."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(self, **facts: Any) -> None:
        facts["at"] = time.monotonic()
        os.write(self._fd, json.dumps(facts).encode() + b"\n")

    @staticmethod
    def read_all(folder: Path) -> list[dict[str, Any]]:
        notes = []
        for path in sorted(folder.glob("*.diary")):
            lines = path.read_text(encoding="utf-8").splitlines()
            notes += [{**json.loads(line), "who": path.stem} for line in lines]
        return sorted(notes, key=lambda note: float(note["at"]))


def open_team(home: Path) -> Team:
    return Teams(FileStore(home, fsync=False)).open(TEAM)


def _child(body: Callable[..., Any], home: Path, number: int, go: Path, extra: Any) -> None:
    diary = Diary(home / f"{number}.diary")
    team = open_team(home)
    go.with_suffix(f".ready-{number}").touch()
    _wait_for(go.exists)
    anyio.run(body, team, number, diary, extra)


def _wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "the processes did not get ready"
        time.sleep(0.001)


def start(home: Path, body: Callable[..., Any], count: int, extra: Any = None) -> list[BaseProcess]:
    """Start `count` processes that run `body` from the same moment on.

    They agree on it by files. A barrier of the system would keep its lock when one that just
    leaves it is killed, and the others would wait for ever.
    """
    go = home / f"{uuid.uuid4().hex}.go"
    children: list[BaseProcess] = []
    for number in range(count):
        child = FORKSERVER.Process(target=_child, args=(body, home, number, go, extra), daemon=True)
        child.start()
        children.append(child)
    _wait_for(lambda: len(list(home.glob(f"{go.stem}.ready-*"))) == count)
    go.touch()
    return children


def finish(children: list[BaseProcess], *, killed_too: bool = False) -> None:
    deadline = time.monotonic() + 240
    for child in children:
        child.join(max(0.0, deadline - time.monotonic()))
        assert child.exitcode is not None, "a process did not come to an end"
        assert child.exitcode == 0 or (killed_too and child.exitcode == -9)
