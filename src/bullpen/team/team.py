"""The teams of a store: create, list, delete, move and open them; and one team with its parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from bullpen.by_name import load
from bullpen.errors import BullpenError, NotFound, Refused
from bullpen.protocol import names
from bullpen.protocol.changes import Event
from bullpen.protocol.clock import Clock, now_ms
from bullpen.protocol.names import LEAD
from bullpen.protocol.team import Member, TeamConfig, TeamFacts
from bullpen.store.contract import Store, TeamState
from bullpen.team import lead_rules
from bullpen.team.agents.operations import Agents
from bullpen.team.mail.operations import Mailboxes
from bullpen.team.moving.origin import Origins
from bullpen.team.operation import Operation, operation, operations_of
from bullpen.team.operation.commit import NewId, new_id
from bullpen.team.requests.modes import Modes
from bullpen.team.requests.operations import Approvals
from bullpen.team.requests.plans import Plans
from bullpen.team.roster import Roster
from bullpen.team.snapshot import Snapshot, take
from bullpen.team.tasks.merges import Merges
from bullpen.team.tasks.operations import Tasks

if TYPE_CHECKING:
    from bullpen.team.forge.nights.operations import Nights
    from bullpen.team.forge.operations import Forge
    from bullpen.team.moving.move import Moved, Progress
    from bullpen.team.notes.operations import Notes
    from bullpen.team.promises.operations import Promises
    from bullpen.team.tasks.reviews.operations import Reviews


_LATER = {
    "forge": "bullpen.team.forge.operations:Forge",
    "nights": "bullpen.team.forge.nights.operations:Nights",
    "notes": "bullpen.team.notes.operations:Notes",
    "promises": "bullpen.team.promises.operations:Promises",
    "reviews": "bullpen.team.tasks.reviews.operations:Reviews",
}
"""Parts that are loaded when they are used: most commands do not need them."""

_LOOK_EVERY_S = 2.0
"""How soon an overdue heartbeat shows."""

# A class with a method `list` needs another name for the type.
Names: TypeAlias = list[str]


class Team:
    """One team of a store. Creating the object reads nothing; later calls can raise NotFound."""

    def __init__(
        self, store: Store, name: str, *, clock: Clock = now_ms, new_id: NewId = new_id
    ) -> None:
        self.name = name
        self.roster = Roster(store, name, clock=clock)
        self.mailbox = Mailboxes(store, name, clock=clock, new_id=new_id)
        self.tasks = Tasks(store, name, clock=clock, new_id=new_id)
        self.approvals = Approvals(store, name, clock=clock, new_id=new_id)
        self.agents = Agents(store, name, clock=clock, new_id=new_id)
        self.merges = Merges(store, name, clock=clock, new_id=new_id)
        self.origins = Origins(store, name, clock=clock, new_id=new_id)
        self.plans = Plans(store, name, clock=clock, new_id=new_id)
        self.modes = Modes(store, name, clock=clock, new_id=new_id)
        self._store = store
        self._clock = clock
        self._new_id = new_id

    @cached_property
    def forge(self) -> Forge:
        """Its issues and pull requests."""
        part: Forge = self._part("forge")
        return part

    @cached_property
    def nights(self) -> Nights:
        """The pull requests of its nights."""
        part: Nights = self._part("nights")
        return part

    @cached_property
    def notes(self) -> Notes:
        """Its plan and other notes."""
        part: Notes = self._part("notes")
        return part

    @cached_property
    def promises(self) -> Promises:
        """What its members promise each other."""
        part: Promises = self._part("promises")
        return part

    @cached_property
    def reviews(self) -> Reviews:
        """What reviewers say about its work."""
        part: Reviews = self._part("reviews")
        return part

    def _part(self, name: str) -> Any:
        _later_operations(name)
        kind = load(_LATER[name])
        return kind(self._store, self.name, clock=self._clock, new_id=self._new_id)

    async def snapshot(self) -> Snapshot:
        """Return the team as it is now."""
        return await take(self._store, self.name, now_ms=self._clock())

    async def snapshots(self) -> AsyncGenerator[Snapshot, None]:
        """Yield the team as it is now, and again after every visible change.

        A member whose heartbeat stops is such a change, although nothing is written. Ends with
        NotFound when the team is deleted.
        """
        last: Snapshot | None = None
        async with aclosing(self._store.watch(self.name, every_s=_LOOK_EVERY_S)) as changes:
            async for _ in changes:
                current = await self.snapshot()
                if current != last:
                    last = current
                    yield current

    def changes(
        self, *, agent: str | None = None, every_s: float | None = None
    ) -> AsyncGenerator[int, None]:
        """Yield a number now, and again soon after any change to the team except a heartbeat.

        With `agent`, mail of other agents and roster changes are ignored. With `every_s`, also
        yield when nothing has changed for that long.
        """
        return self._store.watch(self.name, agent=agent, every_s=every_s)

    async def events(self, *, after: int = 0, limit: int | None = None) -> list[Event]:
        """Return the log, starting with the first event after `after`."""
        return await self._store.events(self.name, after=after, limit=limit)

    async def recent_events(self) -> list[Event]:
        """Return the last part of the log, which is enough to show the team; all of a short one.

        If earlier events are left out, the first one is `log.begin` and has the whole team.
        """
        return await self._store.recent_events(self.name)

    async def last_seq(self) -> int:
        """Return the number of the last event, without reading the log."""
        async with aclosing(self._store.watch(self.name)) as changes:
            return await anext(changes)

    async def follow_events(self, *, after: int = 0) -> AsyncGenerator[list[Event], None]:
        """Yield the log from the first event after `after`, then every new event, each once."""
        async with aclosing(self._store.watch(self.name)) as changes:
            async for _ in changes:
                fresh = await self.events(after=after)
                if fresh:
                    after = fresh[-1].seq
                    yield fresh


@dataclass(frozen=True, slots=True)
class TeamSummary:
    """A team in a list. One that cannot be read has only a `problem`."""

    name: str
    description: str | None = None
    created_at: float | None = None
    members: int = 0
    tasks: dict[str, int] = field(default_factory=dict)
    problem: str | None = None
    # Where its lead works.
    cwd: str | None = None


class Teams:
    """The teams of one store. Closes the store when used as a context manager."""

    def __init__(self, store: Store, *, clock: Clock = now_ms, new_id: NewId = new_id) -> None:
        self._store = store
        self._clock = clock
        self._new_id = new_id

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the store."""
        await self._store.aclose()

    @operation
    async def create(
        self,
        name: str,
        *,
        description: str | None = None,
        cwd: str | None = None,
        agent_type: str = LEAD,
        facts: TeamFacts | None = None,
        by: str = LEAD,
    ) -> TeamConfig:
        """Create a team that has only a lead. `agent_type` is the lead's.

        `facts` are known from the start: its limits, the file it is created from.

        Raises:
            Refused: `by` is a teammate (not_lead).
            Invalid: the name is not a valid team name.
            Conflict: a team with that name exists.
        """
        lead_rules.refuse_creating(by)
        names.check_new_name(name, kind="team")
        now = self._clock()
        lead = Member.new(
            agent_id=names.agent_id(LEAD, name),
            name=LEAD,
            agent_type=agent_type,
            joined_at=now,
            tmux_pane_id="",
            cwd=cwd,
            subscriptions=[],
        )
        config = TeamConfig.new(
            name=name,
            description=description,
            created_at=now,
            lead_agent_id=lead.agent_id,
            lead_session_id=self._new_id(),
            bullpen=None if facts is None else facts.raw,
            members=[lead.raw],
        )
        await self._store.create(name, config, actor=by)
        return config

    async def names(self) -> Names:
        """Return the names of all teams, sorted."""
        return await self._store.teams()

    async def list(self) -> list[TeamSummary]:
        """Return all teams by name. One that cannot be read is listed with its problem."""
        summaries = []
        for name in await self._store.teams():
            try:
                summaries.append(_summary(name, await self._store.read(name)))
            except NotFound:
                # Deleted after the names were read.
                continue
            except BullpenError as error:
                summaries.append(TeamSummary(name, problem=str(error)))
        return summaries

    @operation
    async def delete(self, name: str, *, by: str, force: bool = False) -> bool:
        """Delete a team and everything in it, as its lead. False if there was none.

        Raises:
            Refused: not_lead; or a teammate is running (members_alive), unless `force`.
        """
        await self._refuse_others(name, by, "delete it")
        if not force:
            alive = await _alive(self._store, name, now_ms=self._clock())
            if alive:
                raise Refused(
                    f"Team {name!r} has members at work: {', '.join(alive)}.",
                    reason="members_alive",
                    remedy="Stop them first, or delete with force.",
                )
        return await self._store.delete(name, actor=by)

    @operation
    async def move(
        self,
        name: str,
        target: Store,
        *,
        to: str,
        by: str,
        keep: bool = False,
        on_progress: Progress | None = None,
    ) -> Moved:
        """Move a team to another store, as its lead; see `bullpen.team.moving.move.move`."""
        await self._refuse_others(name, by, "move it")
        moved: Moved = await load("bullpen.team.moving.move:move")(
            self._store,
            target,
            name,
            to=to,
            by=by,
            keep=keep,
            on_progress=on_progress,
            clock=self._clock,
            new_id=self._new_id,
        )
        return moved

    async def _refuse_others(self, name: str, by: str, what: str) -> None:
        # The lead can delete a team that cannot be read.
        if by != LEAD:
            with suppress(NotFound):
                lead_rules.refuse_others(await self._store.config(name), by, what)

    def open(self, name: str) -> Team:
        """Return one team. Reads nothing yet."""
        return Team(self._store, name, clock=self._clock, new_id=self._new_id)


