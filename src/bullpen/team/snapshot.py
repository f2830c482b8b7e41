"""A team at one moment: what its members do, what is waiting and what is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from bullpen.errors import BullpenError, Unavailable
from bullpen.protocol.presence import ENDED, AgentState, Presence
from bullpen.protocol.record.note import Note, in_order
from bullpen.protocol.request import Request
from bullpen.protocol.task import Task
from bullpen.protocol.team import Member, TeamConfig
from bullpen.store.contract import Problem, Store, TeamState
from bullpen.team.lookup import owner_of
from bullpen.team.requests.operations import open_requests

MemberState = AgentState | Literal["unknown"]


@dataclass(frozen=True, slots=True)
class MemberView:
    """A member and what is known about it.

    `tasks` are the ids it has in progress. `unread` is None if its mailbox cannot be read.
    """

    member: Member
    state: MemberState
    since_ms: int | None
    detail: str | None
    tasks: tuple[str, ...]
    unread: int | None


@dataclass(frozen=True, slots=True)
class NoteHead:
    """A note without its text."""

    name: str
    version: int
    author: str
    time_ms: int
    bytes: int

    @classmethod
    def of(cls, note: Note) -> NoteHead:
        """Return the head of a note."""
        return cls(note.name, note.version, note.author, note.time_ms, note.size)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A team at one moment. Snapshots are equal if they show the same, whenever they were taken."""

    team: TeamConfig
    members: tuple[MemberView, ...]
    tasks: tuple[Task, ...]
    pending: tuple[Request, ...]
    seq: int
    taken_ms: int = field(compare=False)
    problems: tuple[Problem, ...] = ()
    # The plan first.
    notes: tuple[NoteHead, ...] = ()


async def take(store: Store, team: str, *, now_ms: int) -> Snapshot:
    """Take a snapshot of a team."""
    state = await store.read(team)
    presence: Mapping[str, Presence] = {}
    unseen: tuple[Problem, ...] = ()
    try:
        presence = await store.presence(team)
    except Unavailable as error:
        # Who works is news; what a team has is not known any less without it.
        unseen = (Problem("who is present", str(error)),)
    names = [member.name for member in state.team.roster]
    mail = await store.unread(team, names)
    taken = assemble(state, presence, mail, now_ms=now_ms)
    return replace(taken, problems=(*taken.problems, *unseen))


def assemble(
    state: TeamState,
    presence: Mapping[str, Presence],
    mail: Mapping[str, int | BullpenError],
    *,
    now_ms: int,
) -> Snapshot:
    """Build a snapshot from what was read. Pure."""
    tasks = tuple(task for task in state.tasks.values() if not task.is_internal)
    working: dict[str | None, list[str]] = {}
    for task in tasks:
        if task.status == "in_progress":
            working.setdefault(owner_of(task, state.team.name), []).append(task.id)
    unread_mail = {
        name: None if isinstance(count, BullpenError) else count for name, count in mail.items()
    }
    problems = [
        Problem(f"the mailbox of {name!r}", error.message)
        for name, error in mail.items()
        if isinstance(error, BullpenError)
    ]
    members = tuple(
        member_view(
            member,
            presence.get(member.name),
            tuple(working.get(member.name, ())),
            unread_mail[member.name],
            now_ms,
        )
        for member in state.team.roster
    )
    return Snapshot(
        team=state.team,
        members=members,
        tasks=tasks,
        pending=tuple(open_requests(state.requests.values(), now_ms)),
        seq=state.seq,
        taken_ms=now_ms,
        problems=(*state.problems, *problems),
        notes=tuple(map(NoteHead.of, in_order(state.notes))),
    )


def member_view(
    member: Member,
    beat: Presence | None,
    tasks: tuple[str, ...],
    unread_mail: int | None,
    now_ms: int,
) -> MemberView:
    """Return a member and its current state by its last heartbeat. Pure."""
    if beat is None:
        return MemberView(member, "unknown", None, None, tasks, unread_mail)
    ended = beat.state in ENDED
    if ended or beat.alive(now_ms):
        return MemberView(member, beat.state, beat.since_ms, beat.detail, tasks, unread_mail)
    # It did not report its end, so it is lost since its last heartbeat.
    return MemberView(member, "lost", beat.beat_ms, beat.detail, tasks, unread_mail)
