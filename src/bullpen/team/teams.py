"""All teams of one store: making, listing, deleting, moving, opening."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self, TypeAlias

from bullpen.errors import BullpenError, NotFound, Refused
from bullpen.protocol import names
from bullpen.protocol.agent import TeamFacts
from bullpen.protocol.names import LEAD
from bullpen.protocol.roster import Member, TeamConfig
from bullpen.store.base import Store, TeamState
from bullpen.store.clock import Clock, now_ms
from bullpen.team.ids import NewId, new_id
from bullpen.team.moving import Moved, Progress, move
from bullpen.team.team import Team

# Inside a class that has a method `list`, the type needs another name.
Names: TypeAlias = list[str]


@dataclass(frozen=True, slots=True)
class TeamSummary:
    """A team in a list. One that cannot be read has a `problem` and nothing else."""

    name: str
    description: str | None = None
    created_at: float | None = None
    members: int = 0
    tasks: dict[str, int] = field(default_factory=dict)
    problem: str | None = None


class Teams:
    """The teams of one store; closes the store when used as a context manager."""

    def __init__(self, store: Store, *, clock: Clock = now_ms, new_id: NewId = new_id) -> None:
        self._store = store
        self._clock = clock
        self._new_id = new_id

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the store."""
        await self._store.aclose()

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
        """Make a team that has a lead and nothing else yet. `agent_type` is the lead's.

        `facts` are what is known of it from the start: its limits, the file it is made from.

        Raises:
            Invalid: the name cannot be a team's.
            Conflict: there is one of that name.
        """
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
        """The names of all teams, sorted."""
        return await self._store.teams()

    async def list(self) -> list[TeamSummary]:
        """All teams by name. One that cannot be read is listed with its problem."""
        summaries = []
        for name in await self._store.teams():
            try:
                summaries.append(_summary(name, await self._store.read(name)))
            except NotFound:
                # Deleted since the names were read.
                continue
            except BullpenError as error:
                summaries.append(TeamSummary(name, problem=str(error)))
        return summaries

    async def delete(self, name: str, *, by: str = LEAD, force: bool = False) -> bool:
        """Delete a team with all it knows. False if there was none.

        Raises:
            Refused: a teammate is alive (members_alive), unless `force`.
        """
        if not force:
            alive = await _alive(self._store, name, now_ms=self._clock())
            if alive:
                raise Refused(
                    f"Team {name!r} has members at work: {', '.join(alive)}.",
                    reason="members_alive",
                    remedy="Stop them first, or delete with force.",
                )
        return await self._store.delete(name, actor=by)

    async def move(
        self,
        name: str,
        target: Store,
        *,
        to: str,
        by: str = LEAD,
        keep: bool = False,
        on_progress: Progress | None = None,
    ) -> Moved:
        """Move a team to another store; see `bullpen.team.moving.move`."""
        return await move(
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

    def open(self, name: str) -> Team:
        """One team. Nothing is read yet."""
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
    )
