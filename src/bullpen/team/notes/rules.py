"""What may become the next version of a note, and what of the notes is news. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from bullpen.errors import Conflict, Invalid, NotFound, Refused
from bullpen.protocol.record.note import NOTES_MAX, Note, check_note_name, in_order, order_of
from bullpen.store.contract import View
from bullpen.store.record_checks import check_note
from bullpen.team.lookup import among

ALL_BYTES_MAX = 512 * 1024
"""How long all notes of a team can be together."""


def tidied(text: str) -> str:
    """Return a text as notes are kept: it ends with one line end, and blanks alone are nothing."""
    stripped = text.rstrip()
    return f"{stripped}\n" if stripped else ""


def write(view: View, name: str, text: str, *, over: int, by: str, now_ms: int) -> Note:
    """Return the next version of a note: this text, written over version `over` of it.

    The version of a note that does not exist, or no more, is 0. An empty text deletes the note.

    Raises:
        Conflict: the note has another version by now.
        Invalid: the name or the text cannot be that of a note.
        Refused: the team would have too many notes (too_many_notes), or too much text in them
            (notes_too_long).
        NotFound: a note that does not exist was to be deleted.
    """
    check_note_name(name)
    before, text = view.note(name), tidied(text)
    version = before.version if before is not None else 0
    is_new = over == 0 and before is not None and before.is_deleted
    if over != version and not is_new:
        raise stale(name, over, before)
    if not text and (before is None or before.is_deleted):
        raise no_note(name, view.notes())
    if before is not None and before.text == text:
        return before
    note = (before or Note.new(name=name, text="", version=0, author=by, time_ms=now_ms)).evolve(
        text=text, version=version + 1, author=by, time_ms=now_ms
    )
    check_note(note)
    _check_room(note, view.notes())
    return note


def _check_room(note: Note, notes: Mapping[str, Note]) -> None:
    others = {name: each for name, each in notes.items() if name != note.name}
    if note.name not in notes and len(others) >= NOTES_MAX:
        raise Refused(
            f"The team has had {NOTES_MAX} notes, and cannot have one more.",
            reason="too_many_notes",
            remedy="Write into another note. The name of a deleted one can be used again.",
        )
    size = sum(each.size for each in others.values())
    if note.text and size + note.size > ALL_BYTES_MAX:
        raise Refused(
            f"All notes together would have {size + note.size} bytes. The limit is "
            f"{ALL_BYTES_MAX}.",
            reason="notes_too_long",
            remedy="Shorten or delete notes that nobody needs any more.",
        )


def stale(name: str, over: int, now: Note | None) -> Conflict:
    """Return the error for a text that was written over a version that is not the last."""
    if now is None:
        return Conflict(
            f"Note {name!r} has no version {over}: it does not exist yet.",
            remedy="Write it over version 0.",
        )
    what = "was deleted" if now.is_deleted else "was written"
    return Conflict(
        f"Note {name!r} {what} by {now.author} meanwhile: it has version {now.version}, and this "
        f"text was written over version {over}. Nothing was changed.",
        remedy=f"Read version {now.version}, merge both texts and write over version "
        f"{now.version}.",
    )


def no_note(name: str, notes: Mapping[str, Note]) -> NotFound:
    """Return the error for a note that does not exist."""
    return NotFound(
        f"The team has no note {name!r}.",
        remedy=among(name, [note.name for note in in_order(notes)], what="notes"),
    )


def changed(notes: Mapping[str, Note], seen: Mapping[str, int], reader: str) -> list[Note]:
    """Return the notes that others wrote since the reader saw these versions, the plan first."""
    found = [
        note
        for name, note in notes.items()
        if note.version > seen.get(name, 0)
        and note.author != reader
        and not (note.is_deleted and name not in seen)
    ]
    return sorted(found, key=lambda note: order_of(note.name))


def difference(old: Note | None, new: Note) -> str:
    """Return a unified diff of two versions of a note; empty if their texts are equal."""
    lines = difflib.unified_diff(
        [] if old is None else old.text.splitlines(),
        new.text.splitlines(),
        f"{new.name} version {0 if old is None else old.version}",
        f"{new.name} version {new.version} by {new.author}",
        lineterm="",
    )
    return "".join(f"{line}\n" for line in lines)


def version_of(versions: list[Note], number: int) -> Note:
    """Return one version of a note. Raises Invalid with the numbers there are."""
    for note in versions:
        if note.version == number:
            return note
    numbers = ", ".join(str(note.version) for note in versions[-8:]) or "none"
    raise Invalid(
        f"The log has no version {number} of this note.", remedy=f"The last ones are: {numbers}."
    )
