"""Calls of a store that need the lock of a team, and a store that soon gives up waiting for it."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bullpen.protocol.changes import PutTask
from bullpen.protocol.names import LEAD
from bullpen.store.contract import StoreLimits
from bullpen.store.files import locks
from bullpen.store.files.store import FileStore
from bullpen.testing.sample_records import message, put, task

from .peers import INBOX, TEAM

WAIT_S = 0.3
HANGS_S = 60.0
"""Nobody waits that long, however busy the machine is."""

Work = Callable[[FileStore], Coroutine[Any, Any, Any]]

LOCKING: dict[str, Work] = {
    "commit": lambda store: put(store, PutTask(task("9"))),
    "append": lambda store: store.append(TEAM, INBOX, message("m"), actor=LEAD),
    "acknowledge": lambda store: store.acknowledge(TEAM, INBOX, ["m"], "seen", actor=INBOX),
    "events": lambda store: store.events(TEAM),
    "checkup": lambda store: store.checkup(TEAM, fix=False),
    "mend": lambda store: store.checkup(TEAM, fix=True),
    "delete": lambda store: store.delete(TEAM, actor=LEAD),
}


def pauses_of(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """How long the locks of files are waited for from now on, one entry each time."""
    pauses: list[object] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        time.sleep(seconds)

    monkeypatch.setattr(locks, "time", SimpleNamespace(**{**vars(time), "sleep": sleep}))
    return pauses


@pytest.fixture
async def hasty(tmp_path: Path, store: FileStore) -> AsyncIterator[FileStore]:
    """The same team in a store that soon gives up."""
    hasty = FileStore(tmp_path, fsync=False, limits=StoreLimits(lock_wait_s=WAIT_S))
    yield hasty
    await hasty.aclose()
