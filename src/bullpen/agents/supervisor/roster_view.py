"""Show the members of a team: what agents report, corrected by what the operating system says.

A dead agent is given up: its tasks become pending.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bullpen.agents.contracts.machines import ON
from bullpen.agents.system import processes
from bullpen.protocol.agent import AgentFacts, ProcessRecord, Usage
from bullpen.protocol.clock import Clock, now_ms
from bullpen.protocol.presence import AgentState, Presence
from bullpen.team.commit import mark_of
from bullpen.team.snapshot import MemberState, MemberView, Snapshot
from bullpen.team.team import Team

_STARTING_S = 15.0
"""How long after its registration an agent that has not started is not dead."""

_WAITING_S = 600.0
"""The same for an agent that waits for a machine with certain labels."""

_EXPIRE_MS = 10_000
"""How often leases and deadlines are checked, which takes the team's lock."""

_SILENT = 3
"""An agent on another machine is lost after this many times its heartbeat's validity."""


@dataclass(frozen=True, slots=True)
class AgentView:
    """A member as `ps` shows it. None means unknown, or not one of our agents."""

    name: str
    lead: bool
    state: MemberState
    since_ms: int | None
    detail: str | None
    driver: str | None
    backend: str | None
    model: str | None
    tool: str | None
    actions: tuple[str, ...]
    tasks: tuple[str, ...]
    unread: int | None
    usage: Usage
    # How full its model's context window was at the last request, from 0 to 1.
    context: float | None = None
    place: ProcessRecord | None = None
    end: str | None = None
    cause: str | None = None
    launch: int | None = None
    # Its own worktree.
    tree: str | None = None


class RosterView:
    """Watches the agents of one team from this machine."""

    def __init__(self, team: Team, *, clock: Clock = now_ms) -> None:
        self._team = team
        self._agents = team.agents
        self._clock = clock
        self._host = processes.host_name()
        self._expired_ms = 0

    async def look(self) -> tuple[Snapshot, list[AgentView]]:
        """The team and all its members as they are now."""
        snapshot = await self._team.snapshot()
        beats = await self._agents.presence()
        return snapshot, self.views(snapshot.members, beats)

    def views(
        self, members: Iterable[MemberView], beats: Mapping[str, Presence]
    ) -> list[AgentView]:
        return [self._view(view, beats.get(view.member.name)) for view in members]

    def _view(self, view: MemberView, beat: Presence | None) -> AgentView:
        member, agent = view.member, view.member.agent
        state, since, detail = view.state, view.since_ms, view.detail
        current = beat if beat is not None and agent and beat.nonce == agent.nonce else None
        if agent is not None:
            state, since, detail = self._truth(agent, current)
        usage = Usage.new() if agent is None else agent.usage
        if current is not None and current.usage is not None:
            usage = current.usage
        spec = None if agent is None else agent.spec
        return AgentView(
            name=member.name,
            lead=member.is_lead,
            state=state,
            since_ms=since,
            detail=detail,
            driver=None if spec is None else spec.driver,
            backend=None if spec is None else spec.backend,
            model=member.model if spec is None else spec.model,
            tool=current.tool if current is not None and state == "working" else None,
            actions=tuple(current.actions or ()) if current is not None else (),
            tasks=view.tasks,
            unread=view.unread,
            usage=usage,
            place=None if agent is None else agent.process,
            end=None if agent is None else agent.end,
            cause=None if agent is None else agent.cause,
            launch=None if agent is None else agent.launch,
            tree=member.worktree_path,
            context=None if current is None else current.context,
        )

    def _truth(
        self, agent: AgentFacts, beat: Presence | None
    ) -> tuple[MemberState, int | None, str | None]:
        """The state of an agent of ours. The operating system overrules its last report."""
        if agent.phase == "ended":
            state = agent.end if agent.end == "failed" or agent.end == "lost" else "stopped"
            return state, agent.since_ms, agent.cause
        dead = self.dead(agent, beat)
        if dead:
            return "lost", agent.since_ms if beat is None else beat.beat_ms, dead
        if beat is None:
            return "starting", agent.since_ms, None
        if dead is None and not beat.alive(self._clock()) and beat.state != "failed":
            return "lost", beat.beat_ms, "no heartbeat"
        return beat.state, beat.since_ms, beat.detail

    def dead(self, agent: AgentFacts, beat: Presence | None = None) -> str | None:
        """Why an agent is certainly dead; "" if it is certainly alive, None if only its host knows.

        Before it is started, the process that is about to start it sends its heartbeats.
        """
        place = agent.process
        if place is None:
            if beat is not None and beat.nonce == agent.nonce and beat.alive(self._clock()):
                return ""
            waits = ON in agent.spec.options
            if (self._clock() - agent.since_ms) / 1000 < (_WAITING_S if waits else _STARTING_S):
                return ""
            if waits:
                return "no machine took it"
            return "" if processes.carriers(agent.nonce) else "it was never started"
        if place.host != self._host:
            return None
        return "" if processes.runs(place) else f"process {place.pid} is gone"

    async def tend(self, *, by: str) -> list[str]:
        """Give up dead agents and expire leases and requests; returns the agents' names.

        Their tasks become pending, and the lead is told. An agent on another machine is given up
        after a long silence.
        """
        if mark_of(await self._agents.config()) is not None:
            # The team has moved: what is left of it here must not change.
            return []
        if self._clock() - self._expired_ms >= _EXPIRE_MS:
            self._expired_ms = self._clock()
            await self._team.tasks.expire(by=by)
            await self._team.approvals.expire()
        beats = await self._agents.presence()
        lost: list[str] = []
        for member, agent in await self._agents.living():
            beat = beats.get(member.name)
            why = self.dead(agent, beat)
            if why is None and beat is not None:
                silent_ms = self._clock() - beat.beat_ms
                why = "no heartbeat" if silent_ms > _SILENT * beat.ttl_ms else ""
            if not why:
                continue
            given_up = await self._agents.end(
                member.name, "lost", by=by, nonce=agent.nonce, cause=why
            )
            if given_up is not None:
                lost.append(member.name)
                await self.last_beat(member.name, agent.nonce, "lost", why)
        return lost

    async def last_beat(self, name: str, nonce: str, state: AgentState, why: str) -> None:
        """Send the last heartbeat for an agent that no longer can."""
        now = self._clock()
        beat = (await self._agents.presence()).get(name)
        if beat is not None and (beat.nonce != nonce or beat.state in ("stopped", "failed")):
            return
        base = beat or Presence.new(agent=name, since_ms=now, beat_ms=now, nonce=nonce)
        await self._agents.beat(
            base.evolve(state=state, since_ms=now, beat_ms=now, detail=why, tool=None)
        )
