"""From the home to the team's store: one event of the home, decided there. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from bullpen.errors import BullpenError, Conflict, Refused, Unavailable
from bullpen.fleet.mirror.home_log import HomeLog
from bullpen.fleet.mirror.pending_view import PendingView
from bullpen.fleet.mirror.residents import FIXED_FIELDS, Residents, merged_row
from bullpen.fleet.mirror.task_changes import TaskChanges
from bullpen.protocol.changes import (
    Change,
    DeleteTask,
    Deliver,
    Event,
    MarkMail,
    PutMember,
    PutNote,
    PutRequest,
    PutTask,
    PutTeam,
    RemoveMember,
    RemoveRequest,
)
from bullpen.protocol.message import Message
from bullpen.protocol.names import LEAD
from bullpen.protocol.record.note import Note
from bullpen.protocol.request import Request
from bullpen.protocol.task import Task
from bullpen.protocol.team import Member
from bullpen.store.contract import Mark, View
from bullpen.team.lookup import owner_of
from bullpen.team.operation.commit import refuse_moved
from bullpen.team.requests import rules as request_rules
from bullpen.team.roster import leaving
from bullpen.team.tasks import rules


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refused change of a home. `tell` is the member to be told."""

    what: str
    why: BullpenError
    tell: str | None = None
    # What the home has to get instead.
    right: Member | None = None


