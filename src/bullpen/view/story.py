"""The story of a team, from its log: states of members over time, messages, news and costs. Pure.

It is told event by event: following a team costs only what is new, and a story told up to an event
shows the team as it was then.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from bullpen.protocol import changes
from bullpen.protocol.agent import AgentFacts, Usage
from bullpen.protocol.changes import (
    Event,
)
from bullpen.protocol.clock import ms_of
from bullpen.protocol.message import DeliveryState, Message
from bullpen.protocol.names import LEAD
from bullpen.protocol.payloads import PermissionResponse, PlanApprovalResponse, payload_of
from bullpen.protocol.record.note import Note
from bullpen.protocol.request import Request
from bullpen.protocol.task import Task
from bullpen.protocol.team import Member, TeamConfig
from bullpen.store.events.checkpoint import BEGIN, is_begin
from bullpen.store.events.fold import Folded, apply
from bullpen.team.snapshot import MemberState, Snapshot
from bullpen.view.news import addressed, answer_words, answered_by, news, sender_of

_FURTHER: dict[DeliveryState, int] = {
    "stored": 0, "injected": 1, "seen": 2, "consumed": 3, "archived": 4,
}  # fmt: skip


@dataclass(slots=True)
class Span:
    """A time in which a member was in one state; without an end it is still going on."""

    state: MemberState
    from_ms: int
    to_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Said:
    """A message as it was sent, to one member or to many at once."""

    seq: int
    at_ms: int
    sender: str
    to: tuple[str, ...]
    message: Message
    # The kind of a notice, such as `idle_notification`; None for a message that somebody wrote.
    kind: str | None = None


@dataclass(frozen=True, slots=True)
class NewsItem:
    """Something that happened, in words."""

    seq: int
    at_ms: int
    text: str


@dataclass(frozen=True, slots=True)
class SpendingOverTime:
    """What the whole team had used at one moment."""

    at_ms: int
    usd: float
    tokens: int


@dataclass(slots=True)
class _Life:
    """What the log says about one member."""

    state: MemberState = "unknown"
    since_ms: int | None = None
    at_work: bool = False
    used: tuple[float, int] = (0.0, 0)


class Story:
    """A team as its log says, up to the last event told."""

    def __init__(self) -> None:
        self._folded: Folded[Any] = Folded()
        self._lives: dict[str, _Life] = {}
        self._asked: dict[str, set[str]] = {}
        self._left: tuple[float, int] = (0.0, 0)
        self._config: TeamConfig | None = None
        # Without the log, there are no messages, no news and no times.
        self.has_log = True
        self.began_ms: int | None = None
        self.at_ms = 0
        self.said: list[Said] = []
        self.told: list[NewsItem] = []
        self.spans: dict[str, list[Span]] = {}
        self.spending: list[SpendingOverTime] = []
        # When a task last changed its status or its owner.
        self.moved_ms: dict[str, int] = {}

    @property
    def seq(self) -> int:
        return self._folded.seq

    @property
    def tasks(self) -> dict[str, Task]:
        return self._folded.tasks

    @property
    def requests(self) -> dict[str, Request]:
        """All requests, open and answered, by id."""
        return self._folded.requests

    @property
    def notes(self) -> dict[str, Note]:
        """The last version of every note by name, deleted ones too."""
        return self._folded.notes

    @property
    def members(self) -> dict[str, Member]:
        """The members by name, in the order in which they joined."""
        return self._folded.members

    @property
    def team(self) -> TeamConfig:
        if self._config is None:
            rows = [member.raw for member in self.members.values()]
            self._config = TeamConfig.parse({**self._folded.team, "members": rows})
        return self._config

    def shown_name(self, name: str) -> str:
        """The name of a member for a screen: `you` for the lead, unless a program leads."""
        lead = self.members.get(LEAD) if name == LEAD else None
        return "you" if lead is not None and lead.agent is None and not lead.model else name

    def shown_route(self, said: Said) -> str:
        """Who sent a message to whom, for a screen."""
        return f"{self.shown_sender(said)} to {', '.join(map(self.shown_name, said.to))}"

    def shown_sender(self, said: Said) -> str:
        """Who sent a message, for a screen: `you` if a person wrote it as the lead."""
        return self.shown_name(sender_of(said.message))

    def answer_of(self, said: Said) -> tuple[str, str] | None:
        """Who answered a request with this message, and how; None if it is no known answer.

        A person answers in the name of the lead: only the request says so.
        """
        if said.kind is None:
            return None
        payload = payload_of(said.message.text)
        if not isinstance(payload, PermissionResponse | PlanApprovalResponse):
            return None
        request = self.requests.get(payload.request_id or "")
        if request is None or request.state not in ("approved", "denied"):
            return None
        return self.shown_name(answered_by(request) or said.sender), answer_words(request)

    def shown_news(self, item: NewsItem) -> str:
        return addressed(item.text) if self.shown_name(LEAD) != LEAD else item.text

    def state_of(self, name: str) -> tuple[MemberState, int | None]:
        """The state of a member and since when, as far as the log says."""
        life = self._lives.get(name)
        return ("unknown", None) if life is None else (life.state, life.since_ms)

    def unread(self, name: str) -> int:
        states = self._folded.mail.get(name, {}).values()
        return sum(_FURTHER[state] < _FURTHER["seen"] for state in states)

    def delivery(self, said: Said) -> DeliveryState:
        """The delivery state of a message: the least of all its recipients."""
        states = [self._folded.mail.get(to, {}).get(said.message.id, "consumed") for to in said.to]
        return min(states, key=lambda state: _FURTHER[state], default="stored")

    def copied(self) -> Story:
        """A copy that can be told further. The records are shared: nothing changes them."""
        other = Story()
        mine = self._folded
        other._folded = replace(
            mine,
            members=dict(mine.members),
            tasks=dict(mine.tasks),
            requests=dict(mine.requests),
            notes=dict(mine.notes),
            mail={name: dict(box) for name, box in mine.mail.items()},
        )
        other._lives = {name: replace(life) for name, life in self._lives.items()}
        other._asked = {name: set(ids) for name, ids in self._asked.items()}
        other._left, other._config = self._left, self._config
        other.began_ms, other.at_ms = self.began_ms, self.at_ms
        other.said, other.told = list(self.said), list(self.told)
        # Only the last span can still get an end.
        other.spans = {
            name: [*spans[:-1], *(replace(span) for span in spans[-1:])]
            for name, spans in self.spans.items()
        }
        other.spending, other.moved_ms = list(self.spending), dict(self.moved_ms)
        return other

    def tell(self, events: Iterable[Event]) -> None:
        """Tell these events too. Raises ValueError if one is missing or comes twice."""
        for event in events:
            self._tell(event)

    def _tell(self, event: Event) -> None:
        before = {
            change.task.id: self.tasks.get(change.task.id)
            for change in event.changes
            if isinstance(change, changes.PutTask)
        }
        begins = is_begin(event, self.seq)
        apply(self._folded, event, keep=lambda record: record)
        # Times never go back, also if a clock was set back.
        self.at_ms = max(self.at_ms, ms_of(event.time) or 0)
        if self.began_ms is None:
            self.began_ms = self.at_ms
        if begins:
            text = f"history up to event {event.seq} is not shown here"
            self.told.append(NewsItem(event.seq, self.at_ms, text))
            self._record_earlier_messages(event)
        else:
            self.told += (NewsItem(event.seq, self.at_ms, text) for text in news(event))
            self._record_messages(event)
        spent = False
        for change in event.changes:
            spent |= isinstance(change, changes.PutMember | changes.RemoveMember | changes.PutTeam)
            match change:
                case changes.PutTask(task):
                    old = before.get(task.id)
                    if old is None or (old.status, old.owner) != (task.status, task.owner):
                        self.moved_ms[task.id] = self.at_ms
                case changes.PutMember(member):
                    self._config = None
                    self._member(event.op, member)
                case changes.RemoveMember(name):
                    self._config = None
                    self._enter(name, "stopped")
                    self._lives.pop(name, None)
                case changes.PutTeam():
                    self._config = None
                    self._left = _sum(row.usage for row in self.team.facts.spent)
                case changes.PutRequest(request):
                    self._request(request)
        if spent:
            self._spend()

    def _record_messages(self, event: Event) -> None:
        """Record a message once, also if several members got it."""
        sent: dict[str, tuple[Message, list[str]]] = {}
        for change in event.changes:
            if isinstance(change, changes.Deliver):
                message = change.message
                key = f"{message.sender}\0{message.text}"
                sent.setdefault(key, (message, []))[1].append(change.to)
        for message, to in sent.values():
            self._said(event.seq, self.at_ms, message, to)

    def _record_earlier_messages(self, event: Event) -> None:
        """Record the messages that a log begins with, at the times when they were sent."""
        sent: dict[str, tuple[Message, list[str]]] = {}
        for change in event.changes:
            if isinstance(change, changes.Deliver):
                sent.setdefault(change.message.id, (change.message, []))[1].append(change.to)
        rows = [(ms_of(message.timestamp or "") or 0, message, to) for message, to in sent.values()]
        for at_ms, message, to in sorted(rows, key=lambda row: row[0]):
            self._said(event.seq, min(at_ms, self.at_ms), message, to)

    def _said(self, seq: int, at_ms: int, message: Message, to: list[str]) -> None:
        payload = payload_of(message.text)
        kind = None if payload is None else str(payload.raw.get("type", "notice"))
        self.said.append(Said(seq, at_ms, message.sender, tuple(to), message, kind))

    def _member(self, op: str, member: Member) -> None:
        life = self._lives.setdefault(member.name, _Life())
        agent = member.agent
        if agent is None:
            life.at_work = bool(member.is_active)
            known = member.is_active is not None and not member.is_lead
            self._enter(member.name, ("working" if life.at_work else "idle") if known else None)
            return
        life.used = (agent.usage.cost_usd, agent.usage.tokens)
        if op == "agent.turn":
            life.at_work = True
        elif op == BEGIN:
            life.at_work = bool(member.is_active)
        elif op in ("agent.idle", "agent.ready", "agent.spawn", "agent.resume"):
            life.at_work = False
        self._enter(member.name, _phase(agent, at_work=life.at_work))

    def _request(self, request: Request) -> None:
        if request.kind == "shutdown":
            return
        waits = self._asked.setdefault(request.sender, set())
        if request.state == "pending":
            waits.add(request.id)
        else:
            waits.discard(request.id)
        member = self.members.get(request.sender)
        life = self._lives.get(request.sender)
        if member is not None and life is not None and member.agent is not None:
            self._enter(request.sender, _phase(member.agent, at_work=life.at_work))

    def _enter(self, name: str, state: MemberState | None) -> None:
        """Record the state of a member; None if it is not known."""
        life = self._lives.setdefault(name, _Life())
        if state in ("working", "idle") and self._asked.get(name):
            state = "waiting"
        state = state or "unknown"
        if state == life.state:
            return
        life.state, life.since_ms = state, self.at_ms
        spans = self.spans.setdefault(name, [])
        if spans and spans[-1].to_ms is None:
            spans[-1].to_ms = self.at_ms
        if state != "unknown":
            spans.append(Span(state, self.at_ms))

    def _spend(self) -> None:
        usd = self._left[0] + sum(life.used[0] for life in self._lives.values())
        tokens = self._left[1] + sum(life.used[1] for life in self._lives.values())
        last = self.spending[-1] if self.spending else SpendingOverTime(self.at_ms, 0.0, 0)
        if (usd, tokens) != (last.usd, last.tokens):
            self.spending.append(SpendingOverTime(self.at_ms, usd, tokens))


def _phase(agent: AgentFacts, *, at_work: bool) -> MemberState:
    if agent.phase == "ended":
        return agent.end if agent.end == "failed" or agent.end == "lost" else "stopped"
    if agent.phase == "starting":
        return "starting"
    return "working" if at_work else "idle"


def _sum(rows: Iterable[Usage]) -> tuple[float, int]:
    found = list(rows)
    return sum(row.cost_usd for row in found), sum(row.tokens for row in found)


def story_of(events: Iterable[Event]) -> Story:
    story = Story()
    story.tell(events)
    return story


def story_at(snapshot: Snapshot) -> Story:
    """A story that knows the team of a snapshot, but not what happened: neither news nor times."""
    story, config = Story(), snapshot.team
    story.has_log = False
    story.at_ms = snapshot.taken_ms
    story._config = config
    story._folded = Folded(
        seq=snapshot.seq,
        team={key: value for key, value in config.raw.items() if key != "members"},
        members={view.member.name: view.member for view in snapshot.members},
        tasks={task.id: task for task in snapshot.tasks},
        requests={request.id: request for request in snapshot.pending},
    )
    for member in story.members.values():
        story._member(BEGIN, member)
    for request in snapshot.pending:
        story._request(request)
    for life in story._lives.values():
        life.since_ms = None
    story.spans.clear()
    return story
