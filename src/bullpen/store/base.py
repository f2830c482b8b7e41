"""The store contract: what every store promises, and the few types it speaks.

The unit of atomicity is one team. `commit` gives a pure function a consistent view of the team
and makes the changes it returns durable all together or not at all, one commit after another.
Stores keep records and know no rules.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from bullpen.protocol.changes import Change, Event
from bullpen.protocol.message import DeliveryState, Message
from bullpen.protocol.presence import Presence
from bullpen.protocol.request import Request
from bullpen.protocol.roster import TeamConfig
from bullpen.protocol.task import Task


class View(Protocol):
    """A consistent look at one team, from inside a commit."""

    @property
    def team(self) -> TeamConfig:
        """The team and its members."""

    def task(self, task_id: str) -> Task | None:
        """One task. Raises Unreadable if it is there but cannot be read."""

    def tasks(self) -> Mapping[str, Task]:
        """All tasks that can be read, by id, in id order."""

    def request(self, request_id: str) -> Request | None:
        """One request."""

    def requests(self) -> Mapping[str, Request]:
        """All requests, by id."""

    @property
    def next_task_id(self) -> int:
        """One more than any task id ever given in this team."""


Decide = Callable[[View], Sequence[Change]]
"""A pure function from what is to what shall be. It may run several times; it raises to refuse."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is there but cannot be used: a bad row, an unreadable file."""

    where: str
    why: str


@dataclass(frozen=True, slots=True)
class TeamState:
    """Everything a team knows but its mail, at one moment."""

    team: TeamConfig
    tasks: Mapping[str, Task]
    requests: Mapping[str, Request]
    seq: int
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class Committed:
    """A commit that is durable. `seq` is the number of its event; no changes, no event."""

    seq: int
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class Stored:
    """A message that is durable. `ahead` counts the unread messages before it."""

    id: str
    seq: int
    ahead: int
    duplicate: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    """A message in a mailbox with how far it got."""

    id: str
    message: Message
    state: DeliveryState


@dataclass(frozen=True, slots=True)
class Mailbox:
    """What a mailbox holds, oldest first, and the rows in it that are no messages."""

    entries: tuple[Entry, ...]
    problems: tuple[Problem, ...] = ()

    @property
    def unread(self) -> tuple[Entry, ...]:
        """The entries that no successful model request has held yet."""
        return tuple(entry for entry in self.entries if entry.state != "seen")


@dataclass(frozen=True, slots=True)
class Finding:
    """Something `checkup` found, and what it did about it."""

    kind: str
    where: str
    what: str
    fixed: bool = False
    action: str = ""


Mark = Literal["injected", "seen"]


class Store(Protocol):
    """Where teams live. Every method that waits has a deadline and raises Unavailable at it.

    Every method raises NotFound for a team that does not exist, Invalid for a name that cannot be
    one, and Unavailable when the store cannot be read or written: never an empty answer.
    """

    async def create(self, team: str, config: TeamConfig, *, actor: str) -> None:
        """Make a team, wholly or not at all. Raises Conflict if there is one of that name."""

    async def restore(self, team: str, events: Sequence[Event]) -> None:
        """Make a team whose log is exactly these events, wholly or not at all.

        It is then as if it had been lived through: tasks, requests, mail with its states and its
        archive, the next task id. Nobody is present in it. For whoever runs the store: agents
        have no business here.

        Raises:
            Conflict: there is a team of that name.
            Invalid: the events are no whole log: they have holes, do not begin with `team.create`
                (or were not observed, of a team that another program made), or do not replay.
        """

    async def delete(self, team: str, *, actor: str) -> bool:
        """Remove a team with all it knows. False if there was none: deleting twice is fine."""

    async def teams(self) -> list[str]:
        """The names of all teams, sorted."""

    async def config(self, team: str) -> TeamConfig:
        """The team and its members alone; cheap however many tasks there are."""

    async def read(self, team: str) -> TeamState:
        """The whole team at one moment between two commits."""

    async def commit(self, team: str, decide: Decide, *, actor: str, op: str) -> Committed:
        """Run `decide` on a consistent view and make its changes durable, all or none.

        Commits of one team happen one after another; `decide` runs again if the team changed
        before its changes could be written. Messages among the changes are delivered with them.
        """

    async def append(
        self, team: str, to: str, message: Message, *, actor: str, fresh: bool = False
    ) -> Stored:
        """Add a message to a mailbox; durable when this returns.

        A message whose `msg_id` is in that mailbox already, read, archived or not, is not added
        again: the answer says `duplicate`. With `fresh` the caller vouches that it made the id
        just now, and the store may save itself the search.
        """

    async def mailbox(
        self, team: str, agent: str, *, after: str | None = None, history: bool = False
    ) -> Mailbox:
        """What is in a mailbox; with `history` also what was archived.

        With `after`, only what came after that message, archived or not. Raises NotFound if no
        such message is known, and never changes anything.
        """

    async def acknowledge(
        self, team: str, agent: str, ids: Sequence[str], state: Mark, *, actor: str
    ) -> int:
        """Record that messages were injected or seen. Returns how many went forward.

        A state never goes back. Ids that are not in the mailbox are passed over.
        """

    async def events(self, team: str, *, after: int = 0, limit: int | None = None) -> list[Event]:
        """The log from the first event past `after`, what others changed included."""

    def watch(
        self, team: str, *, every_s: float | None = None, agent: str | None = None
    ) -> AsyncGenerator[int, None]:
        """Yield the current `seq` at once, and again soon after anything about the team changed.

        Several changes may come as one. With `every_s` it also yields when nothing has changed
        for about so long, for what time alone changes; heartbeats are among that, they wake
        nobody. With `agent`, neither other agents' mail nor who is in the team is a change: for
        who has many colleagues and looks at its own mail and the tasks, not at `seq`. Ends with
        NotFound when the team is deleted.
        """

    async def beat(self, team: str, presence: Presence) -> None:
        """Record a heartbeat."""

    async def presence(self, team: str) -> Mapping[str, Presence]:
        """The last heartbeat of every agent that ever sent one."""

    async def checkup(self, team: str | None, *, fix: bool) -> list[Finding]:
        """Look for damage below the level of records, and mend it if asked to.

        None stands for what belongs to no team: the remains of teams made or deleted by halves.
        """

    async def aclose(self) -> None:
        """Let go of whatever is held open."""


@dataclass(frozen=True, slots=True)
class StoreLimits:
    """Bounds that every store keeps; tests and big teams may set others."""

    lock_wait_s: float = 20.0
    message_bytes_max: int = 4 * 1024 * 1024
    seen_kept: int = 200
    attempts_max: int = 50
