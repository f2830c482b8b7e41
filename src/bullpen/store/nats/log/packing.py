"""How events are packed into messages: one or several in the log, many in a history block. Pure.

In format 1 a message of the log has one event, and history blocks are plain text. In format 2 a
message may have several events, one on each line, and blocks are compressed. Versions that know
only format 1 cannot read these, so a team keeps the format that it was created in.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from functools import lru_cache

from bullpen.protocol.format_version import FORMAT, is_newer, may_write

PACKED_FORMAT = "2.1"
"""The format of teams that are created in a cell whose hosts all know it. 2.1 has notes."""

_TOGETHER_MAX = 64
_LEVEL = 3
_PLAIN = b"{"


@lru_cache(maxsize=64)
def is_packed(version: str) -> bool:
    """Return whether a log of that format may have several events in a message."""
    return not may_write(version, FORMAT)


def together_max(version: str) -> int:
    """Return how many events go into one message of a log of that format."""
    return _TOGETHER_MAX if is_packed(version) else 1


def known_format(version: str) -> str:
    """Return the newest format that this version knows of logs like one in that format."""
    return PACKED_FORMAT if is_packed(version) else FORMAT


def format_of_notes(version: str) -> str:
    """Return the format that a log of that format has from its first note on.

    An earlier version, which would leave the notes out of a snapshot, then puts none.
    """
    known = known_format(version)
    return version if is_newer(version, known) else known


@lru_cache(maxsize=64)
def may_append(version: str) -> bool:
    """Return whether this version may add events to a log of that format."""
    return may_write(version, known_format(version))


def pack_block(lines: Sequence[bytes], *, compressed: bool) -> bytes:
    """Return a history block with these events."""
    data = b"\n".join(lines)
    return zlib.compress(data, _LEVEL) if compressed else data


def unpack_block(data: bytes) -> list[bytes]:
    """Return the events of a history block. Raises ValueError if it is damaged."""
    if not data.startswith(_PLAIN):
        try:
            data = zlib.decompress(data)
        except zlib.error as error:
            raise ValueError(f"the block cannot be decompressed: {error}") from None
    return data.split(b"\n")
