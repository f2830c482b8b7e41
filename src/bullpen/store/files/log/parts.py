"""The older parts of a log: compressed, never changed, each named after its events and digest.

A part is called `FIRST-LAST-SHA256.jsonl.gz`. The digest is that of the file. The part after it
begins with an event that has this name, so the parts are a chain that cannot be changed unnoticed.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bullpen.errors import Unreadable
from bullpen.store.files.disk import list_folder, read_bytes
from bullpen.store.files.log import event_log

_NAME = re.compile(r"(\d{12,19})-(\d{12,19})-([0-9a-f]{64})\.jsonl\.gz")


@dataclass(frozen=True, slots=True)
class Part:
    """Some events of a log, from `first` to `last`."""

    folder: str
    first: int
    last: int
    sha256: str

    @property
    def name(self) -> str:
        """Return the name of its file."""
        return f"{self.first:012d}-{self.last:012d}-{self.sha256}.jsonl.gz"

    @property
    def path(self) -> str:
        """Return its file."""
        return os.path.join(self.folder, self.name)

    def lines(self) -> Iterator[dict[str, Any]]:
        """Return its events. Raises Unreadable, FileNotFoundError."""
        for line in self.text().split(b"\n")[:-1]:
            yield event_log.parse_line(line, self.path)

    def text(self) -> bytes:
        """Return its lines. Raises Unreadable, FileNotFoundError."""
        try:
            return gzip.decompress(read_bytes(self.path))
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise Unreadable(self.path, f"it is damaged ({error})") from None

    def is_sound(self) -> bool:
        """Return whether its file is what was written."""
        return hashlib.sha256(read_bytes(self.path)).hexdigest() == self.sha256


def packed(folder: str, first: int, last: int, lines: bytes) -> tuple[Part, bytes]:
    """Return a part of these lines, and the content of its file."""
    data = gzip.compress(lines, compresslevel=6, mtime=0)
    return Part(folder, first, last, hashlib.sha256(data).hexdigest()), data


def listed(folder: str) -> list[Part]:
    """Return the parts in a folder, oldest first."""
    found = (_NAME.fullmatch(name) for name in list_folder(folder))
    parts = (Part(folder, int(m[1]), int(m[2]), m[3]) for m in found if m)
    return sorted(parts, key=lambda part: (part.first, part.last))


def older(folder: str, begin: int) -> list[Part]:
    """Return the parts before a log that begins after event `begin`, oldest first.

    Others are of a process that died before it took their events out of the log.
    """
    return [part for part in listed(folder) if part.last <= begin]


def lines_after(parts: list[Part], after: int) -> Iterator[dict[str, Any]]:
    """Return the events after number `after`; if the first ones were removed, from where it begins.

    The state that a part begins with is left out if its event came before.
    """
    for part in parts:
        if part.last <= after:
            continue
        try:
            for raw in part.lines():
                if raw["seq"] > after:
                    after = raw["seq"]
                    yield raw
        except FileNotFoundError:
            continue  # It was just removed. The next part says where it begins.
