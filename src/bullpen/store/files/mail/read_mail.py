"""Reads a mailbox and moves its messages forward: stored, injected, seen, archived."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Any

from bullpen.errors import Unreadable
from bullpen.protocol import json_text
from bullpen.protocol.clock import Clock
from bullpen.protocol.message import DeliveryState, Message
from bullpen.store.contract import Entry, Mailbox, Mark, Problem
from bullpen.store.files.disk import Disk, nonce, open_file, read_bytes
from bullpen.store.files.mail.inbox_file import (
    Inbox,
    count_unread,
    messages_in,
    parse_rows,
    read_inbox,
)
from bullpen.store.files.paths import TeamPaths
from bullpen.store.record_checks import no_message

_PATIENCE_S = 0.3


def read_rows(path: str) -> list[Any]:
    """Return the rows of an inbox without a lock. Reads twice: old versions write it in place."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return parse_rows(read_inbox(path), path)
        except Unreadable:
            if time.monotonic() > deadline or not _touched_just_now(path):
                raise
            time.sleep(0.01)


def _touched_just_now(path: str) -> bool:
    try:
        return time.time() - os.lstat(path).st_mtime < 2.0
    except FileNotFoundError:
        return True


def read(paths: TeamPaths, agent: str, *, after: str | None, history: bool) -> Mailbox:
    """Return the mailbox, oldest message first. Copies of one message count once."""
    path = paths.inbox(agent)
    # The archive is read after the inbox: a message being moved is in both.
    rows = read_rows(path)
    injected = load_injected(paths.injected(agent))
    entries: dict[str, Entry | None] = {}
    if history or after is not None:
        for key, old in archived(paths, agent).items():
            entries[key] = Entry(key, old, "seen") if old else None
    problems = []
    for index, row in enumerate(rows):
        try:
            message = Message.parse(row)
        except ValueError as error:
            problems.append(Problem(f"{path}[{index}]", str(error)))
            continue
        state: DeliveryState = "injected" if message.id in injected else "stored"
        if entries.get(message.id) is None:
            entries[message.id] = Entry(message.id, message, "seen" if message.read else state)
    found = tuple(entry for entry in entries.values() if entry)
    if after is not None:
        found = _after(found, after, agent)
    return Mailbox(found, tuple(problems))


def _after(entries: tuple[Entry, ...], after: str, agent: str) -> tuple[Entry, ...]:
    for index, entry in enumerate(entries):
        if entry.id == after:
            return entries[index + 1 :]
    raise no_message(agent, after)


def archived(paths: TeamPaths, agent: str) -> dict[str, Message | None]:
    """Return the messages that left the inbox after they were seen, in order of arrival.

    None stands for a message that was not seen when its neighbours left: it is in the inbox, or
    further down in the archive.
    """
    path = paths.archived(agent)
    found: dict[str, Message | None] = {}
    try:
        with open(open_file(path), "rb") as file:
            for line in file:
                if line.endswith(b"\n"):
                    key, message = parse_archived(line)
                    if message or key not in found:
                        found[key] = message
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise Unreadable(path, f"a line is damaged ({error})") from None
    return found


def parse_archived(line: bytes) -> tuple[str, Message | None]:
    """Parse a line of an archive: a message, or the id of one left behind. Raises ValueError."""
    raw = json_text.loads(line)
    waits = raw.get("waits") if isinstance(raw, dict) else None
    if isinstance(waits, str):
        return waits, None
    message = Message.parse(raw)
    return message.id, message


def load_injected(path: str) -> dict[str, int]:
    """Return the messages that were injected but not seen, with the time."""
    try:
        raw = json_text.loads(read_bytes(path))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise Unreadable(path, str(error)) from None
    if not isinstance(raw, dict):
        raise Unreadable(path, "it is not a JSON object")
    return raw


def _save_injected(path: str, injected: dict[str, int], disk: Disk) -> None:
    if injected:
        disk.ensure_dir(os.path.dirname(path))
        disk.replace(path, json_text.dumps_line(injected), nonce=nonce())
    else:
        disk.unlink(path)


def move_forward(
    inbox: Inbox,
    ids: Sequence[str],
    state: Mark,
    *,
    clock: Clock,
    seen_kept: int,
    log_first: Callable[[Sequence[Message]], None],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Move messages to a state. Returns which moved, and which were archived.

    `log_first` logs messages that leave the inbox before the log has them.
    """
    rows = parse_rows(read_inbox(inbox.path), inbox.path)
    disk, path = inbox.disk, inbox.paths.injected(inbox.agent)
    injected, wanted = load_injected(path), set(ids)
    moved: dict[str, None] = {}
    messages: list[Message] = []
    for index, row in enumerate(rows):
        try:
            message = Message.parse(row)
        except ValueError:
            continue
        messages.append(message)
        if message.id not in wanted or message.read:
            continue
        if state == "seen":
            messages[-1] = message.evolve(read=True)
            rows[index] = messages[-1].raw
        elif message.id in injected:
            continue
        moved[message.id] = None
    if not moved:
        return (), ()
    if state == "injected":
        _save_injected(path, {**injected, **dict.fromkeys(moved, clock())}, disk)
        return tuple(moved), ()
    kept, passed = _split(rows, seen_kept)
    if passed:
        log_first(passed)
        _archive(inbox, passed)
    inbox.rewrite(kept, unread=count_unread(messages_in(kept) if passed else messages))
    disk.sync_dir(inbox.paths.inboxes)
    if injected:
        left = {key: at for key, at in injected.items() if key not in moved}
        _save_injected(path, left, disk)
    return tuple(moved), tuple(message.id for message in passed if message.read)


def _split(rows: list[Any], seen_kept: int) -> tuple[list[Any], list[Message]]:
    """Return the rows that stay, and the messages to archive if too many were seen."""
    seen = [index for index, row in enumerate(rows) if isinstance(row, dict) and row.get("read")]
    if len(seen) <= 2 * seen_kept:
        return rows, []
    last = seen[len(seen) - seen_kept - 1]
    kept, passed = [], []
    for index, row in enumerate(rows):
        try:
            message = Message.parse(row) if index <= last else None
        except ValueError:
            message = None
        if message:
            passed.append(message)
        if message is None or not message.read:
            kept.append(row)
    return kept, passed


def _archive(inbox: Inbox, passed: Sequence[Message]) -> None:
    """Append messages to the archive, durably, before they leave the inbox.

    If the process is killed in between, they are in both; a reader counts them once.
    """
    disk, path = inbox.disk, inbox.paths.archived(inbox.agent)
    disk.ensure_dir(inbox.paths.archive)
    lines = b"".join(
        json_text.dumps_line(message.raw if message.read else {"waits": message.id}) + b"\n"
        for message in passed
    )
    fd = open_file(path, os.O_RDWR | os.O_CREAT)
    try:
        whole = os.fstat(fd).st_size
        if whole and os.pread(fd, 1, whole - 1) != b"\n":
            # A dead process left an incomplete line: write over it.
            whole -= len(os.pread(fd, whole, 0).rpartition(b"\n")[2])
        disk.write_at(fd, lines, whole, path)
        disk.truncate(fd, whole + len(lines), path)
        disk.sync(fd, path)
    finally:
        os.close(fd)
    disk.sync_dir(inbox.paths.archive)
