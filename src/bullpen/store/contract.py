"""Public: the store contract, what every store guarantees, and the types it uses.

The unit of atomicity is one team. `commit` gives a pure function a consistent view of the team and
makes all the changes it returns durable, or none. Commits happen one after another. Stores keep
records and have no rules of their own.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import anyio

from bullpen.errors import BullpenError, NotFound
from bullpen.protocol.changes import Change, Event
from bullpen.protocol.message import DeliveryState, Message
from bullpen.protocol.presence import Presence
from bullpen.protocol.record.note import Note
from bullpen.protocol.request import Request
from bullpen.protocol.task import Task
from bullpen.protocol.team import TeamConfig


class View(Protocol):
    """A consistent view of one team during a commit."""

    @property
    def team(self) -> TeamConfig:
        """Return the team and its members."""

    def task(self, task_id: str) -> Task | None:
        """Return one task, or None. Raises Unreadable if it exists but cannot be read."""

    def tasks(self) -> Mapping[str, Task]:
        """Return all readable tasks by id, in id order."""

    def request(self, request_id: str) -> Request | None:
        """Return one request, or None."""

    def requests(self) -> Mapping[str, Request]:
        """Return all requests by id."""

    def note(self, name: str) -> Note | None:
        """Return the last version of a note, or None. Raises Unreadable if it cannot be read."""

    def notes(self) -> Mapping[str, Note]:
        """Return the last versions of all readable notes by name, deleted ones too."""

    @property
    def next_task_id(self) -> int:
        """Return the highest task id ever used in this team, plus one."""


Decide = Callable[[View], Sequence[Change]]
"""A pure function that returns the changes to make. It may run several times; it raises to refuse.
"""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that exists but cannot be used: a bad row, an unreadable file."""

    where: str
    why: str


@dataclass(frozen=True, slots=True)
class TeamState:
    """Everything in a team except its mail, at one moment."""

    team: TeamConfig
    tasks: Mapping[str, Task]
    requests: Mapping[str, Request]
    seq: int
    problems: tuple[Problem, ...] = ()
    # The last version of every note by name, deleted ones too.
    notes: Mapping[str, Note] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Committed:
    """A durable commit. `seq` is the number of its event. A commit without changes has no event."""

    seq: int
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class Stored:
    """A durable message. `ahead` counts the unread messages before it."""

    id: str
    seq: int
    ahead: int
    duplicate: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    """A message in a mailbox with its delivery state."""

    id: str
    message: Message
    state: DeliveryState


@dataclass(frozen=True, slots=True)
class Mailbox:
    """The messages in a mailbox, oldest first, and the rows that are not messages."""

    entries: tuple[Entry, ...]
    problems: tuple[Problem, ...] = ()

    @property
    def unread(self) -> tuple[Entry, ...]:
        """Return the entries that have not been in a successful model request."""
        return tuple(entry for entry in self.entries if entry.state != "seen")


@dataclass(frozen=True, slots=True)
class Finding:
    """Damage that `checkup` found, and what it did about it."""

    kind: str
    where: str
    what: str
    fixed: bool = False
    action: str = ""


Mark = Literal["injected", "seen"]

_BOXES_AT_ONCE_MAX = 16


