"""Show the members of a team: what agents report, corrected by what the operating system says.

A dead agent is given up: its tasks become pending.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

import anyio

from bullpen.agents.contracts.machines import ON
from bullpen.agents.system import processes
from bullpen.errors import Unavailable
from bullpen.protocol.agent import AgentFacts, ProcessRecord, Usage
from bullpen.protocol.clock import Clock, now_ms
from bullpen.protocol.names import LEAD
from bullpen.protocol.presence import ENDED, AgentState, Presence
from bullpen.protocol.team import Member
from bullpen.team.agents.liveness import Deadlines, GapWatch, HeardBeats, leases_over
from bullpen.team.operation.commit import mark_of
from bullpen.team.requests.deadlines import RequestDeadlines
from bullpen.team.snapshot import MemberState, MemberView, Snapshot
from bullpen.team.team import Team

_STARTING_S = 15.0
"""How long after its registration an agent that has not started is not dead."""

STARTING = "starting its process"
"""What an agent does before it says so itself."""

_WAITING_S = 600.0
"""The same for an agent that waits for a machine with certain labels."""

_EXPIRE_S = 10.0
"""How often leases and deadlines are checked."""


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


def steady_s() -> float:
    """The time of the event loop; in a worker thread, of the clock that a loop normally has."""
    try:
        return anyio.current_time()
    except anyio.NoEventLoopError:
        return time.monotonic()


class RosterView:
    """Watches the agents of one team from this machine."""

    def __init__(
        self,
        team: Team,
        *,
        clock: Clock = now_ms,
        now: Callable[[], float] = steady_s,
    ) -> None:
        """`clock` is for records, `now` for durations: it must not jump."""
        self._team = team
        self._agents = team.agents
        self._clock = clock
        self._now = now
        self._host = processes.host_name()
        self._expired_s = -math.inf
        self._gaps = GapWatch()
        self._heard = HeardBeats()
        self._starts = Deadlines()
        self._leases = Deadlines()
        self._requests = RequestDeadlines(
            team.approvals, by=LEAD, clock=clock, now=now, late_s=_EXPIRE_S
        )

    async def look(self) -> tuple[Snapshot, list[AgentView]]:
        """The team and all its members as they are now."""
        snapshot = await self._team.snapshot()
        beats, why = await self.beats()
        return snapshot, self.views(snapshot.members, beats, unknown=why)

    async def beats(self) -> tuple[Mapping[str, Presence], str | None]:
        """The last heartbeats; and why they are unknown, if they are."""
        try:
            return await self._agents.presence(), None
        except Unavailable as error:
            return {}, str(error)

    async def step_of(self, name: str, nonce: str) -> str | None:
        """What a launch that is starting says that it is doing; None if it says nothing."""
        beat = (await self.beats())[0].get(name)
        return beat.detail if beat is not None and beat.nonce == nonce else None

    def views(
        self,
        members: Iterable[MemberView],
        beats: Mapping[str, Presence],
        *,
        unknown: str | None = None,
    ) -> list[AgentView]:
        self._heard.hear(beats.values(), self._now())
        return [self._view(view, beats.get(view.member.name), unknown) for view in members]

    def _view(self, view: MemberView, beat: Presence | None, unknown: str | None) -> AgentView:
        member, agent = view.member, view.member.agent
        state, since, detail = view.state, view.since_ms, view.detail
        current = beat if beat is not None and agent and beat.nonce == agent.nonce else None
        if agent is not None:
            state, since, detail = self._truth(agent, current, unknown)
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
            model=(current and current.model) or (member.model if spec is None else spec.model),
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
        self, agent: AgentFacts, beat: Presence | None, unknown: str | None
    ) -> tuple[MemberState, int | None, str | None]:
        """The state of an agent of ours. The operating system overrules its last report."""
        if agent.phase == "ended":
            state = agent.end if agent.end == "failed" or agent.end == "lost" else "stopped"
            return state, agent.since_ms, agent.cause
        dead = self.dead(agent, beat)
        if unknown is not None and (not dead or agent.process is None):
            return "unknown", None, unknown
        if dead:
            return "lost", agent.since_ms if beat is None else beat.beat_ms, dead
        if beat is None:
            return "starting", agent.since_ms, None if agent.process is None else STARTING
        if dead is None and not self._looks_alive(beat) and beat.state != "failed":
            return "lost", beat.beat_ms, "no heartbeat"
        return beat.state, beat.since_ms, beat.detail

    def dead(self, agent: AgentFacts, beat: Presence | None = None) -> str | None:
        """Why an agent is certainly dead; "" if it is certainly alive, None if only its host knows.

        Before it is started, the process that is about to start it sends its heartbeats.
        """
        place = agent.process
        if place is None:
            if beat is not None and beat.nonce == agent.nonce and self._looks_alive(beat):
                return ""
            waits = ON in agent.spec.options
            until_ms = agent.since_ms + round((_WAITING_S if waits else _STARTING_S) * 1000)
            wall_ms, now_s = self._clock(), self._now()
            late = self._starts.has_passed(agent.nonce, until_ms, wall_ms=wall_ms, now_s=now_s)
            if not late or not self._gaps.may_judge(now_s):
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
        if self._gaps.look(self._clock(), self._now()):
            self._expired_s = -math.inf
        beats, unknown = await self.beats()
        self._heard.hear(beats.values(), self._now())
        await self._expire(beats if unknown is None else None, by=by)
        lost: list[str] = []
        living = await self._agents.living()
        self._starts.keep({agent.nonce for _, agent in living})
        for member, agent in living:
            if unknown is not None and agent.process is None:
                # Only heartbeats tell whether somebody is still starting it.
                continue
            beat = beats.get(member.name)
            why = self.dead(agent, beat)
            if why is None and beat is not None and beat.nonce == agent.nonce:
                why = "no heartbeat" if self._is_silent(beat) else ""
            if not why:
                continue
            given_up = await self._agents.end(
                member.name, "lost", by=by, nonce=agent.nonce, cause=why
            )
            if given_up is not None:
                lost.append(member.name)
                await self.last_beat(member.name, agent.nonce, "lost", why)
        return lost

    async def _expire(self, beats: Mapping[str, Presence] | None, *, by: str) -> None:
        """Release tasks whose lease is over, and deny requests past their deadline.

        If heartbeats are unknown (None), nobody loses a task: its owner may be alive.
        """
        now_s = self._now()
        if now_s - self._expired_s < _EXPIRE_S:
            return
        self._expired_s = now_s
        await self._requests.keep()
        if not self._gaps.may_judge(now_s):
            return
        await self._team.approvals.expire()
        if beats is None:
            return
        config = await self._agents.config()
        over = leases_over(
            (await self._team.tasks.list()).tasks,
            config.name,
            self._leases,
            alive=self._alive(config.roster, beats),
            wall_ms=self._clock(),
            now_s=now_s,
        )
        if over:
            await self._team.tasks.expire(by=by, over=over)

    def _alive(self, members: Iterable[Member], beats: Mapping[str, Presence]) -> set[str]:
        """The members that are certainly alive: by their process here, or by a fresh heartbeat."""
        return {member.name for member in members if self._is_alive(member, beats.get(member.name))}

    def _is_alive(self, member: Member, beat: Presence | None) -> bool:
        agent = member.agent
        if agent is not None:
            if agent.phase == "ended":
                return False
            dead = self.dead(agent, beat)
            if dead is not None:
                return not dead
            if beat is not None and beat.nonce != agent.nonce:
                return False
        if beat is None or beat.state in ENDED:
            return False
        if beat.host == self._host and beat.pid is not None and beat.start is not None:
            return processes.is_alive(beat.pid, beat.start)
        return not self._is_silent(beat)

    def _looks_alive(self, beat: Presence) -> bool:
        return self._heard.looks_alive(beat, wall_ms=self._clock(), now_s=self._now())

    def _is_silent(self, beat: Presence) -> bool:
        now_s = self._now()
        return self._gaps.may_judge(now_s) and self._heard.is_silent(beat, now_s)

    async def last_beat(self, name: str, nonce: str, state: AgentState, why: str) -> None:
        """Send the last heartbeat for an agent that no longer can, if heartbeats can be sent."""
        now = self._clock()
        with suppress(Unavailable):
            beat = (await self._agents.presence()).get(name)
            if beat is not None and (beat.nonce != nonce or beat.state in ("stopped", "failed")):
                return
            base = beat or Presence.new(agent=name, since_ms=now, beat_ms=now, nonce=nonce)
            await self._agents.beat(
                base.evolve(state=state, since_ms=now, beat_ms=now, detail=why, tool=None)
            )
