"""Unread mail is counted from what was kept, and only as long as that is certainly true."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bullpen.protocol.names import LEAD
from bullpen.store.files.mail import read_cache, read_mail
from bullpen.store.files.store import FileStore
from bullpen.testing.sample_records import message
from support.store.peers import INBOX, TEAM, Files


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The agents whose inboxes were read as a whole."""
    found: list[str] = []
    read = read_mail.read

    def counted(paths: Any, agent: str, **options: Any) -> Any:
        found.append(agent)
        return read(paths, agent, **options)

    monkeypatch.setattr(read_mail, "read", counted)
    yield found


async def fill(store: FileStore, count: int, *, to: str = INBOX, first: int = 0) -> None:
    for number in range(first, first + count):
        await store.append(TEAM, to, message(f"{to}-{number}"), actor=LEAD, fresh=True)


async def counted(home: Path) -> Any:
    """What a new process counts."""
    store = FileStore(home)
    try:
        return (await store.unread(TEAM, [INBOX]))[INBOX]
    finally:
        await store.aclose()


def bytes_of(path: Path) -> bytes:
    return path.read_bytes()


def put(path: Path, data: bytes) -> None:
    path.write_bytes(data)


async def test_a_new_process_counts_mail_without_reading_it(
    store: FileStore, parsed: list[str]
) -> None:
    await fill(store, 5)
    assert await counted(Path(store.home)) == 5
    await store.acknowledge(TEAM, INBOX, [f"{INBOX}-1", f"{INBOX}-2"], "seen", actor=INBOX)
    assert await counted(Path(store.home)) == 3
    await fill(store, 4, first=5)
    assert await counted(Path(store.home)) == 7
    assert parsed == []


def in_place(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def by_rename(path: Path, text: str) -> None:
    temporary = path.with_name("their.tmp")
    temporary.write_text(text, encoding="utf-8")
    temporary.rename(path)


def to_the_same_length(path: Path, text: str) -> None:
    before = path.stat()
    path.write_text(text.ljust(before.st_size)[: before.st_size], encoding="utf-8")


@pytest.mark.parametrize("write", [in_place, by_rename, to_the_same_length])
async def test_a_count_is_not_believed_after_another_program_wrote_the_inbox(
    store: FileStore, files: Files, parsed: list[str], write: Callable[[Path, str], None]
) -> None:
    await fill(store, 3)
    assert (await store.unread(TEAM, [INBOX]))[INBOX] == 3
    os.utime(files.inbox(), ns=(0, 0))  # The clock may not have moved between two writes.
    rows = json.loads(files.inbox().read_bytes())
    rows[0]["read"] = True
    write(files.inbox(), json.dumps(rows, indent=2))
    assert (await store.unread(TEAM, [INBOX]))[INBOX] == 2
    assert await counted(Path(store.home)) == 2
    # What they wrote may have copies of a message: the next send does not know the number.
    await fill(store, 1, first=3)
    assert await counted(Path(store.home)) == 3
    assert set(parsed) == {INBOX}


async def test_a_count_that_was_half_written_is_not_believed(
    store: FileStore, parsed: list[str]
) -> None:
    await fill(store, 3)
    state = Path(store.home, "teams", TEAM, ".bullpen", "mail", f"{INBOX}.state")
    data = bytes_of(state)
    assert data.count(b" 3 1 ") == 1
    put(state, data.replace(b" 3 1 ", b" 2 1 "))
    assert await counted(Path(store.home)) == 3
    put(state, data[:60])
    assert await counted(Path(store.home)) == 3
    assert parsed == [INBOX, INBOX]


async def test_copies_and_rows_that_are_no_messages_are_counted_as_a_reader_does(
    store: FileStore, files: Files
) -> None:
    await fill(store, 2)
    rows = json.loads(files.inbox().read_bytes())
    files.inbox().write_text(json.dumps([*rows, rows[0], {"no": "message"}, 7], indent=2), "utf-8")
    assert await counted(Path(store.home)) == 2
    await fill(store, 1, first=2)
    assert await counted(Path(store.home)) == 3
    await store.acknowledge(TEAM, INBOX, [f"{INBOX}-1"], "seen", actor=INBOX)
    assert await counted(Path(store.home)) == 2
    await fill(store, 1, first=3)
    box = await store.mailbox(TEAM, INBOX)
    assert await counted(Path(store.home)) == len(box.unread) == 3


async def test_an_unreadable_inbox_has_its_error_and_the_others_their_counts(
    store: FileStore, files: Files
) -> None:
    await fill(store, 2)
    await fill(store, 1, to="bob")
    files.inbox().write_text("{", "utf-8")
    os.utime(files.inbox(), (0, 0))
    found = await store.unread(TEAM, [INBOX, "bob", "nobody"])
    assert "not JSON" in str(found[INBOX])
    assert (found["bob"], found["nobody"]) == (1, 0)


async def test_two_hundred_mailboxes_are_read_once_and_not_again(
    store: FileStore, files: Files, parsed: list[str]
) -> None:
    agents = [f"m{number:03d}" for number in range(200)]
    for agent in agents:
        path = files.inbox().with_name(f"{agent}.json")
        path.write_text(json.dumps([message("m1").raw]), "utf-8")
        os.utime(path, (0, 0))
    for _ in range(3):
        for agent in agents:
            assert len((await store.mailbox(TEAM, agent)).unread) == 1
        assert await store.unread(TEAM, agents) == dict.fromkeys(agents, 1)
    assert parsed == agents


async def test_the_mailboxes_read_last_stay_in_memory_up_to_a_limit(
    store: FileStore, files: Files, parsed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    agents = ["ann", "bob", "cyd"]
    for agent in agents:
        await fill(store, 1, to=agent)
        os.utime(files.inbox().with_name(f"{agent}.json"), (0, 0))
    size = files.inbox().with_name("bob.json").stat().st_size
    monkeypatch.setattr(read_cache, "_ALL_BYTES_MAX", 2 * size)
    for agent in [*agents, "bob", "cyd", "ann"]:
        await store.mailbox(TEAM, agent)
    assert parsed == [*agents, "ann"]
