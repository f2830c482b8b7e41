"""A note of a team: a named Markdown text that all members share. Bullpen's own record."""

from __future__ import annotations

import re
from collections.abc import Mapping

from bullpen.errors import Invalid
from bullpen.protocol.record import Wire, field

PLAN = "plan"
"""The name of the note with the team's plan, which is shown first."""

NOTE_BYTES_MAX = 64 * 1024
"""The longest text of a note, in UTF-8."""

NOTES_MAX = 200
"""How many names of notes a team can have, those of deleted ones too."""

OTHER_PROGRAM = "another program"
"""The author of a version that another program wrote into the note's file. Never a member."""

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


class Note(Wire):
    """One version of a note. A note with an empty text was deleted; its versions go on."""

    name: str = field(min_length=1)
    text: str
    # Counts from 1, also past a deletion: no two texts of one note have the same number.
    version: int
    author: str = field(min_length=1)
    time_ms: int

    @property
    def is_deleted(self) -> bool:
        """Return whether this version deleted the note."""
        return not self.text

    @property
    def size(self) -> int:
        """Return the length of the text in UTF-8, as it is on disk."""
        return len(self.text.encode("utf-8", "surrogatepass"))


def is_note_name(name: str) -> bool:
    """Return whether a note can have that name, and so that file."""
    return _NAME.fullmatch(name) is not None


def check_note_name(name: str) -> str:
    """Return `name` if a note can have it. Raises Invalid."""
    if not is_note_name(name):
        raise Invalid(
            f"{name!r} is not a valid name for a note.",
            remedy="Use 1 to 64 small letters, digits, '_' or '-', starting with a letter or "
            "digit, such as plan or api-design.",
        )
    return name


def order_of(name: str) -> tuple[bool, str]:
    """Return the sort key of a note: the plan first, then by name."""
    return (name != PLAN, name)


def in_order(notes: Mapping[str, Note]) -> list[Note]:
    """Return the notes that there are, the plan first."""
    there = [note for note in notes.values() if not note.is_deleted]
    return sorted(there, key=lambda note: order_of(note.name))
