"""A message that is sent again is stored once, and one that only seems to be there is not lost."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bullpen.protocol.names import LEAD
from bullpen.store.contract import StoreLimits
from bullpen.store.files.store import FileStore
from bullpen.testing.sample_records import config, message
from support.store.peers import INBOX, TEAM, Files

pytestmark = pytest.mark.no_loss

ID = "the-repeated-one"


async def sent(store: FileStore) -> bool:
    """Send it as a retry does. Returns whether it was stored now."""
    return not (await store.append(TEAM, INBOX, message(ID), actor=LEAD)).duplicate


async def ids_of(store: FileStore) -> list[str]:
    return [entry.id for entry in (await store.mailbox(TEAM, INBOX, history=True)).entries]


@pytest.mark.parametrize("indent", [2, None])
async def test_a_message_is_found_however_another_program_writes_the_inbox(
    store: FileStore, files: Files, indent: int | None
) -> None:
    assert await sent(store)
    rows = json.loads(files.inbox().read_bytes())
    separators = None if indent else (",", ":")
    files.inbox().write_text(json.dumps(rows, indent=indent, separators=separators), "utf-8")
    assert not await sent(store)
    assert (await ids_of(store)).count(ID) == 1


ROWS: dict[str, Callable[[], dict[str, Any]]] = {
    "a reply to it": lambda: message("other").evolve(in_reply_to=ID).raw,
    "a text that quotes it": lambda: message("other", text=json.dumps({"msg_id": ID})).raw,
    "a field of another program": lambda: {**message("other").raw, "about": {"msg_id": ID}},
    "a row that is no message": lambda: {"msg_id": ID},
}


@pytest.mark.parametrize("row", ROWS)
async def test_a_message_that_another_one_only_names_is_stored(
    store: FileStore, files: Files, row: str
) -> None:
    files.inbox().write_text(json.dumps([ROWS[row]()], indent=2), "utf-8")
    assert await sent(store)
    assert ID in await ids_of(store)
    assert not await sent(store)


async def test_a_message_is_found_in_the_archive(tmp_path: Path) -> None:
    store = await archiving(tmp_path)
    archive = tmp_path / f"teams/{TEAM}/.bullpen/archive/{INBOX}.jsonl"
    assert ID in archive.read_text("utf-8")
    assert not await sent(store)
    assert (await ids_of(store)).count(ID) == 1
    await store.aclose()


async def test_a_message_that_a_dead_process_half_archived_is_stored(tmp_path: Path) -> None:
    store = await archiving(tmp_path)
    archive = tmp_path / f"teams/{TEAM}/.bullpen/archive/{INBOX}.jsonl"
    lines = archive.read_bytes().splitlines(keepends=True)
    (line,) = (each for each in lines if ID.encode() in each)
    archive.write_bytes(b"".join(each for each in lines if each != line) + line[:-1])
    assert await sent(store)
    assert ID in await ids_of(store)
    await store.aclose()


async def archiving(home: Path) -> FileStore:
    """A store in which the message was seen long ago."""
    store = FileStore(home, fsync=False, limits=StoreLimits(seen_kept=1))
    await store.create(TEAM, config(), actor=LEAD)
    assert await sent(store)
    for number in range(3):
        await store.append(TEAM, INBOX, message(f"m{number}"), actor=LEAD)
    await store.acknowledge(TEAM, INBOX, [ID, "m0", "m1", "m2"], "seen", actor=INBOX)
    assert ID not in [entry.id for entry in (await store.mailbox(TEAM, INBOX)).entries]
    return store
