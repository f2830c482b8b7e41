"""From the home to where the team lives: one event of the home, decided there. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from bullpen.errors import BullpenError, Conflict, Refused, Unavailable
from bullpen.fleet.bridge.ahead import Ahead
from bullpen.fleet.bridge.remembered import Remembered
from bullpen.fleet.bridge.residents import FIXED_FIELDS, Residents, merged_row
from bullpen.fleet.bridge.task_changes import TaskChanges
from bullpen.protocol.changes import (
    Change,
    DeleteTask,
    Deliver,
    Event,
    MarkMail,
    PutMember,
    PutRequest,
    PutTask,
    PutTeam,
    RemoveMember,
)
from bullpen.protocol.message import Message
from bullpen.protocol.request import Request
from bullpen.protocol.roster import Member
from bullpen.protocol.task import Task
from bullpen.store.base import Mark, View
from bullpen.team import request_rules, rules
from bullpen.team.lookup import owner_of
from bullpen.team.move_rules import refuse_moved
from bullpen.team.roster import leaving


@dataclass(frozen=True, slots=True)
class Refusal:
    """Something that a home did and that did not count. `tell` is who there has to know."""

    what: str
    why: BullpenError
    tell: str | None = None
    # What the home has to be given in place of what it has.
    right: Member | None = None


@dataclass(slots=True)
class Sending:
    """What becomes of one event of a home."""

    event: Event
    remembered: Remembered
    residents: Residents
    now_ms: int
    refusals: list[Refusal] = field(default_factory=list)

    def decide(self, view: View) -> Sequence[Change]:
        """The changes to make, under the rules there. It may run several times.

        Raises:
            Refused: the team was moved to another store (moved).
        """
        refuse_moved(view.team)
        self.refusals = []
        ahead = Ahead(view)
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
        # What an operation of ours did in one commit counts wholly or not at all. What another
        # program did was only seen together.
        return ahead.changes if event.observed or not self.refusals else []

    def _carry(self, ahead: Ahead, change: Change) -> None:
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
            case PutTask() | DeleteTask() | MarkMail():
                pass  # Tasks are looked at together, marks are made by themselves.

    def _refuse(self, ahead: Ahead, change: Change, why: BullpenError) -> None:
        match change:
            case PutMember(member):
                there = ahead.team.member(member.name)
                right = None if there is None else self.residents.row(ahead.team, there)
                self.refusals.append(Refusal(f"member {member.name}", why, right=right))
            case Deliver(to):
                self.refusals.append(Refusal(f"a message to {to}", why))
            case RemoveMember(name):
                self.refusals.append(Refusal(f"member {name}", why))
            case PutRequest(request):
                self.refusals.append(Refusal(f"request {request.id}", why))
            case _:
                self.refusals.append(Refusal("the team", why))

    def _deliver(self, ahead: Ahead, to: str, message: Message) -> None:
        if not self.residents.has(ahead.team, message.sender):
            raise _not_resident(message.sender)
        # A mark of somebody who is elsewhere does not count.
        read = message.read and self.residents.has(ahead.team, to)
        ahead.put(Deliver(to, message.evolve(msg_id=message.id, read=read)))

    def _member(self, ahead: Ahead, member: Member) -> None:
        before = self.remembered.folded.members.get(member.name)
        there = ahead.team.member(member.name)
        self._check_may_change(ahead, member.name)
        if before is None and there is None:
            ahead.put(PutMember(member.evolve(bullpen=None)))
            return
        if there is None:
            raise Refused(f"{member.name!r} has left the team.", reason="not_a_member")
        if before is None:
            raise Conflict(f"There is a member {member.name!r} already.")
        merged = merged_row(there, before, member.raw)
        if merged != there:
            if there.agent is not None:
                raise _is_agent(member.name)
            ahead.put(PutMember(merged))

    def _remove(self, ahead: Ahead, name: str) -> None:
        there = ahead.team.member(name)
        if there is None:
            return
        self._check_may_change(ahead, name)
        if there.is_lead or there.agent is not None:
            raise _is_agent(name)
        ahead.put(*leaving(ahead.team, there))
        for task in rules.released_from(ahead, name, reason=f"{name} left the team"):
            ahead.put(PutTask(task))

    def _check_may_change(self, ahead: Ahead, name: str) -> None:
        """The lead sees to everybody's row, others to their own."""
        lead_is_here = self.residents.lead(ahead.team) is not None
        if not (lead_is_here or self.residents.has(ahead.team, name)):
            raise _not_resident(name)

    def _request(self, ahead: Ahead, request: Request) -> None:
        """Carry a question, its answer, or that what it allowed was done."""
        there = ahead.request(request.id)
        if there == request:
            return
        if self.event.observed:
            raise Refused("No other program makes requests as files.", reason="not_ours")
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
        elif request.state == "expired" and request_rules.is_overdue(there, self.now_ms):
            pass  # It is a no, whoever says it.
        else:
            raise Conflict(f"Request {request.id!r} is {there.state} already.")
        ahead.put(PutRequest(request))

    def _check_resident(self, ahead: Ahead, name: str) -> None:
        if not self.residents.has(ahead.team, name):
            raise _not_resident(name)

    def _carry_tasks(self, ahead: Ahead) -> None:
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
        """The messages, by agent, that came so far in the home.

        What another program took out of an inbox counts as seen: it leaves no other word.
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
        f"{name!r} does not live at this mirror, which speaks for its own members only.",
        reason="not_here",
        remedy="Name the members that live here with --member.",
    )


def _is_agent(name: str) -> Refused:
    return Refused(
        f"The row of {name!r} is kept where that member runs.",
        reason="not_here",
        remedy="Change it there.",
    )
