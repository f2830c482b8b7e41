"""Inboxes: a JSON array that other programs read, and an append whose cost does not grow with it.

An inbox has two inodes that take turns. The hidden one, the *shadow*, is the inbox as it was one
append ago. To append, the shadow gets what it lacks and the new message, is synced, and changes
places with the visible one (`RENAME_EXCHANGE`). A reader without a lock therefore always opens a
whole file. Before a shadow is written, a lease proves that nobody slow still has it open; if
somebody has, or if anything but our last append touched either inode, or where the system lacks
these calls, the whole file is copied instead.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from bullpen.errors import Unreadable
from bullpen.protocol import jsontext
from bullpen.protocol.message import Message
from bullpen.store.files.disk import Disk, open_file, read_bytes
from bullpen.store.files.nonce import nonce
from bullpen.store.files.paths import TeamPaths
from bullpen.store.files.records import Stamp, stamp_of

_END = b"\n  }\n]"
_UNREAD = b'\n    "read": false'
_PATIENCE_S = 0.3


@dataclass(frozen=True, slots=True)
class Shadow:
    """What inbox and shadow were after our last append."""

    inbox: Stamp
    shadow: Stamp
    unread: int


@dataclass(frozen=True, slots=True)
class Staged:
    """The next content of an inbox, durable but not yet visible."""

    agent: str
    path: str
    next_path: str
    base: Stamp
    unread_before: int
    unread_after: int
    messages: tuple[Message, ...]


def rows_text(messages: Sequence[Message]) -> bytes:
    """The messages as they stand inside an inbox, between `[` and the final newline."""
    return jsontext.dumps([message.raw for message in messages])[1:-2]


class Inbox:
    """One inbox in the hands of who holds the team lock and the inbox's own lock."""

    def __init__(self, paths: TeamPaths, agent: str, disk: Disk) -> None:
        self._paths, self._agent, self._disk = paths, agent, disk
        self.path = paths.inbox(agent)
        self._shadow = paths.shadow(agent)
        self._state = paths.shadow_state(agent)

    def ensure(self) -> None:
        """Make an empty inbox if there is none, as the real program does before it locks it."""
        if not os.path.lexists(self.path):
            self._disk.ensure_dir(self._paths.inboxes)
            self._disk.create_whole(self.path, b"[]", nonce=nonce())

    def holds(self, message_id: str) -> bool:
        """Whether the inbox or its archive has that message. Reads it all: only for retries."""
        needle = jsontext.dumps_line(message_id)
        for path in (self.path, self._paths.archived(self._agent)):
            try:
                data = read_bytes(path)
            except FileNotFoundError:
                continue
            if b'"msg_id": ' + needle in data or b'"msg_id":' + needle in data:
                return True
        return False

    def stage(self, messages: Sequence[Message]) -> Staged:
        """Prepare the inbox with these messages added; nothing changes for readers yet."""
        self._disk.ensure_dir(self._paths.mail)
        return self._stage_shadow(messages) or self._stage_copy(messages)

    def _stage_shadow(self, messages: Sequence[Message]) -> Staged | None:
        known = self._known()
        if known is None or known.inbox.size <= 2 or known.shadow.size < 2:
            return None
        try:
            fd = open_file(self._shadow, os.O_RDWR)
        except (OSError, Unreadable):
            return None
        try:
            if not _nobody_else_has(fd) or stamp_of(os.fstat(fd)) != known.shadow:
                return None
            at = known.shadow.size - 2
            missing = read_bytes(self.path, at)
            if not missing.endswith(_END):
                return None
            data = missing[:-2] + b"," + rows_text(messages) + b"\n]"
            self._disk.write_at(fd, data, at, self._shadow)
            self._disk.sync(fd, self._shadow)
        finally:
            os.close(fd)
        added = _unread(messages)
        return Staged(
            self._agent,
            self.path,
            self._shadow,
            known.inbox,
            known.unread,
            known.unread + added,
            tuple(messages),
        )

    def _stage_copy(self, messages: Sequence[Message], source: str | None = None) -> Staged:
        base, data = self._settled(source or self.path)
        rows = rows_text(messages)
        if data.endswith(_END) and data.startswith(b"[\n  {"):
            text, unread = data[:-2] + b"," + rows + b"\n]", data.count(_UNREAD)
        else:
            found = parse_rows(data, self.path)
            unread = sum(1 for row in found if not (isinstance(row, dict) and row.get("read")))
            text = jsontext.dumps([*found, *(message.raw for message in messages)])
        path = f"{self._shadow}.next"
        self._disk.unlink(path)
        self._disk.write_new(path, text)
        after = unread + _unread(messages)
        return Staged(self._agent, self.path, path, base, unread, after, tuple(messages))

    def _settled(self, source: str) -> tuple[Stamp, bytes]:
        """The inbox. Whoever makes one opens it first, and writes its `[]` an instant later."""
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            base, data = stamp_of(os.lstat(self.path)), read_bytes(source)
            if data or time.monotonic() > deadline:
                return base, data
            time.sleep(0.005)

    def publish(self, staged: Staged) -> None:
        """Put the prepared content in the inbox's place; durable after a sync of its folder.

        What came out must be what it was prepared from. If it is not, another program wrote it
        without a lock since: then the messages are added to what that program wrote.
        """
        if not self._disk.exchange(staged.next_path, self.path):
            self._disk.rename(staged.next_path, self.path)
            return
        if stamp_of(os.stat(staged.next_path)) != staged.base:
            with suppress(Unreadable):  # Half a file, of a program that died over it.
                self.publish(self._stage_copy(staged.messages, staged.next_path))
            self._disk.unlink(self._state)  # What was put away is not what the inbox began with.
            return
        if staged.next_path != self._shadow:
            try:
                self._disk.rename(staged.next_path, self._shadow)
            except IsADirectoryError:
                return  # The message is in its place; without a shadow the next one takes a copy.
        now = stamp_of(os.stat(self.path))
        self._remember(Shadow(now, staged.base, staged.unread_after))

    def rewrite(self, rows: Sequence[Any]) -> None:
        """Replace the whole content."""
        self._disk.replace(self.path, jsontext.dumps(list(rows)), nonce=nonce())

    def _known(self) -> Shadow | None:
        """The shadow's state, if nobody but us has touched the inbox since."""
        try:
            *stamps, unread = map(int, read_bytes(self._state).split())
            known = Shadow(Stamp(*stamps[:3]), Stamp(*stamps[3:]), unread)
            now = stamp_of(os.lstat(self.path))
        except (OSError, Unreadable, ValueError, TypeError):
            return None
        return known if known.inbox == now else None

    def _remember(self, shadow: Shadow) -> None:
        # Only a hint: it is checked against the inbox, so it need not be durable or atomic. One
        # block in place, because ext4 flushes a file that is truncated and written again.
        text = b"%d %d %d %d %d %d %d\n" % (*shadow.inbox, *shadow.shadow, shadow.unread)
        try:
            fd = open_file(self._state, os.O_WRONLY | os.O_CREAT)
        except Unreadable:
            return
        try:
            self._disk.write(fd, text.ljust(160), self._state)
        finally:
            os.close(fd)


