"""Start, check and stop the agents of one team.

It keeps no state of its own: the team records its agents, and the operating system knows which of
them are alive. So any process can be the supervisor.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import anyio
from anyio.abc import TaskGroup

from bullpen.agents.contracts.backend import Backend
from bullpen.agents.contracts.machines import ON, RESPAWN, Hosts, OneMachine
from bullpen.agents.supervisor.admission import RoomWait
from bullpen.agents.supervisor.roster_view import AgentView, RosterView
from bullpen.agents.supervisor.start import Spawned, Starter
from bullpen.agents.supervisor.start_wait import StartDeadline
from bullpen.agents.supervisor.team_backends import TeamBackends
from bullpen.agents.system import processes
from bullpen.agents.system.folders import agent_folder
from bullpen.agents.system.transcript import NAME as TRANSCRIPT
from bullpen.agents.system.vendors.programs import READY_S
from bullpen.agents.work.until_stored import stored
from bullpen.errors import BullpenError, Conflict, NotFound, Refused, Unavailable, one_error
from bullpen.protocol.agent import AgentFacts, AgentSpec, End, ProcessRecord
from bullpen.protocol.clock import Clock, iso, now_ms
from bullpen.protocol.names import LEAD
from bullpen.protocol.payloads import Control
from bullpen.protocol.presence import Presence
from bullpen.protocol.request import Voice
from bullpen.protocol.team import Member
from bullpen.team.agents.rules import agent_of
from bullpen.team.lead_rules import refuse_others, refuse_strangers
from bullpen.team.lookup import member_of
from bullpen.team.team import Team

_POLL_S = 0.05
_RESUMED = ("suspended", "lost", "failed")
_ANNOUNCE_S = 0.5
_ROUNDS_MAX = 5
_LAUNCHES_MAX = 6
_NOT_RUNNING = {"starting": "is still starting", "ended": "has ended"}

AGENT_PROGRAM = (sys.executable, "-P", "-m", "bullpen", "agent", "run")
"""The command that a backend starts. `-P` ignores a `bullpen.py` in the agent's directory."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """An agent that no longer runs."""

    name: str
    was_alive: bool
    end: str


