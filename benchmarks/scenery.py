"""Teams, messages and inboxes to measure on."""

from __future__ import annotations

import functools
import json
import os
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bullpen.protocol import json_text
from bullpen.protocol.clock import now_ms
from bullpen.protocol.message import Message
from bullpen.protocol.names import LEAD
from bullpen.store.contract import StoreLimits
from bullpen.store.files.disk import Disk
from bullpen.store.files.paths import TeamPaths
from bullpen.store.files.store import FileStore
from bullpen.store.files.writer import TeamFiles
from bullpen.team.team import Teams

TEAM = "alpha"
READER = "ann"
MESSAGE_BYTES = 1_000


def message(number: int | None = None) -> Message:
    """A message of 1 KB with a unique id; the same number gives the same message."""
    msg_id = str(uuid.uuid4() if number is None else uuid.UUID(int=number))
    return Message.new(
        sender=LEAD,
        text=f"{number or 0:08d}".ljust(MESSAGE_BYTES, "x"),
        timestamp="2026-01-01T00:00:00.000Z",
        msg_v=1,
        msg_id=msg_id,
        type="message",
        read=False,
    )


def inbox_text(messages: Sequence[Message]) -> bytes:
    """An inbox that holds these messages."""
    return json_text.dumps([each.raw for each in messages])


@functools.lru_cache(maxsize=4)
def _filled(count: int) -> bytes:
    return inbox_text([message() for _ in range(count)])


async def make_team(home: Path, *, fsync: bool = True) -> FileStore:
    """A store with one team that has a lead."""
    store = FileStore(home, fsync=fsync)
    await Teams(store).create(TEAM)
    return store


async def make_inbox(home: Path, count: int, *, fsync: bool = True) -> FileStore:
    """A store whose reader has this many unread messages, written by another program."""
    store = await make_team(home, fsync=fsync)
    path = inbox_path(home)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(_filled(count))
    settle(path)
    return store


def inbox_path(home: Path) -> Path:
    """The reader's inbox."""
    return Path(TeamPaths(str(home), TEAM).inbox(READER))


def core(home: Path, *, fsync: bool) -> TeamFiles:
    """The synchronous core that the store's methods run in a thread."""
    return TeamFiles(TeamPaths(str(home), TEAM), Disk(fsync=fsync), now_ms, StoreLimits())


def plain_inbox(folder: Path, count: int) -> str:
    """An inbox of the same content outside any team, for the other approaches."""
    folder.mkdir(parents=True)
    path = folder / "inbox.json"
    path.write_bytes(_filled(count))
    settle(path)
    return str(path)


def plain_config(folder: Path) -> str:
    """A config with a lead, for the other approaches."""
    folder.mkdir(parents=True)
    path = folder / "config.json"
    config: dict[str, Any] = {"name": TEAM, "members": [{"name": LEAD}]}
    path.write_text(json.dumps(config, indent=2), encoding="utf-8")
    settle(path)
    return str(path)


def settle(path: Path) -> None:
    """Flush prepared files to disk, so that no measurement pays for it."""
    for each in (path, path.parent):
        fd = os.open(each, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)