def _unread(messages: Sequence[Message]) -> int:
    return sum(1 for message in messages if not message.read)


def read_inbox(path: str) -> bytes:
    """An inbox's bytes; an inbox that was never made reads as the empty array."""
    try:
        return read_bytes(path)
    except FileNotFoundError:
        return b"[]"


def parse_rows(data: bytes, path: str) -> list[Any]:
    """The rows of an inbox, good and bad.

    Raises:
        Unreadable: it is not a JSON array.
    """
    try:
        rows = jsontext.loads(data)
    except ValueError as error:
        raise Unreadable(path, f"it is not JSON ({error})") from None
    if not isinstance(rows, list):
        raise Unreadable(path, "it is not a JSON array")
    return rows


if sys.platform == "linux":
    import fcntl

    def _nobody_else_has(fd: int) -> bool:
        """Whether ours is the only open descriptor of this file.

        The kernel grants a write lease only then. Nobody can open the shadow anew under its
        public name, so the answer stays true. Should anybody open it under its hidden name in
        this instant, the kernel sends us SIGWINCH, which does nothing by default.
        """
        try:
            fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGWINCH)
            fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
            fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        except OSError:
            return False
        return True
else:  # pragma: no cover

    def _nobody_else_has(fd: int) -> bool:
        return False
