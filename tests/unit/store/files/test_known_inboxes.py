"""An inbox that a process compared with the log is not read again, unless it changed since."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bullpen.protocol.changes import Deliver, Event
from bullpen.protocol.names import LEAD
from bullpen.store.files.log import digests
from bullpen.store.files.mail import read_mail
from bullpen.store.files.store import FileStore
from bullpen.testing.faults import FailingDisk
from bullpen.testing.sample_records import message
from support.store.peers import INBOX, TEAM, Files, assert_the_log_tells_all

pytestmark = pytest.mark.no_loss

AGENTS = (INBOX, "bob")


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The agents whose inboxes were read."""
    found: list[str] = []
    whole = read_mail.read

    def counted(paths: Any, agent: str, **options: Any) -> Any:
        found.append(agent)
        return whole(paths, agent, **options)

    monkeypatch.setattr(read_mail, "read", counted)
    yield found


@pytest.fixture(autouse=True)
def few_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two short inboxes are already many bytes."""
    monkeypatch.setattr(digests, "CHECKPOINT_BYTES", 500)


async def events_of(home: Path, **options: Any) -> list[Event]:
    """The log as a new process reads it."""
    store = FileStore(home, **{"fsync": False, **options})
    try:
        return await store.events(TEAM)
    finally:
        await store.aclose()


async def compared(store: FileStore, files: Files) -> Path:
    """Mail that another process has compared with the log. Returns where it noted that."""
    for number in range(3):
        for agent in AGENTS:
            await store.append(TEAM, agent, message(f"{agent}{number}"), actor=LEAD)
    for agent in AGENTS:
        os.utime(files.inbox(agent), ns=(0, 0))  # So long ago that it is not read again.
    await events_of(files.home)
    return files.root / ".bullpen" / "ledger.json"


async def test_a_new_process_reads_no_inbox_that_another_one_compared(
    store: FileStore, files: Files, read: list[str]
) -> None:
    await compared(store, files)
    assert {*read} >= {*AGENTS}
    read.clear()
    before = await events_of(files.home)
    assert not {*read} & {*AGENTS}
    assert before == await store.events(TEAM)


async def test_only_the_inbox_that_changed_is_read_again(
    store: FileStore, files: Files, read: list[str]
) -> None:
    await compared(store, files)
    await store.append(TEAM, "bob", message("new"), actor=LEAD)
    read.clear()
    assert (await events_of(files.home))[-1].op == "message"
    assert INBOX not in read and "bob" in read


def in_place(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def by_rename(path: Path, text: str) -> None:
    temporary = path.with_name("their.tmp")
    temporary.write_text(text, encoding="utf-8")
    temporary.rename(path)


@pytest.mark.parametrize("write", [in_place, by_rename])
async def test_what_another_program_writes_is_always_found(
    store: FileStore, files: Files, write: Callable[[Path, str], None]
) -> None:
    await compared(store, files)
    rows = json.loads(files.inbox().read_bytes())
    write(files.inbox(), json.dumps([*rows[1:], message("theirs").raw], indent=2))
    last = (await events_of(files.home))[-1]
    assert last.observed and Deliver(INBOX, message("theirs")) in last.changes
    await assert_the_log_tells_all(store)


async def test_a_message_that_a_failed_send_did_not_log_is_found(
    store: FileStore, files: Files
) -> None:
    await compared(store, files)
    whole, found = await store.events(TEAM), 0
    for step in range(1, 40):
        failing = FileStore(files.home, disk=FailingDisk(step))
        try:
            await failing.append(TEAM, INBOX, message(f"step{step}"), actor=LEAD)
        except Exception:
            found += 1
        finally:
            await failing.aclose()
        now = await events_of(files.home)
        box = [entry.id for entry in (await store.mailbox(TEAM, INBOX)).entries]
        logged = [
            change.message.id
            for event in now[len(whole) :]
            for change in event.changes
            if isinstance(change, Deliver)
        ]
        assert logged == [key for key in box if key.startswith("step")]
    assert found


LEDGERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "none": lambda raw: None,
    "half of it": lambda raw: json.dumps(raw)[:-40],
    "of an older version": lambda raw: {key: raw[key] for key in raw if key != "looked"},
    "not by agent": lambda raw: {**raw, "looked": [1, 2, 3]},
    "no stamps": lambda raw: {**raw, "looked": dict.fromkeys(raw["looked"], "x")},
    "too long stamps": lambda raw: {**raw, "looked": dict.fromkeys(raw["looked"], (1, 2, 3, 4))},
    "stamps of texts": lambda raw: {**raw, "looked": dict.fromkeys(raw["looked"], ("1", 2, 3))},
    "stamps of other files": lambda raw: {**raw, "looked": dict.fromkeys(raw["looked"], (1, 2, 3))},
}


@pytest.mark.parametrize("ledger", LEDGERS)
async def test_what_was_noted_is_believed_only_if_it_is_whole_and_fits(
    store: FileStore, files: Files, read: list[str], ledger: str
) -> None:
    path = await compared(store, files)
    raw = json.loads(path.read_bytes())
    assert {*raw["looked"]} >= {*AGENTS}
    changed = LEDGERS[ledger](raw)
    path.unlink()
    if changed is not None:
        path.write_text(changed if isinstance(changed, str) else json.dumps(changed), "utf-8")
    read.clear()
    assert await events_of(files.home) == await store.events(TEAM)
    assert {*read} >= {*AGENTS}
    await assert_the_log_tells_all(store)


async def test_events_are_read_although_nothing_can_be_noted(
    store: FileStore, files: Files
) -> None:
    ledger = await compared(store, files)
    whole = await store.events(TEAM)
    for step in range(1, 6):
        ledger.unlink(missing_ok=True)
        assert await events_of(files.home, disk=FailingDisk(step, forever=True)) == whole