class Supervisor:
    """The agents of one team, on this machine."""

    def __init__(
        self,
        team: Team,
        *,
        home: Path,
        backends: Mapping[str, Backend],
        environ: Mapping[str, str],
        check: Callable[[AgentSpec, bool], None],
        hosts: Hosts | None = None,
        program: Sequence[str] = AGENT_PROGRAM,
        clock: Clock = now_ms,
    ) -> None:
        hosts = hosts or OneMachine({})
        self._team = team
        self._agents = team.agents
        self._home = home
        self._clock = clock
        self._backends = TeamBackends(team.name, backends, hosts)
        self.roster = RosterView(team, clock=clock)
        self.starter = Starter(
            team,
            home=home,
            backends=self._backends,
            environ=environ,
            check=check,
            hosts=hosts,
            roster=self.roster,
            program=program,
            clock=clock,
        )
        self.spawn = self.starter.spawn
        self.look = self.roster.look
        self.tend = self.roster.tend

    async def stop(
        self,
        name: str,
        *,
        by: str,
        grace_s: float = 5.0,
        reason: str | None = None,
        end: End = "stopped",
    ) -> Stopped:
        """Stop an agent; returns when none of its processes run.

        Its runner ends the turn at once. Anything left is killed after the grace period and 5
        seconds. Its unfinished tasks become pending. Raises NotFound, Refused (not_lead) for
        everybody but the lead and the member that spawned it, or Unavailable if a process cannot
        be stopped.
        """
        _, agent = await self._stoppable(name, by=by)
        cause = reason or f"{by} stopped it"
        with one_error():
            async with anyio.create_task_group() as group:
                await self._announce(group, name, end, by=by, nonce=agent.nonce, cause=cause)
                was_alive = await self._stop_place(
                    name, agent, by=by, grace_s=grace_s, reason=cause
                )
        nonce = agent.nonce
        await stored(lambda: self._agents.end(name, end, by=by, nonce=nonce, cause=cause))
        await self.roster.last_beat(name, nonce, "stopped", cause)
        with suppress(NotFound):
            # A guest has left the team by now.
            _, agent = await stored(lambda: self._agents.get(name))
        return Stopped(name, was_alive, agent.end or end)

    async def _stoppable(self, name: str, *, by: str) -> tuple[Member, AgentFacts]:
        """An agent that `by` may stop. The record of its end may come too late to refuse it."""
        team = await stored(self._agents.config)
        member, agent = agent_of(team, name)
        refuse_strangers(team, name, by, "stop", act="member.stop")
        return member, agent

    async def _announce(
        self, group: TaskGroup, name: str, end: End, *, by: str, nonce: str, cause: str
    ) -> None:
        """Record how an agent is about to end, but do not wait long for it.

        An agent that hangs may hold the team's lock; then stopping it frees the lock.
        """
        recorded = anyio.Event()

        async def record() -> None:
            await stored(lambda: self._agents.ending(name, end, by=by, nonce=nonce, cause=cause))
            recorded.set()

        group.start_soon(record)
        with anyio.move_on_after(_ANNOUNCE_S):
            await recorded.wait()

    async def _stop_place(
        self, name: str, agent: AgentFacts, *, by: str, grace_s: float, reason: str
    ) -> bool:
        """Stop the processes of an agent. Returns whether it was alive."""
        place = agent.process
        was_alive = (
            place is not None
            and agent.phase != "ended"
            and (
                processes.is_elsewhere(place)
                or await self._backends.named(place.backend).alive(place)
            )
        )
        if place is not None and was_alive and place.pid != os.getpid() and _is_inside(place):
            # It shares a process with others, so only its runner can stop it.
            await self.order(name, "stop", by=by, reason=reason)
            if await self._gone(name, agent.nonce, grace_s + processes.END_S):
                return True
        await self._backends.end(name, place, agent.nonce, grace_s=grace_s)
        return was_alive

    async def end_here(self, name: str, nonce: str, *, grace_s: float) -> None:
        """Stop a launch on this machine for another one. Raises NotFound or Unavailable."""
        _, agent = await self._agents.get(name)
        if agent.nonce == nonce:
            if processes.is_elsewhere(agent.process):
                raise Unavailable(
                    f"{name!r} does not run on this machine.",
                    remedy="Run `bullpen ps` to see where it runs.",
                )
            await self._backends.end(name, agent.process, nonce, grace_s=grace_s)

    async def go_on_elsewhere(self, name: str, *, by: str) -> bool:
        """Restart an agent on another machine after its own was lost; False if that is not wanted.

        An agent that was started many times already is left to people: it may be what breaks
        machines. Raises Unavailable if no machine could be asked.
        """
        _, agent = await self._agents.get(name)
        options = agent.spec.options
        if agent.phase != "ended" or ON not in options or not options.get(RESPAWN):
            return False
        if agent.launch >= _LAUNCHES_MAX:
            return False
        with suppress(Conflict):
            made = await self._agents.relaunch(
                name, by=by, nonce=self.starter.new_nonce(), expect=agent.nonce
            )
            await self.starter.ask_for_a_machine(name, made.agent, by=by)
            return True
        return False

    async def _gone(self, name: str, nonce: str, seconds: float) -> bool:
        """Whether an agent records its end within this many seconds."""
        with anyio.move_on_after(seconds):
            while True:
                try:
                    _, agent = await stored(lambda: self._agents.get(name))
                except NotFound:
                    # A guest has left the team.
                    return True
                place = agent.process
                dead = place is not None and not processes.runs(place)
                if agent.nonce != nonce or agent.phase == "ended" or dead:
                    return True
                await anyio.sleep(_POLL_S)
        return False

    async def ask_to_stop(
        self,
        name: str,
        *,
        by: str,
        deadline_s: float,
        reason: str | None = None,
        cause: str | None = None,
    ) -> Stopped:
        """Ask an agent to shut down; stop it at the deadline.

        `reason` is what it is told; without one, `cause` is recorded if it has to be stopped.

        Raises Refused: shutdown_rejected, or not_lead as `stop` does.
        """
        _, agent = await self._stoppable(name, by=by)
        request = await self._team.approvals.ask_shutdown(
            name, by=by, reason=reason, deadline_s=deadline_s
        )
        until = anyio.current_time() + deadline_s
        end: End = "stopped"
        while anyio.current_time() < until:
            asked = await self._team.approvals.get(request.id)
            if asked.state == "denied":
                why = (asked.answer or {}).get("feedback") or "no reason was given"
                raise Refused(
                    f"{name!r} refused to shut down: {why}",
                    reason="shutdown_rejected",
                    remedy="Stop it without asking if it has to end.",
                )
            if await self._gone(name, agent.nonce, _POLL_S * 4):
                end = "finished"
                break
        agreed = (await self._team.approvals.get(request.id)).state == "approved"
        if agent.spec.is_guest and end == "finished":
            await self._backends.end(name, agent.process, agent.nonce, grace_s=processes.END_S)
            return Stopped(name, True, end)
        stopped = await self.stop(name, by=by, reason=reason or cause, end=end)
        # One that agreed ran when it was asked, and ended before it could be stopped.
        return replace(stopped, was_alive=stopped.was_alive or agreed)

    async def stop_all(
        self, *, by: str, grace_s: float = 5.0, end: End = "stopped", reason: str | None = None
    ) -> list[Stopped]:
        """Stop every agent that has not ended, the lead first; returns those that were stopped.

        Agents that are spawned meanwhile are stopped too. Raises Refused (not_lead) for everybody
        but the lead, and Unavailable if one cannot be stopped; the others are.
        """
        config = await stored(self._agents.config)
        refuse_others(config, by, "stop all its agents", act="member.stop")
        stopped: list[Stopped] = []
        errors: list[BullpenError] = []

        async def stop_one(name: str) -> None:
            try:
                stopped.append(
                    await self.stop(name, by=by, grace_s=grace_s, end=end, reason=reason)
                )
            except NotFound:
                # Its start failed at this moment and was undone.
                pass
            except BullpenError as error:
                errors.append(error)

        for _ in range(_ROUNDS_MAX):
            living = [member for member, _ in await stored(self._agents.living)]
            if not living or errors:
                break
            if any(member.is_lead for member in living):
                await stop_one(LEAD)
            async with anyio.create_task_group() as group:
                for member in living:
                    if not member.is_lead:
                        group.start_soon(stop_one, member.name)
        if errors:
            raise errors[0]
        await self.sweep()
        return stopped

    async def sweep(self) -> None:
        """Remove the panes and processes that ended agents left behind."""
        for member in (await stored(self._agents.config)).roster:
            agent = member.agent
            if agent is None or agent.phase != "ended" or agent.process is None:
                continue
            if not processes.is_elsewhere(agent.process) and not _is_inside(agent.process):
                await self._backends.end(member.name, agent.process, agent.nonce, grace_s=1.0)

    async def order(
        self,
        name: str,
        action: str,
        *,
        by: str,
        voice: Voice = "agent",
        reason: str | None = None,
    ) -> None:
        """Send an order that the agent's runner obeys at once: stop, pause, resume, cancel."""
        order = Control.new(action=action, sender=by, reason=reason, timestamp=iso(self._clock()))
        await self._team.mailbox.send(name, order.text(), sender=by, voice=voice)

    async def interrupt(
        self, name: str, *, by: str, voice: Voice = "agent", reason: str | None = None
    ) -> None:
        """Interrupt the turn of an agent, which keeps running.

        After a person's interruption, it claims nothing until a person or the lead writes to it.

        Raises NotFound, Refused (not_lead) for everybody who may not stop it, or Conflict if it
        does not run.
        """
        team = await stored(self._agents.config)
        _, agent = agent_of(team, name)
        refuse_strangers(team, name, by, "interrupt", act="member.stop")
        if agent.phase != "running":
            raise Conflict(
                f"{name!r} has no turn to interrupt: it {_NOT_RUNNING[agent.phase]}.",
                remedy="List the agents: bullpen ps",
            )
        await self.order(name, "cancel", by=by, voice=voice, reason=reason)

    async def agents(self) -> list[AgentView]:
        """All members as they are now."""
        return (await self.look())[1]

    async def resume(
        self,
        *,
        by: str,
        names: Sequence[str] | None = None,
        ready_s: float | None = None,
        room: RoomWait = RoomWait(),  # noqa: B008 - frozen
    ) -> list[Spawned]:
        """Restart agents that were lost, failed, were suspended or reached a limit; the lead first.

        They keep their names, tasks, mail and history. With `names`, stopped agents are restarted
        too. Raises Unavailable if one does not get ready; those before it keep running.
        """
        config = await self._agents.config()
        beats = await self._agents.presence()
        wanted = [
            member
            for member in config.roster
            if self._to_resume(member, names, beats.get(member.name))
        ]
        for name in names or ():
            await self._agents.get(name)
        spawned: list[Spawned] = []
        for member in sorted(wanted, key=lambda member: not member.is_lead):
            agent = member.agent
            if agent is None:
                continue
            within = READY_S if ready_s is None else ready_s
            if ON not in agent.spec.options:
                await self.starter.check(agent.spec, within)
            # The earlier launch must not hold files. On a lost machine it may keep running, but
            # its nonce is no longer the newest, so it cannot act.
            with suppress(*([Unavailable] if processes.is_elsewhere(agent.process) else [])):
                await self._backends.end(member.name, agent.process, agent.nonce, grace_s=1.0)
            deadline = StartDeadline(ready_s)
            spawned.append(
                await self.starter.start_again(
                    member.name, agent, by=by, deadline=deadline, room=room
                )
            )
        return spawned

    def _to_resume(
        self, member: Member, names: Sequence[str] | None, beat: Presence | None
    ) -> bool:
        agent = member.agent
        if agent is None or (names is not None and member.name not in names):
            return False
        if agent.phase == "ended":
            return names is not None or agent.end in _RESUMED or agent.at_limit is not None
        return bool(self.roster.dead(agent, beat))

    def attach(self, view: AgentView) -> list[str] | None:
        """The command that shows an agent in this terminal, or None if it has no screen."""
        return self._backends.attach(view.place)

    async def transcript(self, name: str) -> Path:
        """The path of an agent's transcript, which may not exist yet. Raises NotFound."""
        config = await self._agents.config()
        return agent_folder(self._home, config, member_of(config, name).name) / TRANSCRIPT


def _is_inside(place: ProcessRecord) -> bool:
    """Whether an agent shares its process with others."""
    return place.group is None
