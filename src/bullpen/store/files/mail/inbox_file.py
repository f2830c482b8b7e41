"""Inboxes: JSON arrays that other programs read, with appends of constant cost.

An inbox has two inodes that alternate. The hidden one, the *shadow*, is the inbox before the last
append. To append, the messages it lacks and the new one are written to the shadow, which is synced
and swapped with the visible file (`RENAME_EXCHANGE`). So a reader without a lock always opens a
complete file. Before a shadow is written, a lease proves that no slow reader still has it open. If
one has, if anything but Bullpen's last append touched either inode, or if the system lacks these
calls, the whole file is copied instead.
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
from bullpen.protocol import json_text
from bullpen.protocol.message import Message
from bullpen.store.files.disk import Disk, nonce, open_file, read_bytes
from bullpen.store.files.paths import TeamPaths
from bullpen.store.files.records import Stamp, stamp_of

_END = b"\n  }\n]"
_UNREAD = b'\n    "read": false'
_PATIENCE_S = 0.3


@dataclass(frozen=True, slots=True)
class Shadow:
    """The state of inbox and shadow after Bullpen's last append."""

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
    """Return the messages as they appear in an inbox, between `[` and the final newline."""
    return json_text.dumps([message.raw for message in messages])[1:-2]


class Inbox:
    """One inbox, for the process that holds the team lock and the inbox's own lock."""

    def __init__(self, paths: TeamPaths, agent: str, disk: Disk) -> None:
        self.paths, self.agent, self.disk = paths, agent, disk
        self.path = paths.inbox(agent)
        self._shadow = paths.shadow(agent)
        self._state = paths.shadow_state(agent)

    def ensure(self) -> None:
        """Create an empty inbox if there is none, as Claude Code does before it locks it."""
        if not os.path.lexists(self.path):
            self.disk.ensure_dir(self.paths.inboxes)
            self.disk.create_whole(self.path, b"[]", nonce=nonce())

    def holds(self, message_id: str) -> bool:
        """Return whether the inbox or its archive has that message. Slow: only for retries."""
        needle = json_text.dumps_line(message_id)
        for path in (self.path, self.paths.archived(self.agent)):
            try:
                data = read_bytes(path)
            except FileNotFoundError:
                continue
            if b'"msg_id": ' + needle in data or b'"msg_id":' + needle in data:
                return True
        return False

    def stage(self, messages: Sequence[Message]) -> Staged:
        """Prepare the inbox with these messages added. Readers see no change yet."""
        self.disk.ensure_dir(self.paths.mail)
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
            self.disk.write_at(fd, data, at, self._shadow)
            self.disk.sync(fd, self._shadow)
        finally:
            os.close(fd)
        added = _unread(messages)
        return Staged(
            self.agent,
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
            text = json_text.dumps([*found, *(message.raw for message in messages)])
        path = f"{self._shadow}.next"
        self.disk.unlink(path)
        self.disk.write_new(path, text)
        after = unread + _unread(messages)
        return Staged(self.agent, self.path, path, base, unread, after, tuple(messages))

    def _settled(self, source: str) -> tuple[Stamp, bytes]:
        """Return the inbox. Its creator opens it first and writes its `[]` a moment later."""
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            base, data = stamp_of(os.lstat(self.path)), read_bytes(source)
            if data or time.monotonic() > deadline:
                return base, data
            time.sleep(0.005)

    def publish(self, staged: Staged) -> None:
        """Put the prepared content in the inbox's place. It is durable after a sync of its folder.

        The replaced file must be the one it was prepared from. If it is not, another program wrote
        it without a lock: the messages are then added to what that program wrote.
        """
        if not self.disk.exchange(staged.next_path, self.path):
            self.disk.rename(staged.next_path, self.path)
            return
        if stamp_of(os.stat(staged.next_path)) != staged.base:
            with suppress(Unreadable):  # An incomplete file from a program that died writing it.
                self.publish(self._stage_copy(staged.messages, staged.next_path))
            self.disk.unlink(
                self._state
            )  # The replaced file does not start with what the inbox had.
            return
        if staged.next_path != self._shadow:
            try:
                self.disk.rename(staged.next_path, self._shadow)
            except IsADirectoryError:
                return  # The message is in place; without a shadow the next append copies the file.
        now = stamp_of(os.stat(self.path))
        self._remember(Shadow(now, staged.base, staged.unread_after))

    def rewrite(self, rows: Sequence[Any]) -> None:
        """Replace the whole content."""
        self.disk.replace(self.path, json_text.dumps(list(rows)), nonce=nonce())

    def _known(self) -> Shadow | None:
        """Return the shadow's state if only Bullpen has touched the inbox since."""
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
            self.disk.write(fd, text.ljust(160), self._state)
        finally:
            os.close(fd)


def _unread(messages: Sequence[Message]) -> int:
    return sum(1 for message in messages if not message.read)


def read_inbox(path: str) -> bytes:
    """Return an inbox's bytes; a missing inbox reads as the empty array."""
    try:
        return read_bytes(path)
    except FileNotFoundError:
        return b"[]"


def parse_rows(data: bytes, path: str) -> list[Any]:
    """Return the rows of an inbox, good and bad. Raises Unreadable if it is not a JSON array."""
    try:
        rows = json_text.loads(data)
    except ValueError as error:
        raise Unreadable(path, f"it is not JSON ({error})") from None
    if not isinstance(rows, list):
        raise Unreadable(path, "it is not a JSON array")
    return rows


if sys.platform == "linux":
    import fcntl

    def _nobody_else_has(fd: int) -> bool:
        """Return whether this is the only open descriptor of the file.

        Only then does the kernel grant a write lease. Nobody can open the shadow by its public
        name, so the answer stays true. If somebody opens it by its hidden name at this moment, the
        kernel sends SIGWINCH, which does nothing by default.
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
