"""A store in memory, for tests and dry runs, and as the reference for the other stores.

Records are kept as JSON text and parsed for every reader, so nobody can change what is stored by
changing an object. One event loop only.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import anyio
import anyio.lowlevel

from bullpen.errors import BullpenError, Invalid
from bullpen.protocol import json_text, names
from bullpen.protocol.changes import Change, Deliver, Event, MarkMail, PutTask
from bullpen.protocol.clock import Clock, iso, now_ms
from bullpen.protocol.message import DeliveryState, Message
from bullpen.protocol.presence import Presence
from bullpen.protocol.record import Wire
from bullpen.protocol.record.note import Note
from bullpen.protocol.request import Request
from bullpen.protocol.task import Task
from bullpen.protocol.team import TeamConfig
from bullpen.store.contract import (
    Committed,
    Decide,
    Entry,
    Finding,
    Mailbox,
    Mark,
    Store,
    Stored,
    StoreLimits,
    TeamState,
)
from bullpen.store.events.concerns import concern_of
from bullpen.store.events.fold import Folded, apply
from bullpen.store.events.whole_log import check_history
from bullpen.store.mail_states import ahead_of, is_unread, marks, without_repeats
from bullpen.store.record_checks import (
    check_config,
    checked,
    creation_of,
    no_message,
    no_team,
    team_taken,
)

W = TypeVar("W", bound=Wire)


def _load(kind: type[W], text: bytes) -> W:
    return kind.parse(json_text.loads(text))


@dataclass(slots=True)
class _Held:
    """Everything about one team. The log is the truth; `state` is its replay."""

    state: Folded[bytes] = field(default_factory=Folded)
    log: list[bytes] = field(default_factory=list)
    bodies: dict[str, dict[str, bytes]] = field(default_factory=dict)
    # The states of mail that is not archived: most of a long history is.
    live: dict[str, dict[str, DeliveryState]] = field(default_factory=dict)
    beats: dict[str, bytes] = field(default_factory=dict)
    highest_task_id: int = 0
    touched: dict[str | None, int] = field(default_factory=dict)
    deleted: bool = False
    changed: anyio.Event = field(default_factory=anyio.Event)

    @property
    def team(self) -> TeamConfig:
        members = [json_text.loads(row) for row in self.state.members.values()]
        header = json_text.loads(json_text.dumps_line(self.state.team))
        return TeamConfig.parse({**header, "members": members})

    @property
    def seq(self) -> int:
        return self.state.seq

    def task(self, task_id: str) -> Task | None:
        text = self.state.tasks.get(task_id)
        return None if text is None else _load(Task, text)

    def tasks(self) -> dict[str, Task]:
        tasks = [_load(Task, text) for text in self.state.tasks.values()]
        return {task.id: task for task in sorted(tasks, key=lambda task: names.task_order(task.id))}

    def request(self, request_id: str) -> Request | None:
        text = self.state.requests.get(request_id)
        return None if text is None else _load(Request, text)

    def requests(self) -> dict[str, Request]:
        return {key: _load(Request, text) for key, text in self.state.requests.items()}

    def note(self, name: str) -> Note | None:
        text = self.state.notes.get(name)
        return None if text is None else _load(Note, text)

    def notes(self) -> dict[str, Note]:
        return {key: _load(Note, text) for key, text in self.state.notes.items()}

    @property
    def next_task_id(self) -> int:
        return self.highest_task_id + 1

    def box(self, agent: str) -> dict[str, DeliveryState]:
        """Return the states of an agent's mail, archived or not, oldest first."""
        return self.state.mail.get(agent, {})

    def live_box(self, agent: str) -> dict[str, DeliveryState]:
        """Return the states of an agent's mail that is not archived, oldest first."""
        return self.live.get(agent, {})

    def unread(self, agent: str) -> int | BullpenError:
        """Return how many messages an agent has not read."""
        try:
            names.check_component(agent, kind="member name")
        except Invalid as error:
            return error
        return sum(map(is_unread, self.live_box(agent).values()))

    def mailbox(self, agent: str, *, after: str | None, history: bool) -> Mailbox:
        """Return what an agent reads. Raises NotFound if there is no message `after`."""
        box = self.box(agent) if after is not None or history else self.live_box(agent)
        ids = list(box)
        if after is not None:
            if after not in box:
                raise no_message(agent, after)
            ids = ids[ids.index(after) + 1 :]
        bodies = self.bodies.get(agent, {})
        return Mailbox(
            tuple(
                Entry(
                    message_id,
                    _load(Message, bodies[message_id]),
                    box[message_id] if is_unread(box[message_id]) else "seen",
                )
                for message_id in ids
            )
        )

    def record(self, event: Event) -> None:
        """Add an event to the log and to everything that follows from it."""
        line = json_text.dumps_line(event.encode())
        # From here on nothing is shared with the caller, and nothing can fail.
        event = Event.decode(json_text.loads_line(line))
        apply(self.state, event, keep=lambda record: json_text.dumps_line(record.raw))
        for change in event.changes:
            self._follow(change)
            self.touched[concern_of(change)] = event.seq
        self.log.append(line)
        self.wake()

    def _follow(self, change: Change) -> None:
        match change:
            case PutTask(Task(id=task_id)):
                if task_id.isdecimal():
                    self.highest_task_id = max(self.highest_task_id, int(task_id))
            case Deliver(to, message):
                text = json_text.dumps_line(message.raw)
                self.bodies.setdefault(to, {}).setdefault(message.id, text)
                self._follow_states(to, [message.id])
            case MarkMail(agent, ids, "seen"):
                bodies = self.bodies.get(agent, {})
                for message_id in bodies.keys() & set(ids):
                    read = _load(Message, bodies[message_id]).evolve(read=True)
                    bodies[message_id] = json_text.dumps_line(read.raw)
                self._follow_states(agent, ids)
            case MarkMail(agent, ids, state):
                if state == "consumed":
                    for message_id in ids:
                        self.bodies.get(agent, {}).pop(message_id, None)
                self._follow_states(agent, ids)
            case _:
                pass

    def _follow_states(self, agent: str, ids: Sequence[str]) -> None:
        box, live = self.box(agent), self.live.setdefault(agent, {})
        for message_id in ids:
            state = box.get(message_id)
            if state is None or state == "archived":
                live.pop(message_id, None)
            else:
                live[message_id] = state

    def concerns(self, agent: str | None) -> tuple[int, ...]:
        """Return the last events that concern an agent; None means everybody."""
        if agent is None:
            return (self.state.seq,)
        return (self.touched.get(None, 0), self.touched.get(agent, 0))

    def wake(self) -> None:
        """Wake every watcher."""
        self.changed.set()
        self.changed = anyio.Event()


