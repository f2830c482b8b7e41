"""`bullpen notes`: the plan and the other notes of a team."""

from __future__ import annotations

from typing import Annotated

from bullpen.doors.cli.command import examples
from bullpen.doors.cli.options import completion
from bullpen.doors.cli.options.option import argument, option
from bullpen.doors.cli.output.editor import edited
from bullpen.doors.cli.session import Session, text_or_input
from bullpen.errors import Conflict
from bullpen.protocol.clock import iso
from bullpen.protocol.record.note import Note
from bullpen.team.notes import rules
from bullpen.team.notes.operations import NoteVersion
from bullpen.team.snapshot import NoteHead
from bullpen.team.team import Team
from bullpen.view.transcript import moment

Name = Annotated[str, argument("The note, such as plan", "NAME", complete=completion.note_names)]


@examples("bullpen notes list", "bullpen notes list --json")
def list_notes(session: Session) -> None:
    """List the notes of a team, the plan first."""
    found = session.with_team(lambda team: team.notes.list())
    for problem in found.problems:
        session.page.warn(f"{problem.where}: {problem.why}")
    heads = [NoteHead.of(note) for note in found.notes]
    session.page.listing(
        "notes/1",
        {"notes": heads, "problems": found.problems},
        ("note", "version", "author", "written", "bytes"),
        [
            (each.name, str(each.version), each.author, _at(each.time_ms), str(each.bytes))
            for each in heads
        ],
        nothing="No notes yet. Write one: bullpen notes edit plan",
    )


@examples("bullpen notes show plan", "bullpen notes show plan --version 2")
def show(
    session: Session,
    name: Name,
    *,
    version: Annotated[int | None, option("Show this version of it", "N", min=1)] = None,
) -> None:
    """Show a note, or an earlier version of it."""

    async def look(team: Team) -> Note:
        if version is None:
            return await team.notes.read(name)
        versions = await team.notes.history(name)
        return rules.version_of([each.note for each in versions], version)

    note = session.with_team(look)
    if session.page.json:
        session.page.value("note/1", note)
        return
    session.page.title(_head(note))
    session.page.line()
    session.page.block(note.text.rstrip("\n"))


def _head(note: Note) -> str:
    verb = "deleted" if note.is_deleted else "written"
    return f"{note.name}, version {note.version}, {verb} by {note.author} on {_at(note.time_ms)}"


def _at(time_ms: int) -> str:
    return " ".join(moment(iso(time_ms)))


@examples(
    "bullpen notes write plan - < PLAN.md",
    "bullpen notes write plan '# Plan' --over 3",
    "bullpen notes write old-idea '' --over 2",
)
def write(
    session: Session,
    name: Name,
    text: Annotated[str, argument("The whole text; - reads standard input", "TEXT")],
    *,
    over: Annotated[
        int, option("The version you read and replace; 0 for a new note", "N", min=0)
    ] = 0,
) -> None:
    """Write a note over the version you read.

    If somebody else wrote it meanwhile, nothing is changed. An empty text deletes the note; its
    history stays.
    """
    body = text_or_input(text)

    async def put(team: Team) -> Note:
        by, _ = await session.identity.speaks(team)
        return await _written(team, name, body, over=over, by=by)

    _wrote(session, session.with_team(put))


async def _written(team: Team, name: str, text: str, *, over: int, by: str) -> Note:
    try:
        return await team.notes.write(name, text, over=over, by=by)
    except Conflict as error:
        raise Conflict(
            error.message, remedy=f"See what changed: bullpen notes diff {name} --from {over}"
        ) from None


def _wrote(session: Session, note: Note) -> None:
    what = "Deleted" if note.is_deleted else "Wrote"
    session.page.result("note/1", note, f"{what} note {note.name}, version {note.version}.")


@examples("bullpen notes edit plan")
def edit(session: Session, name: Name) -> None:
    """Open a note in your editor.

    If somebody else wrote it meanwhile, your text is printed and nothing is changed.
    """

    async def now(team: Team) -> Note | None:
        return next((note for note in (await team.notes.list()).notes if note.name == name), None)

    before = session.with_team(now)
    over = before.version if before is not None else 0
    text = edited(before.text if before is not None else "", suffix=".md")

    async def put(team: Team) -> Note:
        by, _ = await session.identity.speaks(team)
        return await _written(team, name, text, over=over, by=by)

    try:
        note = session.with_team(put)
    except Conflict:
        session.page.block(text)
        raise
    _wrote(session, note)


@examples("bullpen notes history plan")
def history(session: Session, name: Name) -> None:
    """List who wrote a note, and when."""
    versions = session.with_team(lambda team: team.notes.history(name))
    session.page.listing(
        "note-history/1",
        {"name": name, "versions": [_version(each) for each in versions]},
        ("version", "author", "written", "bytes"),
        [
            (
                str(each.note.version),
                each.note.author,
                _at(each.note.time_ms),
                "deleted" if each.note.is_deleted else str(each.note.size),
            )
            for each in versions
        ],
        nothing="",
    )


def _version(found: NoteVersion) -> dict[str, object]:
    note = found.note
    return {
        "version": note.version,
        "author": note.author,
        "timeMs": note.time_ms,
        "bytes": note.size,
        "seq": found.seq,
    }


@examples("bullpen notes diff plan", "bullpen notes diff plan --from 2 --to 5")
def diff(
    session: Session,
    name: Name,
    *,
    old: Annotated[
        int | None, option("The older version [default: the one before]", "N", "--from", min=0)
    ] = None,
    new: Annotated[int | None, option("The newer version [default: last]", "N", "--to")] = None,
) -> None:
    """Show what changed between two versions."""
    found = session.with_team(lambda team: team.notes.history(name))
    versions = [each.note for each in found]
    after = versions[-1] if new is None else rules.version_of(versions, new)
    number = after.version - 1 if old is None else old
    before = None if number == 0 else rules.version_of(versions, number)
    text = rules.difference(before, after)
    value = {"name": name, "from": number, "to": after.version, "diff": text}
    if session.page.json:
        session.page.value("note-diff/1", value)
    else:
        session.page.block(text.rstrip("\n") or "Both versions have the same text.")
