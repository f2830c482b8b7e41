"""Hidden marks in what we write to a forge, by which a write is known again after a kill. Pure.

A mark names the team, the task, the kind of the write and its number, with a code that only the key
of this home makes. It counts only at the end of a text whose author is the account of the token: a
copy of it in the text of somebody else is nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeVar

from bullpen.protocol.forge import WriteKind

T = TypeVar("T")

MarkKind = WriteKind | Literal["review"]
"""What was written: a write of a task or a night, or a review that a person had posted."""

_CODE_LENGTH = 32
_PART_MAX = 100
_PLAIN = re.compile(r"[A-Za-z0-9._]")
_MARK = re.compile(
    r"<!-- bullpen:([A-Za-z0-9._%-]+)/([A-Za-z0-9._%-]+)/([a-z_]+)/([1-9][0-9]{0,8})"
    rf":([0-9a-f]{{{_CODE_LENGTH}}}) -->\s*\Z"
)


@dataclass(frozen=True, slots=True)
class Mark:
    """Which write a text is: of a team and a task, in a repository HOST/OWNER/NAME."""

    repository: str
    team: str
    task: str
    kind: MarkKind
    n: int


def marker(mark: Mark, key: bytes) -> str:
    """Return the last line of the text that a write makes."""
    path = f"{_part(mark.team)}/{_part(mark.task)}/{mark.kind}/{mark.n}"
    return f"<!-- bullpen:{path}:{_code(mark, key)} -->"


def marked(body: str, mark: Mark, key: bytes) -> str:
    """Return a text with its marker at its end."""
    return f"{body.rstrip()}\n\n{marker(mark, key)}"


def has_mark(body: str, mark: Mark, key: bytes) -> bool:
    """Return whether a text ends with this mark. Whose text it is must be asked too: `find`."""
    found = _MARK.search(body)
    if found is None:
        return False
    path = (_part(mark.team), _part(mark.task), mark.kind, str(mark.n))
    return found.groups()[:4] == path and hmac.compare_digest(found[5], _code(mark, key))


def find(texts: Iterable[tuple[str, str, T]], mark: Mark, key: bytes, *, account: str) -> T | None:
    """Return what a write made, from texts with their authors; None if none of ours has the mark.

    Of several, the first one counts.
    """
    own = account.casefold()
    for author, body, made in texts:
        if author.casefold() == own and has_mark(body, mark, key):
            return made
    return None


def _code(mark: Mark, key: bytes) -> str:
    said = json.dumps([mark.repository, mark.team, mark.task, mark.kind, mark.n])
    return hmac.new(key, said.encode(), hashlib.sha256).hexdigest()[:_CODE_LENGTH]


def _part(name: str) -> str:
    """Return a name as it is in a mark. The code is of the name as it is."""
    written = "".join(
        char if _PLAIN.match(char) else "".join(f"%{byte:02X}" for byte in _bytes(char))
        for char in name[:_PART_MAX]
    )
    return written[:_PART_MAX] or "%"


def _bytes(char: str) -> bytes:
    return char.encode("utf-8", "surrogatepass")
