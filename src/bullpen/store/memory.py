"""A store in the memory of one process: for tests, for dry runs, and as the model of the others.

Records are kept as JSON text and parsed for every reader, so nobody can change what is stored by
changing what was put in or handed out. One event loop only.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import anyio
import anyio.lowlevel

from bullpen.errors import NotFound
from bullpen.protocol import jsontext, names
from bullpen.protocol.changes import (
    Change,
    Deliver,
    Event,
    MarkMail,
    PutMember,
    PutTask,
    PutTeam,
)
from bullpen.protocol.message import DeliveryState, Message
from bullpen.protocol.presence import Presence
from bullpen.protocol.request import Request
from bullpen.protocol.roster import TeamConfig
from bullpen.protocol.task import Task
from bullpen.protocol.times import iso
from bullpen.protocol.wire import Wire
from bullpen.store.base import (
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
from bullpen.store.checks import check_change, check_config, no_team, team_taken, with_fields
from bullpen.store.clock import Clock, now_ms
from bullpen.store.concerns import concern_of
from bullpen.store.fold import Folded, apply
from bullpen.store.history import check_history
from bullpen.store.mail_states import ahead_of, forward, is_unread, too_old

W = TypeVar("W", bound=Wire)


def _load(kind: type[W], text: bytes) -> W:
    return kind.parse(jsontext.loads(text))


@dataclass(slots=True)
class _Held:
    """Everything about one team. The log is the truth; `state` is what it replays to."""

    state: Folded[bytes] = field(default_factory=Folded)
    log: list[bytes] = field(default_factory=list)
    bodies: dict[str, dict[str, bytes]] = field(default_factory=dict)
    beats: dict[str, bytes] = field(default_factory=dict)
    highest_task_id: int = 0
    touched: dict[str | None, int] = field(default_factory=dict)
    deleted: bool = False
    changed: anyio.Event = field(default_factory=anyio.Event)

    @property
    def team(self) -> TeamConfig:
        members = [jsontext.loads(row) for row in self.state.members.values()]
        header = jsontext.loads(jsontext.dumps_line(self.state.team))
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

    @property
    def next_task_id(self) -> int:
        return self.highest_task_id + 1

    def box(self, agent: str) -> dict[str, DeliveryState]:
        """The states of an agent's mail, archived or not, oldest first."""
        return self.state.mail.get(agent, {})

    def record(self, event: Event) -> None:
        """Make an event part of the log and of everything that follows from it."""
        line = jsontext.dumps_line(event.encode())
        # From here on nothing is shared with the caller, and nothing can fail.
        event = Event.decode(jsontext.loads_line(line))
        apply(self.state, event, keep=lambda record: jsontext.dumps_line(record.raw))
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
                text = jsontext.dumps_line(message.raw)
                self.bodies.setdefault(to, {}).setdefault(message.id, text)
            case MarkMail(agent, ids, "seen"):
                bodies = self.bodies.get(agent, {})
                for message_id in bodies.keys() & set(ids):
                    read = _load(Message, bodies[message_id]).evolve(read=True)
                    bodies[message_id] = jsontext.dumps_line(read.raw)
            case MarkMail(agent, ids, "consumed"):
                for message_id in ids:
                    self.bodies.get(agent, {}).pop(message_id, None)
            case _:
                pass

    def concerns(self, agent: str | None) -> tuple[int, ...]:
        """The last events that concern an agent; None stands for who wants to know of all."""
        if agent is None:
            return (self.state.seq,)
        return (self.touched.get(None, 0), self.touched.get(agent, 0))

    def wake(self) -> None:
        """Let every watcher look again."""
        self.changed.set()
        self.changed = anyio.Event()


class MemoryStore(Store):
    """Teams that live and die with this object."""

    def __init__(self, *, clock: Clock = now_ms, limits: StoreLimits | None = None) -> None:
        self._clock = clock
        self._limits = limits or StoreLimits()
        self._teams: dict[str, _Held] = {}

    async def create(self, team: str, config: TeamConfig, *, actor: str) -> None:
        names.check_component(team, kind="team name")
        await anyio.lowlevel.checkpoint()
        self._refuse_taken(team)
        check_config(config)
        held = _Held()
        changes: list[Change] = [PutTeam(config.header)]
        changes += [PutMember(member) for member in config.roster]
        self._record(held, self._effective(held, changes), actor=actor, op="team.create")
        self._teams[team] = held

    async def restore(self, team: str, events: Sequence[Event]) -> None:
        names.check_component(team, kind="team name")
        await anyio.lowlevel.checkpoint()
        self._refuse_taken(team)
        check_history(team, events)
        held = _Held()
        for event in events:
            held.record(event)
        self._teams[team] = held

    def _refuse_taken(self, team: str) -> None:
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
        return TeamState(held.team, held.tasks(), held.requests(), held.state.seq)

    async def commit(self, team: str, decide: Decide, *, actor: str, op: str) -> Committed:
        held = await self._open(team)
        # No await until the event is recorded: that is what makes commits follow one another.
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
        ahead = ahead_of(held.box(to), message.id)
        return Stored(message.id, held.state.seq, ahead, duplicate=not changes)

    async def mailbox(
        self, team: str, agent: str, *, after: str | None = None, history: bool = False
    ) -> Mailbox:
        held = await self._open(team)
        names.check_component(agent, kind="member name")
        box = held.box(agent)
        ids = list(box)
        if after is not None:
            if after not in box:
                raise NotFound(
                    f"There is no message {after!r} in the mailbox of {agent!r}.",
                    remedy="Read the mailbox without naming a message.",
                )
            ids = ids[ids.index(after) + 1 :]
        elif not history:
            ids = [message_id for message_id in ids if box[message_id] != "archived"]
        bodies = held.bodies.get(agent, {})
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

    async def acknowledge(
        self, team: str, agent: str, ids: Sequence[str], state: Mark, *, actor: str
    ) -> int:
        held = await self._open(team)
        names.check_component(agent, kind="member name")
        moved = forward(held.box(agent), ids, state)
        if moved:
            changes: list[Change] = [MarkMail(agent, moved, state)]
            kept = self._limits.seen_kept
            old = too_old(held.box(agent), moved, kept) if state == "seen" else ()
            changes += [MarkMail(agent, old, "archived")] if old else []
            self._record(held, changes, actor=actor, op=f"mail.{state}")
        return len(moved)

    async def events(self, team: str, *, after: int = 0, limit: int | None = None) -> list[Event]:
        held = await self._open(team)
        start = max(after, 0)
        end = None if limit is None else start + limit
        return [Event.decode(jsontext.loads_line(line)) for line in held.log[start:end]]

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
        held.beats[presence.agent] = jsontext.dumps_line(presence.raw)

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

    def _effective(self, held: _Held, changes: Iterable[Change]) -> list[Change]:
        """The changes, all of them checked, without messages that were delivered before."""
        header = held.state.team
        delivered: set[tuple[str, str]] = set()
        effective: list[Change] = []
        for change in changes:
            check_change(change, self._limits)
            if isinstance(change, PutTeam):
                header = with_fields(header, change.fields).header
            if isinstance(change, Deliver):
                address = (change.to, change.message.id)
                if change.message.id in held.box(change.to) or address in delivered:
                    continue
                delivered.add(address)
            effective.append(change)
        return effective