class MemoryStore(Store):
    """Teams that exist as long as this object."""

    def __init__(self, *, clock: Clock = now_ms, limits: StoreLimits | None = None) -> None:
        self._clock = clock
        self._limits = limits or StoreLimits()
        self._teams: dict[str, _Held] = {}

    async def create(self, team: str, config: TeamConfig, *, actor: str) -> None:
        await self._refuse_taken(team)
        check_config(config)
        held = _Held()
        changes = self._effective(held, creation_of(config))
        self._record(held, changes, actor=actor, op="team.create")
        self._teams[team] = held

    async def restore(self, team: str, events: Sequence[Event]) -> None:
        await self._refuse_taken(team)
        check_history(team, events)
        held = _Held()
        for event in events:
            held.record(event)
        self._teams[team] = held

    async def _refuse_taken(self, team: str) -> None:
        names.check_component(team, kind="team name")
        await anyio.lowlevel.checkpoint()
        if team in self._teams:
            raise team_taken(team)

    async def delete(self, team: str, *, actor: str) -> bool:
        names.check_component(team, kind="team name")
        await anyio.lowlevel.checkpoint()
        held = self._teams.pop(team, None)
        if held is None:
            return False
        held.deleted = True
        held.wake()
        return True

    async def teams(self) -> list[str]:
        await anyio.lowlevel.checkpoint()
        return sorted(self._teams)

    async def config(self, team: str) -> TeamConfig:
        return (await self._open(team)).team

    async def read(self, team: str) -> TeamState:
        held = await self._open(team)
        return TeamState(
            held.team, held.tasks(), held.requests(), held.state.seq, notes=held.notes()
        )

    async def commit(self, team: str, decide: Decide, *, actor: str, op: str) -> Committed:
        held = await self._open(team)
        # No await until the event is recorded: this is what serializes commits.
        changes = self._effective(held, decide(held))
        if changes:
            self._record(held, changes, actor=actor, op=op)
        return Committed(held.state.seq, tuple(changes))

    async def append(
        self, team: str, to: str, message: Message, *, actor: str, fresh: bool = False
    ) -> Stored:
        held = await self._open(team)
        changes = self._effective(held, [Deliver(to, message)])
        if changes:
            self._record(held, changes, actor=actor, op="message")
        ahead = ahead_of(held.live_box(to), message.id)
        return Stored(message.id, held.state.seq, ahead, duplicate=not changes)

    async def mailbox(
        self, team: str, agent: str, *, after: str | None = None, history: bool = False
    ) -> Mailbox:
        held = await self._open(team)
        names.check_component(agent, kind="member name")
        return held.mailbox(agent, after=after, history=history)

    async def unread(self, team: str, agents: Sequence[str]) -> Mapping[str, int | BullpenError]:
        held = await self._open(team)
        return {agent: held.unread(agent) for agent in agents}

    async def acknowledge(
        self, team: str, agent: str, ids: Sequence[str], state: Mark, *, actor: str
    ) -> int:
        held = await self._open(team)
        names.check_component(agent, kind="member name")
        changes = marks(agent, held.live_box(agent), ids, state, self._limits.seen_kept)
        if changes:
            self._record(held, changes, actor=actor, op=f"mail.{state}")
        return len(changes[0].ids) if changes else 0

    async def events(self, team: str, *, after: int = 0, limit: int | None = None) -> list[Event]:
        held = await self._open(team)
        start = max(after, 0)
        end = None if limit is None else start + limit
        return [Event.decode(json_text.loads_line(line)) for line in held.log[start:end]]

    async def watch(
        self, team: str, *, every_s: float | None = None, agent: str | None = None
    ) -> AsyncGenerator[int, None]:
        held = await self._open(team)
        if agent is not None:
            names.check_component(agent, kind="member name")
        while not held.deleted:
            # Taken before the yield, so that no change during it is missed.
            before = held.concerns(agent)
            yield held.state.seq
            with anyio.move_on_after(every_s):
                while held.concerns(agent) == before and not held.deleted:
                    await held.changed.wait()
        raise no_team(team)

    async def beat(self, team: str, presence: Presence) -> None:
        held = await self._open(team)
        names.check_component(presence.agent, kind="member name")
        held.beats[presence.agent] = json_text.dumps_line(presence.raw)

    async def presence(self, team: str) -> Mapping[str, Presence]:
        held = await self._open(team)
        return {agent: _load(Presence, text) for agent, text in held.beats.items()}

    async def checkup(self, team: str | None, *, fix: bool) -> list[Finding]:
        if team is not None:
            await self._open(team)
        return []

    async def aclose(self) -> None:
        await anyio.lowlevel.checkpoint()

    async def _open(self, team: str) -> _Held:
        names.check_component(team, kind="team name")
        await anyio.lowlevel.checkpoint()
        if team not in self._teams:
            raise no_team(team)
        return self._teams[team]

    def _record(self, held: _Held, changes: Sequence[Change], *, actor: str, op: str) -> None:
        seq = held.state.seq + 1
        held.record(Event(seq, iso(self._clock()), actor, op, tuple(changes)))

    def _effective(self, held: _Held, changes: Sequence[Change]) -> list[Change]:
        """Return the changes, all checked, without messages that were delivered before."""
        return without_repeats(
            checked(changes, held.state.team, self._limits),
            lambda deliver: deliver.message.id in held.box(deliver.to),
        )
