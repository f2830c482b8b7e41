"""The notes of a team: read, written over a version, and their history. A write is one commit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from bullpen.errors import Unreadable
from bullpen.protocol.changes import Change, PutNote
from bullpen.protocol.record.note import Note, check_note_name, in_order
from bullpen.store.contract import Problem, View
from bullpen.team.notes import rules
from bullpen.team.operation import operation
from bullpen.team.operation.commit import TeamPart


@dataclass(frozen=True, slots=True)
class NoteList:
    """The notes of a team, the plan first, and the files that cannot be read as notes."""

    notes: list[Note]
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class NoteVersion:
    """One version of a note, and the event that brought it."""

    note: Note
    seq: int
    time: str


# A class with a method `list` needs another name for the type.
Versions: TypeAlias = list[NoteVersion]


class Notes(TeamPart):
    """The notes of one team. `by` is the name of the member that acts."""

    @operation
    async def write(self, name: str, text: str, *, over: int, by: str) -> Note:
        """Write a note over the version that the writer read; 0 for a new one.

        An empty text deletes the note.

        Raises:
            Conflict: somebody else wrote it since. Nothing was changed.
            Refused: there would be too many notes (too_many_notes), or too much text
                (notes_too_long).
        """
        now = self._clock()

        def decide(view: View) -> tuple[Note, Sequence[Change]]:
            note = rules.write(view, name, text, over=over, by=by, now_ms=now)
            return note, () if note == view.note(name) else [PutNote(note)]

        return await self._settle(decide, by=by, op="note.write")

    async def list(self) -> NoteList:
        """Return all notes that were not deleted."""
        state = await self._store.read(self._team)
        problems = [each for each in state.problems if "notes" in each.where.split("/")[-2:-1]]
        return NoteList(in_order(state.notes), tuple(problems))

    async def read(self, name: str) -> Note:
        """Return one note. Raises NotFound with the names there are; Unreadable for a bad file."""
        check_note_name(name)
        state = await self._store.read(self._team)
        note = state.notes.get(name)
        if note is None or note.is_deleted:
            for problem in state.problems:
                if problem.where.endswith((f"/notes/{name}.md", f"/notes/{name}.json", "/notes")):
                    raise Unreadable(problem.where, problem.why)
            raise rules.no_note(name, state.notes)
        return note

    async def history(self, name: str) -> Versions:
        """Return the versions of a note that the log has, oldest first, a deletion as empty text.

        Raises NotFound if there is none.
        """
        check_note_name(name)
        found = {
            change.note.version: NoteVersion(change.note, event.seq, event.time)
            for event in await self._store.events(self._team)
            for change in event.changes
            if isinstance(change, PutNote) and change.note.name == name
        }
        if not found:
            raise rules.no_note(name, (await self._store.read(self._team)).notes)
        return [found[number] for number in sorted(found)]

    async def changes_since(self, name: str, version: int) -> str:
        """Return a diff from one version of a note to its last, for who has to merge."""
        versions = [each.note for each in await self.history(name)]
        old = next((note for note in versions if note.version == version), None)
        return rules.difference(old, versions[-1])