async def _alive(store: Store, name: str, *, now_ms: int) -> list[str]:
    try:
        presence = await store.presence(name)
    except NotFound:
        return []
    return sorted(agent for agent, beat in presence.items() if agent != LEAD and beat.alive(now_ms))


def _summary(name: str, state: TeamState) -> TeamSummary:
    tasks = Counter(task.status for task in state.tasks.values() if not task.is_internal)
    problem = None
    if state.problems:
        first = state.problems[0]
        more = f" (and {len(state.problems) - 1} more)" if len(state.problems) > 1 else ""
        problem = f"{first.where}: {first.why}{more}"
    return TeamSummary(
        name=name,
        description=state.team.description,
        created_at=state.team.created_at,
        members=len(state.team.roster),
        tasks={status: tasks[status] for status in ("pending", "in_progress", "completed")},
        problem=problem,
        cwd=None if (lead := state.team.member(LEAD)) is None else lead.cwd,
    )


_PARTS: Mapping[str, type] = {
    "teams": Teams,
    "roster": Roster,
    "mailbox": Mailboxes,
    "tasks": Tasks,
    "approvals": Approvals,
    "agents": Agents,
    "merges": Merges,
    "origins": Origins,
    "plans": Plans,
    "modes": Modes,
}

# An operation that is sent to a host has its name from here.
_OPERATIONS = [each for part, kind in _PARTS.items() for each in operations_of(part, kind)]


@cache
def _later_operations(part: str) -> list[Operation]:
    return list(operations_of(part, load(_LATER[part])))


@cache
def operations() -> Mapping[str, Operation]:
    """Return everything that changes a team, by name.

    A part is the attribute of `Team` of the same name.
    """
    later = [each for part in _LATER for each in _later_operations(part)]
    return {each.name: each for each in (*_OPERATIONS, *later)}
