"""A team as its log describes it, ready for decisions, and its snapshot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from bullpen.protocol.changes import Deliver, Event, MarkMail
from bullpen.protocol.format_version import OLDEST, version_in
from bullpen.protocol.message import DeliveryState, Message
from bullpen.store.contract import TeamState
from bullpen.store.events.concerns import concern_of
from bullpen.store.events.fold import Folded, apply, raw_of
from bullpen.store.events.records import TeamRecords
from bullpen.store.nats.log.packing import is_packed, known_format

_SNAPSHOT_VERSIONS = (1, 2)

V = TypeVar("V")


class HistoryPart(NamedTuple):
    """A history block: the number of its first event, and the message that holds it."""

    first: int
    seq: int


@dataclass(slots=True)
class LogState(TeamRecords):
    """What the log says so far. It is the `View` that decisions are based on.

    Of mail it has the ids and states that are not archived; `numbers` says which event brought each
    one, and so where its text is. `bodies` are the texts that this process has already read.
    """

    numbers: dict[str, dict[str, int]] = field(default_factory=dict)
    archived: dict[str, int] = field(default_factory=dict)
    archived_up_to: dict[str, int] = field(default_factory=dict)
    parts: list[HistoryPart] = field(default_factory=list)
    gone: bool = False
    bodies: dict[str, dict[str, Message]] = field(default_factory=dict)
    touched: dict[str | None, int] = field(default_factory=dict)
    format: str = OLDEST
    # The event that the log begins with, if older ones were removed.
    begin: HistoryPart | None = None

    def state(self) -> TeamState:
        """Return everything except the mail."""
        return TeamState(self.team, self.tasks(), self.requests(), self.seq, notes=self.notes())

    # Mail

    def box(self, agent: str) -> dict[str, DeliveryState]:
        """Return the states of an agent's mail that is not archived, oldest first."""
        return self.folded.mail.get(agent, {})

    def concerns(self, agent: str | None) -> tuple[int, ...]:
        """Return the last events that concern an agent; None means everybody."""
        if agent is None:
            return (self.seq,)
        return (self.touched.get(None, 0), self.touched.get(agent, 0))

    # Events

    def learn_format(self, raw: Mapping[str, Any]) -> None:
        """Take the version of the format from a message that has one: it may be newer."""
        if "format" in raw:
            self.format = version_in(raw)

    def apply(self, event: Event) -> None:
        """Apply the next event. Raises ValueError if it is not the next."""
        apply(self.folded, event, keep=raw_of)
        self.follow(event.changes)
        for change in event.changes:
            match change:
                case Deliver(to, message):
                    numbers = self.numbers.setdefault(to, {})
                    if numbers.setdefault(message.id, event.seq) == event.seq:
                        self.bodies.setdefault(to, {})[message.id] = message
                case MarkMail(agent, ids, state):
                    self._mark(agent, ids, state)
                case _:
                    pass
            self.touched[concern_of(change)] = event.seq

    def _mark(self, agent: str, ids: Sequence[str], state: DeliveryState) -> None:
        bodies, numbers = self.bodies.get(agent, {}), self.numbers.get(agent, {})
        for key in ids:
            if state == "seen" and key in bodies:
                bodies[key] = bodies[key].evolve(read=True)
            elif state in ("archived", "consumed"):
                bodies.pop(key, None)
                number = numbers.pop(key, 0)
                if state == "archived" and key in self.box(agent):
                    del self.folded.mail[agent][key]
                    self.archived[agent] = self.archived.get(agent, 0) + 1
                    last = self.archived_up_to.get(agent, 0)
                    self.archived_up_to[agent] = max(last, number)

    # Commits that are decided before an earlier one is stored

    def branch(self) -> LogState:
        """Return a copy on which the next commits can be decided while this stays as it is.

        Events may be added to it with `apply_ahead` only.
        """
        state = self.folded
        made = LogState(
            Folded(
                state.seq,
                state.team,
                dict(state.members),
                dict(state.tasks),
                dict(state.requests),
                dict(state.mail),
                dict(state.notes),
            ),
            self.next_task_id,
            numbers=dict(self.numbers),
            archived=dict(self.archived),
            archived_up_to=dict(self.archived_up_to),
            bodies=dict(self.bodies),
            format=self.format,
        )
        made._team, made._in_order = self._team, self._in_order
        made._tasks, made._requests = dict(self._tasks), dict(self._requests)
        made._notes = dict(self._notes)
        return made

    def apply_ahead(self, event: Event) -> None:
        """Apply an event to a copy. The mailboxes that it changes are copied first."""
        for change in event.changes:
            match change:
                case Deliver(to=agent) | MarkMail(agent=agent):
                    _copy_box(self.folded.mail, agent)
                    _copy_box(self.numbers, agent)
                    _copy_box(self.bodies, agent)
                case _:
                    pass
        self.apply(event)

    # Snapshots

    def adopt(self, found: LogState) -> None:
        """Take from a snapshot of the same moment where everything is stored."""
        self.parts, self.begin, self.format = found.parts, found.begin, found.format
        self.numbers, self.archived = found.numbers, found.archived
        self.archived_up_to = found.archived_up_to

    def snapshot(self) -> dict[str, Any]:
        """Return everything as a JSON object, without the texts of messages."""
        return {
            "v": 2 if is_packed(self.format) else 1,
            "format": known_format(self.format),
            "seq": self.seq,
            "team": self.folded.team,
            "members": list(self.folded.members.values()),
            "tasks": self.folded.tasks,
            "requests": self.folded.requests,
            "notes": self.folded.notes,
            "mail": {
                agent: [[key, state, self.numbers[agent][key]] for key, state in box.items()]
                for agent, box in self.folded.mail.items()
            },
            "archived": {
                agent: [count, self.archived_up_to[agent]] for agent, count in self.archived.items()
            },
            "highestTaskId": self.next_task_id - 1,
            "parts": [[part.first, part.seq] for part in self.parts],
            **({} if self.begin is None else {"begin": list(self.begin)}),
        }

    @classmethod
    def of_snapshot(cls, raw: dict[str, Any]) -> LogState:
        """Return what a snapshot of this version describes. Raises ValueError."""
        try:
            if raw["v"] not in _SNAPSHOT_VERSIONS:
                raise ValueError(f"a snapshot of version {raw['v']!r}")
            mail, archived = raw["mail"].items(), raw["archived"].items()
            folded = Folded(
                seq=int(raw["seq"]),
                team=dict(raw["team"]),
                members={row["name"]: row for row in raw["members"]},
                tasks=dict(raw["tasks"]),
                requests=dict(raw["requests"]),
                mail={agent: {key: state for key, state, _ in box} for agent, box in mail},
                notes=dict(raw.get("notes", {})),
            )
            kept = cls(
                folded,
                int(raw["highestTaskId"]) + 1,
                numbers={agent: {key: number for key, _, number in box} for agent, box in mail},
                archived={agent: int(row[0]) for agent, row in archived},
                archived_up_to={agent: int(row[1]) for agent, row in archived},
                parts=[HistoryPart(int(first), int(seq)) for first, seq in raw["parts"]],
                format=version_in(raw),
                begin=HistoryPart(*map(int, raw["begin"])) if "begin" in raw else None,
            )
        except (KeyError, TypeError, AttributeError, IndexError) as error:
            raise ValueError(f"not a snapshot: {error!r}") from None
        # What happened up to here is not known in detail: it may concern anybody.
        kept.touched[None] = kept.seq
        return kept


def _copy_box(boxes: dict[str, dict[str, V]], agent: str) -> None:
    if agent in boxes:
        boxes[agent] = dict(boxes[agent])
