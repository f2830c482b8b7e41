"""The last events of a long log, after one that stands for all before them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bullpen.protocol.changes import (
    Change,
    Deliver,
    Event,
    MarkMail,
    PutMember,
    PutNote,
    PutRequest,
    PutTask,
    PutTeam,
)
from bullpen.protocol.clock import iso
from bullpen.protocol.team import Member
from bullpen.store.contract import Mailbox, TeamState
from bullpen.store.events.checkpoint import BEGIN
from bullpen.store.events.concerns import record_of

RECENT_EVENTS = 2_000
"""How many events show what happened lately. A shorter log is read as a whole."""


def with_begin(
    events: Sequence[Event], state: TeamState, boxes: Mapping[str, Mailbox]
) -> list[Event]:
    """Return events after one that has the rest of the team, so replaying them gives the team.

    `state` is the team now, or at any event of these; `boxes` are its mailboxes, by member. A
    record that one of the events writes or removes is left to them: how it was before would be far
    back in the log. Of such a member the first event has only who it is.
    """
    first = events[0]
    written = {record_of(change) for event in events for change in event.changes}
    records: list[Change] = [
        *(PutTask(task) for task in state.tasks.values()),
        *(PutRequest(request) for request in state.requests.values()),
        *(PutNote(note) for note in state.notes.values()),
        *(Deliver(agent, entry.message) for agent, box in boxes.items() for entry in box.entries),
    ]
    left: list[Change] = [PutTeam(state.team.header)]
    for member in state.team.roster:
        if ("member", member.name) not in written:
            left.append(PutMember(member))
        elif iso(int(member.joined_at or 0)) <= first.time:
            who = {key: value for key, value in member.raw.items() if key != "bullpen"}
            left.append(PutMember(Member.parse(who)))
    left += [change for change in records if record_of(change) not in written]
    for agent, box in boxes.items():
        injected = tuple(entry.id for entry in box.entries if entry.state == "injected")
        if injected:
            left.append(MarkMail(agent, injected, "injected"))
    return [Event(first.seq - 1, first.time, "bullpen", BEGIN, tuple(left)), *events]