@dataclass(slots=True)
class Sending:
    """The result of one event of a home."""

    event: Event
    remembered: HomeLog
    residents: Residents
    now_ms: int
    refusals: list[Refusal] = field(default_factory=list)

    def decide(self, view: View) -> Sequence[Change]:
        """Return the changes to make, under the rules there. It may run several times.

        Raises Refused if the team was moved to another store (moved).
        """
        refuse_moved(view.team)
        self.refusals = []
        ahead = PendingView(view)
        event = self.event
        if not event.observed and not self.residents.has(view.team, event.actor):
            self.refusals.append(Refusal(event.op, _not_resident(event.actor)))
            return []
        for change in event.changes:
            try:
                self._carry(ahead, change)
            except Unavailable:
                raise
            except BullpenError as error:
                self._refuse(ahead, change, error)
        self._carry_tasks(ahead)
        # A commit of Bullpen counts completely or not at all. Another program's changes were only
        # observed together.
        return ahead.changes if event.observed or not self.refusals else []

    def _carry(self, ahead: PendingView, change: Change) -> None:
        match change:
            case Deliver(to, message):
                self._deliver(ahead, to, message)
            case PutMember(member):
                self._member(ahead, member)
            case RemoveMember(name):
                self._remove(ahead, name)
            case PutTeam(fields):
                if self.residents.lead(ahead.team) is None:
                    raise _not_resident("the lead")
                allowed = {key: fields[key] for key in fields if key not in FIXED_FIELDS}
                if allowed:
                    ahead.put(PutTeam(allowed))
            case PutRequest(request):
                self._request(ahead, request)
            case PutNote(note):
                self._note(ahead, note)
            case PutTask() | DeleteTask() | MarkMail() | RemoveRequest():
                # Tasks are handled together, marks on their own; the team forgets by itself.
                pass

    def _refuse(self, ahead: PendingView, change: Change, why: BullpenError) -> None:
        what, right = "the team", None
        match change:
            case PutMember(member):
                there = ahead.team.member(member.name)
                right = None if there is None else self.residents.row(ahead.team, there)
                what = f"member {member.name}"
            case Deliver(to):
                what = f"a message to {to}"
            case RemoveMember(name):
                what = f"member {name}"
            case PutRequest(request):
                what = f"request {request.id}"
            case PutNote(note):
                what = f"note {note.name}"
        self.refusals.append(Refusal(what, why, right=right))

    def _deliver(self, ahead: PendingView, to: str, message: Message) -> None:
        self._check_resident(ahead, message.sender)
        # A mark of a member who is elsewhere does not count.
        read = message.read and self.residents.has(ahead.team, to)
        # Any program can write to a home, so nothing there proves that a person speaks.
        ahead.put(Deliver(to, message.evolve(msg_id=message.id, read=read, bullpen=None)))

    def _member(self, ahead: PendingView, member: Member) -> None:
        before = self.remembered.folded.members.get(member.name)
        there = ahead.team.member(member.name)
        self._check_may_change(ahead, member.name)
        if before is None and there is None:
            ahead.put(PutMember(member.evolve(bullpen=None)))
            return
        if there is None:
            raise Refused(
                f"{member.name!r} has left the team.",
                reason="not_a_member",
                remedy="Add it again under another name.",
            )
        if before is None:
            raise Conflict(
                f"The team already has a member {member.name!r}.", remedy="Choose another name."
            )
        merged = merged_row(there, before, member.raw)
        if merged != there:
            if there.agent is not None:
                raise _is_agent(member.name)
            ahead.put(PutMember(merged))

    def _remove(self, ahead: PendingView, name: str) -> None:
        there = ahead.team.member(name)
        if there is None:
            return
        self._check_may_change(ahead, name)
        if there.is_lead or there.agent is not None:
            raise _is_agent(name)
        ahead.put(*leaving(ahead.team, there))
        for task in rules.released_from(ahead, name, reason=f"{name} left the team"):
            ahead.put(PutTask(task))

    def _check_may_change(self, ahead: PendingView, name: str) -> None:
        """Refuse a change to another member's entry, except by the lead."""
        if self.residents.lead(ahead.team) is None:
            self._check_resident(ahead, name)

    def _request(self, ahead: PendingView, request: Request) -> None:
        """Carry a request, its answer, or the use of its permission."""
        there = ahead.request(request.id)
        if there == request:
            return
        if self.event.observed:
            raise Refused(
                "Only Bullpen itself makes requests as files.",
                reason="not_ours",
                remedy="Send a message to the lead instead.",
            )
        if there is None:
            request_rules.check_ask(ahead.team, by=request.sender, to=request.to)
            self._check_resident(ahead, request.sender)
        elif there.state == "pending" and request.state in ("approved", "denied"):
            by = request.answered_by or ""
            self._check_resident(ahead, by)
            voice = request.voice or "agent"
            request_rules.check_answer(there, ahead.team, by=by, voice=voice, digest=request.digest)
        elif there == request.evolve(used_ms=None):
            self._check_resident(ahead, request.sender)
        elif there.state == "pending" and there == request.evolve(deadline_ms=there.deadline_ms):
            # Its side's clock was set, or its machine slept.
            if not self.residents.has(ahead.team, LEAD):
                self._check_resident(ahead, request.sender)
        elif request.state == "expired" and request_rules.is_overdue(there, self.now_ms):
            pass  # It is a no, whoever says it.
        else:
            raise Conflict(
                f"Request {request.id!r} is already {there.state}.",
                remedy="Make a new request to ask again.",
            )
        ahead.put(PutRequest(request))

    def _note(self, ahead: PendingView, note: Note) -> None:
        """Carry a version of a note, if it is the one after the team's."""
        there = ahead.note(note.name)
        if there == note:
            return
        if note.version != (there.version if there else 0) + 1:
            raise Conflict(
                f"Note {note.name!r} was changed in the team at the same time.",
                remedy="Its text here is in the history of the note. Write it again, merged.",
            )
        ahead.put(PutNote(note))

    def _check_resident(self, ahead: PendingView, name: str) -> None:
        if not self.residents.has(ahead.team, name):
            raise _not_resident(name)

    def _carry_tasks(self, ahead: PendingView) -> None:
        after = [change.task for change in self.event.changes if isinstance(change, PutTask)]
        known = self.remembered.folded.tasks
        before = {task.id: Task.parse(known[task.id]) for task in after if task.id in known}
        tasks = TaskChanges(ahead, self.residents, self.now_ms, trusted=not self.event.observed)
        tasks.carry(before, after)
        deleted = [each.task_id for each in self.event.changes if isinstance(each, DeleteTask)]
        for task_id in deleted:
            if not self.remembered.dismisses(self.event, task_id):
                tasks.delete(task_id)
        owners = {task.id: owner_of(task, ahead.team.name) for task in after}
        for task_id, why in tasks.refused:
            owner = owners.get(task_id)
            here = owner is not None and self.residents.has(ahead.team, owner)
            known_here = here and ahead.team.member(owner or "") is not None
            self.refusals.append(
                Refusal(f"task {task_id}", why, tell=owner if known_here else None)
            )

    def marks(self, mark: Mark) -> dict[str, list[str]]:
        """Return the messages, by agent, that have arrived in the home.

        A message that another program removed from an inbox counts as seen: there is no other sign.
        """
        found: dict[str, list[str]] = {}
        for change in self.event.changes:
            if isinstance(change, MarkMail):
                reached: Mark = "injected" if change.state == "injected" else "seen"
                if reached == mark:
                    found.setdefault(change.agent, []).extend(change.ids)
        return found


def _not_resident(name: str) -> Refused:
    return Refused(
        f"{name!r} does not live at this mirror, which only acts for its own members.",
        reason="not_here",
        remedy="Name the members that live here with --member.",
    )


def _is_agent(name: str) -> Refused:
    return Refused(
        f"The entry of {name!r} is kept where that member runs.",
        reason="not_here",
        remedy="Change it there.",
    )