class Store(Protocol):
    """Where teams are stored. Methods that wait have a deadline, and then raise Unavailable.

    Every method raises NotFound for a team that does not exist, Invalid for an invalid name, and
    Unavailable when the store cannot be read or written. An empty result never stands for an error.
    """

    async def create(self, team: str, config: TeamConfig, *, actor: str) -> None:
        """Create a team completely or not at all. Raises Conflict if the name is taken."""

    async def restore(self, team: str, events: Sequence[Event]) -> None:
        """Create a team from its whole log, completely or not at all.

        The team has the tasks, requests, mail with delivery states, archive and next task id that
        these events produced. Nobody is present in it. Only for whoever runs the store, not for
        agents.

        Raises:
            Conflict: a team with that name exists.
            Invalid: the events are not a whole log: events are missing, they do not begin with
                `team.create` (or observed events, for a team that another program created), or they
                cannot be replayed.
        """

    async def delete(self, team: str, *, actor: str) -> bool:
        """Delete a team and everything in it. False if there was none: deleting twice is fine."""

    async def teams(self) -> list[str]:
        """Return the names of all teams, sorted."""

    async def config(self, team: str) -> TeamConfig:
        """Return the team and its members only. Cheap, however many tasks there are."""

    async def read(self, team: str) -> TeamState:
        """Return the whole team at one moment between two commits."""

    async def commit(self, team: str, decide: Decide, *, actor: str, op: str) -> Committed:
        """Run `decide` on a consistent view and make its changes durable, all or none.

        Commits to a team happen one after another. If the team changed before the changes could be
        written, `decide` runs again. Messages among the changes are delivered with them.
        """

    async def append(
        self, team: str, to: str, message: Message, *, actor: str, fresh: bool = False
    ) -> Stored:
        """Add a message to a mailbox. It is durable when this returns.

        A message whose `msg_id` is already in that mailbox, archived or not, is not added again:
        the result says `duplicate`. With `fresh`, the caller guarantees that the id is new, and the
        store can skip the search.
        """

    async def mailbox(
        self, team: str, agent: str, *, after: str | None = None, history: bool = False
    ) -> Mailbox:
        """Return the messages in a mailbox; with `history`, including archived ones.

        With `after`, return only what came after that message, archived or not. Raises NotFound if
        there is no such message. Never changes anything.
        """

    async def unread(self, team: str, agents: Sequence[str]) -> Mapping[str, int | BullpenError]:
        """Return how many messages of each agent have not been in a successful model request.

        The same as counting `mailbox(...).unread` of each, but a store can keep the numbers. A
        mailbox that cannot be read has its error instead.
        """
        found: dict[str, int | BullpenError] = {}
        limit = anyio.Semaphore(_BOXES_AT_ONCE_MAX)

        async def count(agent: str) -> None:
            async with limit:
                try:
                    found[agent] = len((await self.mailbox(team, agent)).unread)
                except BullpenError as error:
                    found[agent] = error

        async with anyio.create_task_group() as group:
            for agent in agents:
                group.start_soon(count, agent)
        for number in found.values():
            if isinstance(number, NotFound):
                raise number  # There is no such team. A mailbox that nobody wrote to is empty.
        return {agent: found[agent] for agent in agents}

    async def acknowledge(
        self, team: str, agent: str, ids: Sequence[str], state: Mark, *, actor: str
    ) -> int:
        """Record that messages were injected or seen. Returns how many changed.

        A state never goes back. Ids that are not in the mailbox are ignored.
        """

    async def events(self, team: str, *, after: int = 0, limit: int | None = None) -> list[Event]:
        """Return the log after event `after`, including what other programs changed.

        The first events of a log may have been removed. Then it begins with an event `log.begin`,
        which has the whole team at that number.
        """

    async def recent_events(self, team: str) -> list[Event]:
        """Return the last part of the log: all of it, or enough recent events to show a team.

        If it is not all, it begins with an event `log.begin`, which has the whole team at that
        number, so replaying it gives the current team. What it costs does not depend on how long
        the history is.
        """
        return await self.events(team)

    def watch(
        self, team: str, *, every_s: float | None = None, agent: str | None = None
    ) -> AsyncGenerator[int, None]:
        """Yield the current `seq`, and again soon after anything about the team changed.

        Several changes may be reported as one. With `every_s`, also yield when nothing has changed
        for about that long, to notice what only time changes. Heartbeats do not count as changes.
        With `agent`, other agents' mail and the roster do not count either: for an agent in a large
        team that only needs its own mail and the tasks, not `seq`. Ends with NotFound when the team
        is deleted.
        """

    async def beat(self, team: str, presence: Presence) -> None:
        """Record a heartbeat."""

    async def presence(self, team: str) -> Mapping[str, Presence]:
        """Return the last heartbeat of every agent that ever sent one."""

    async def checkup(self, team: str | None, *, fix: bool) -> list[Finding]:
        """Look for damage below the level of records, and repair it if asked to.

        None means what belongs to no team: remains of partly created or partly deleted teams.
        """

    async def aclose(self) -> None:
        """Release everything that is held open."""


@dataclass(frozen=True, slots=True)
class StoreLimits:
    """Limits that every store enforces. Tests and large teams may change them."""

    lock_wait_s: float = 20.0
    message_bytes_max: int = 4 * 1024 * 1024
    seen_kept: int = 200
    attempts_max: int = 50
