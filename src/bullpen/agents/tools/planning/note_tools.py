"""Tools for the team's notes: texts that all members share, each written over a known version."""

from __future__ import annotations

from pydantic import Field

from bullpen.agents.contracts.desk import TeamDesk
from bullpen.agents.contracts.tool import Tool, ToolInput
from bullpen.agents.tools.documented_tool import documented
from bullpen.agents.tools.outside_text.harmless import attribute, harmless, one_line
from bullpen.errors import Conflict
from bullpen.protocol.clock import iso
from bullpen.protocol.record.note import OTHER_PROGRAM, Note

_AUTHOR_MAX = 64
_DIFF_MAX = 8_000


class NotesReadInput(ToolInput):
    """Input of NotesRead."""

    name: str | None = Field(None, description="Such as plan; without it, all are listed")


class NotesWriteInput(ToolInput):
    """Input of NotesWrite."""

    name: str = Field(description="Small letters, digits, - and _; plan is the team's plan")
    text: str = Field(description="The whole new text, Markdown; empty deletes the note")
    version: int = Field(0, ge=0, description="The version you read and replace; 0 for a new note")


async def _read(given: NotesReadInput, desk: TeamDesk) -> str:
    """Read a note of the team, or list them: the plan, interfaces, decisions."""
    notes = desk.team.notes
    if given.name is not None:
        return framed(await notes.read(given.name.strip()))
    listing = await notes.list()
    lines = [f"{note.name}: {head_of(note)}, {note.size} bytes" for note in listing.notes]
    lines += [f"Cannot read {problem.where}: {problem.why}" for problem in listing.problems]
    return "\n".join(lines) or "The team has no notes yet. NotesWrite makes one."


def head_of(note: Note) -> str:
    """The version of a note and who wrote it, on one line."""
    return f"version {note.version} by {one_line(note.author, _AUTHOR_MAX)}"


def framed(note: Note) -> str:
    """A note in a frame that its text cannot break out of."""
    stranger = ' verified="false"' if note.author == OTHER_PROGRAM else ""
    author = attribute(note.author, _AUTHOR_MAX)
    head = f'name="{note.name}" version="{note.version}" author="{author}"{stranger}'
    time = iso(note.time_ms)
    return f'<team-note {head} time="{time}">\n{harmless(note.text.rstrip())}\n</team-note>'


async def _write(given: NotesWriteInput, desk: TeamDesk) -> str:
    """Write a note of the team over the version that you read. If somebody else wrote it
    meanwhile, nothing is changed and you get what they changed: merge it, then write again.
    """
    notes, name = desk.team.notes, given.name.strip()
    try:
        note = await notes.write(name, given.text, over=given.version, by=desk.agent)
    except Conflict as error:
        diff = harmless(await notes.changes_since(name, given.version)).rstrip()
        if not diff:
            raise
        if len(diff) > _DIFF_MAX:
            diff = f"{diff[:_DIFF_MAX]}\n[cut; NotesRead shows the whole note]"
        raise Conflict(
            f"{error.message}\n<team-note-changes>\n{diff}\n</team-note-changes>",
            remedy=error.remedy,
        ) from None
    if note.is_deleted:
        return f"Deleted note {note.name}. Its versions stay in the history."
    return f"Wrote note {note.name}, now version {note.version}."


NOTE_TOOLS: tuple[Tool[TeamDesk], ...] = (
    documented("NotesRead", NotesReadInput, "team", _read),
    documented("NotesWrite", NotesWriteInput, "team", _write),
)
