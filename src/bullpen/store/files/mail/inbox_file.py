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
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from bullpen.errors import Unreadable
from bullpen.protocol import json_text
from bullpen.protocol.message import Message
from bullpen.store.files.disk import Disk, nonce, open_file, read_bytes, temp_of
from bullpen.store.files.paths import TeamPaths
from bullpen.store.files.records import Stamp, stamp_of

_END = b"\n  }\n]"
_UNREAD = b'\n    "read": false'
_PATIENCE_S = 0.3


_NO_SHADOW = Stamp(0, 0, 0)


@dataclass(frozen=True, slots=True)
class Shadow:
    """The state of inbox and shadow after Bullpen's last write.

    `unread` is a good guess, or exactly what a reader of the whole inbox would count.
    """

    inbox: Stamp
    shadow: Stamp
    unread: int
    exact: bool

    def encode(self) -> bytes:
        """Return one block that a reader without a lock can check."""
        numbers = (*self.inbox, *self.shadow, self.unread, int(self.exact))
        text = b" ".join(b"%d" % number for number in numbers)
        return (b"%b %d\n" % (text, zlib.crc32(text))).ljust(_STATE_BYTES)

    @classmethod
    def decode(cls, block: bytes) -> Shadow | None:
        """Return the state in a block; None if it is damaged or of another version."""
        text, _, check = block.strip().rpartition(b" ")
        try:
            numbers = [int(word) for word in text.split()]
            sound = len(numbers) == 8 and int(check) == zlib.crc32(text)
        except ValueError:
            return None
        if not sound:
            return None
        return cls(Stamp(*numbers[:3]), Stamp(*numbers[3:6]), numbers[6], bool(numbers[7]))


_STATE_BYTES = 200


def read_state(path: str, inbox: Stamp) -> Shadow | None:
    """Return what Bullpen last knew of an inbox, if nobody has written the inbox since."""
    try:
        known = Shadow.decode(read_bytes(path))
    except (OSError, Unreadable):
        return None
    return known if known is not None and known.inbox == inbox else None


@dataclass(frozen=True, slots=True)
class Staged:
    """The next content of an inbox, durable but not yet visible."""

    agent: str
    path: str
    next_path: str
    base: Stamp
    # The prepared file. Whoever wrote to it after it became visible has changed this.
    ready: Stamp
    unread_before: int
    exact: bool
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
        """Return whether the inbox or its archive has that message. Slow: only for retries.

        Messages are parsed only if the id is found in the text. They must be: a message that only
        seems to be there would be lost.
        """
        needle = json_text.dumps_line(message_id)
        return self._in_inbox(message_id, needle) or self._in_archive(message_id, needle)

    def _in_inbox(self, message_id: str, needle: bytes) -> bool:
        data = read_inbox(self.path)
        if needle not in data:
            return False
        try:
            rows = parse_rows(data, self.path)
        except Unreadable:
            return any(label + needle in data for label in (b'"msg_id": ', b'"msg_id":'))
        return any(message.id == message_id for message in messages_in(rows))

    def _in_archive(self, message_id: str, needle: bytes) -> bool:
        try:
            data = read_bytes(self.paths.archived(self.agent))
        except FileNotFoundError:
            return False
        if needle not in data:
            return False
        rows = []
        for line in data.split(b"\n")[:-1]:
            if needle in line:
                with suppress(ValueError):
                    rows.append(json_text.loads(line))
        return any(message.id == message_id for message in messages_in(rows))

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
            ready = stamp_of(os.fstat(fd))
        finally:
            os.close(fd)
        return Staged(
            self.agent,
            self.path,
            self._shadow,
            known.inbox,
            ready,
            known.unread,
            known.exact,
            tuple(messages),
        )

    def _stage_copy(self, messages: Sequence[Message], source: str | None = None) -> Staged:
        base, data = self._settled(source or self.path)
        rows = rows_text(messages)
        known = read_state(self._state, base) if source is None else None
        exact = known is not None and known.exact
        if data.endswith(_END) and data.startswith(b"[\n  {"):
            text, unread = data[:-2] + b"," + rows + b"\n]", data.count(_UNREAD)
        else:
            found = parse_rows(data, self.path)
            unread = sum(1 for row in found if not (isinstance(row, dict) and row.get("read")))
            text = json_text.dumps([*found, *(message.raw for message in messages)])
            exact = exact or not found
        if known is not None and known.exact:
            unread = known.unread
        path = f"{self._shadow}.next"
        self.disk.unlink(path)
        self.disk.write_new(path, text)
        ready = stamp_of(os.lstat(path))
        return Staged(self.agent, self.path, path, base, ready, unread, exact, tuple(messages))

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
            self._remember(staged, _NO_SHADOW)
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
        self._remember(staged, staged.base)

    def rewrite(self, rows: Sequence[Any], *, unread: int) -> None:
        """Replace the whole content, in which a reader counts so many unread messages."""
        temp = temp_of(self.path, nonce())
        self.disk.write_new(temp, json_text.dumps(list(rows)))
        ready = stamp_of(os.lstat(temp))
        self.disk.rename(temp, self.path)
        self._write_state(Shadow(ready, _NO_SHADOW, unread, exact=True))

    def _known(self) -> Shadow | None:
        """Return the shadow's state if only Bullpen has touched the inbox since."""
        try:
            return read_state(self._state, stamp_of(os.lstat(self.path)))
        except OSError:
            return None

    def _remember(self, staged: Staged, shadow: Stamp) -> None:
        added = sum(1 for message in staged.messages if not message.read)
        self._write_state(Shadow(staged.ready, shadow, staged.unread_before + added, staged.exact))

    def _write_state(self, shadow: Shadow) -> None:
        # Only a hint: it is checked against the inbox, so it need not be durable or atomic. One
        # block in place, because ext4 flushes a file that is truncated and written again.
        try:
            fd = open_file(self._state, os.O_WRONLY | os.O_CREAT)
        except (FileNotFoundError, Unreadable):
            return
        try:
            self.disk.write(fd, shadow.encode(), self._state)
        finally:
            os.close(fd)


def count_unread(messages: Iterable[Message]) -> int:
    """Return how many of the messages in an inbox are unread. Of copies, the first one counts."""
    read: dict[str, bool] = {}
    for message in messages:
        read.setdefault(message.id, bool(message.read))
    return sum(not seen for seen in read.values())


def messages_in(rows: Iterable[Any]) -> Iterator[Message]:
    """Yield the rows that are messages."""
    for row in rows:
        with suppress(ValueError):
            yield Message.parse(row)


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
