"""Starts, watches and stops the agents of one team.

It holds no truth of its own: who there is stands in the team, who is alive says the operating
system. So any process can be the supervisor, and another one after it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import anyio
from anyio.abc import TaskGroup

from bullpen.agents import processes
from bullpen.agents.drivers.programs import ready_within
from bullpen.agents.hosts.base import ON, RESPAWN
from bullpen.agents.launching import Launching, Spawned, agent_folder
from bullpen.agents.rollcall import AgentView
from bullpen.agents.transcript import NAME as TRANSCRIPT
from bullpen.errors import BullpenError, Conflict, NotFound, Refused, Unavailable, one_error
from bullpen.protocol.agent import AgentFacts, End, ProcessRecord
from bullpen.protocol.names import LEAD
from bullpen.protocol.payloads import Control
from bullpen.protocol.presence import Presence
from bullpen.protocol.roster import Member
from bullpen.protocol.times import iso
from bullpen.team.lookup import member_of
from bullpen.team.snapshot import Snapshot

_POLL_S = 0.05
_RESUMED = ("suspended", "lost", "failed")
_ANNOUNCE_S = 0.5
# Many are started one after another, on a machine that has just come up.
_RESUME_S = 60.0
_ROUNDS_MAX = 5
_LAUNCHES_MAX = 6


@dataclass(frozen=True, slots=True)
class Stopped:
    """An agent of which nothing runs any more."""

    name: str
    was_alive: bool
    end: str


class Supervisor(Launching):
    """The agents of one team, on this machine."""

    async def stop(
        self,
        name: str,
        *,
        by: str,
        grace_s: float = 5.0,
        reason: str | None = None,
        end: End = "stopped",
    ) -> Stopped:
        """Stop an agent; returns when the system says that nothing of it runs any more.

        Its runner is told first, which ends the turn at once; whatever the model does, it is
        gone after the grace and 5 seconds. Its unfinished tasks are pending again.

        Raises:
            NotFound: there is no such agent.
            Unavailable: something of it cannot be ended; the text says what.
        """
        _, agent = await self._agents.get(name)
        cause = reason or f"{by} stopped it"
        with one_error():
            async with anyio.create_task_group() as group:
                await self._announce(group, name, end, by=by, nonce=agent.nonce, cause=cause)
                was_alive = await self._stop_place(
                    name, agent, by=by, grace_s=grace_s, reason=cause
                )
        await self._agents.end(name, end, by=by, nonce=agent.nonce, cause=cause)
        await self.roll.last_beat(name, agent.nonce, "stopped", cause)
        with suppress(NotFound):
            # A guest has left the team by now.
            _, agent = await self._agents.get(name)
        return Stopped(name, was_alive, agent.end or end)

    async def _announce(
        self, group: TaskGroup, name: str, end: End, *, by: str, nonce: str, cause: str
    ) -> None:
        """Record how an agent is about to end, but do not wait long for it.

        An agent that hangs may hold the team's lock; then its end is what frees the lock.
        """
        recorded = anyio.Event()

        async def record() -> None:
            await self._agents.ending(name, end, by=by, nonce=nonce, cause=cause)
            recorded.set()

        group.start_soon(record)
        with anyio.move_on_after(_ANNOUNCE_S):
            await recorded.wait()

    async def _stop_place(
        self, name: str, agent: AgentFacts, *, by: str, grace_s: float, reason: str
    ) -> bool:
        """End whatever runs of an agent; says whether it was alive."""
        place = agent.place
        was_alive = (
            place is not None
            and agent.phase != "ended"
            and (processes.is_elsewhere(place) or await self._backend(place.backend).alive(place))
        )
        if place is not None and was_alive and place.pid != os.getpid() and _is_inside(place):
            # It shares a process with others: only its runner can end it.
            await self.order(name, "stop", by=by, reason=reason)
            if await self._gone(name, agent.nonce, grace_s + processes.END_S):
                return True
        await self._end_place(name, place, agent.nonce, grace_s=grace_s)
        return was_alive

    async def end_here(self, name: str, nonce: str, *, grace_s: float) -> None:
        """End what runs of a launch on this machine, for somebody on another one.

        Raises:
            NotFound: there is no such agent.
            Unavailable: it cannot be ended, or it does not run here.
        """
        _, agent = await self._agents.get(name)
        if agent.nonce == nonce:
            if processes.is_elsewhere(agent.place):
                raise Unavailable(f"{name!r} does not run here.", remedy="Look at `bullpen ps`.")
            await self._end_place(name, agent.place, nonce, grace_s=grace_s)

    async def go_on_elsewhere(self, name: str, *, by: str) -> bool:
        """Have an agent that ended with its machine started on another; False if it is not to.

        One that has been started many times already is left to people: it may be what ends them.

        Raises:
            Unavailable: no machine could be asked.
        """
        _, agent = await self._agents.get(name)
        options = agent.asked.options
        if agent.phase != "ended" or ON not in options or not options.get(RESPAWN):
            return False
        if agent.launch >= _LAUNCHES_MAX:
            return False
        with suppress(Conflict):
            made = await self._agents.relaunch(name, by=by, nonce=self._nonce(), expect=agent.nonce)
            await self.ask_for_a_machine(name, made.agent, by=by)
            return True
        return False

    async def _gone(self, name: str, nonce: str, seconds: float) -> bool:
        """Whether an agent recorded its end within so many seconds."""
        with anyio.move_on_after(seconds):
            while True:
                try:
                    _, agent = await self._agents.get(name)
                except NotFound:
                    # A guest has left the team.
                    return True
                place = agent.place
                dead = place is not None and not processes.runs(place)
                if agent.nonce != nonce or agent.phase == "ended" or dead:
                    return True
                await anyio.sleep(_POLL_S)
        return False

    async def ask_to_stop(
        self, name: str, *, by: str, deadline_s: float, reason: str | None = None
    ) -> Stopped:
        """Ask an agent to end; stop it if it has not by the deadline.

        Raises:
            Refused: it says that it goes on working (shutdown_rejected), and why.
        """
        _, agent = await self._agents.get(name)
        request = await self._team.approvals.ask_shutdown(
            name, by=by, reason=reason, deadline_s=deadline_s
        )
        until = anyio.current_time() + deadline_s
        end: End = "stopped"
        while anyio.current_time() < until:
            asked = await self._team.approvals.get(request.id)
            if asked.state == "denied":
                why = (asked.answer or {}).get("feedback") or "it gives no reason"
                raise Refused(
                    f"{name!r} goes on working: {why}",
                    reason="shutdown_rejected",
                    remedy="Stop it without asking, if it must end.",
                )
            if await self._gone(name, agent.nonce, _POLL_S * 4):
                end = "finished"
                break
        if agent.asked.is_guest and end == "finished":
            await self._end_place(name, agent.place, agent.nonce, grace_s=processes.END_S)
            return Stopped(name, True, end)
        return await self.stop(name, by=by, reason=reason, end=end)

    async def stop_all(
        self, *, by: str, grace_s: float = 5.0, end: End = "stopped", reason: str | None = None
    ) -> list[Stopped]:
        """Stop every agent that has not ended, the lead first; returns those that were stopped.

        Whoever was spawned meanwhile is stopped too.

        Raises:
            Unavailable: one of them cannot be stopped; the others are.
        """
        stopped: list[Stopped] = []
        errors: list[BullpenError] = []

        async def stop_one(name: str) -> None:
            try:
                stopped.append(
                    await self.stop(name, by=by, grace_s=grace_s, end=end, reason=reason)
                )
            except NotFound:
                # It was being started, and is undone at this very moment.
                pass
            except BullpenError as error:
                # The others are stopped all the same.
                errors.append(error)

        for _ in range(_ROUNDS_MAX):
            living = [member for member, _ in await self._agents.living()]
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
        """Remove what is left of agents that have ended: panes, and processes they left behind."""
        for member in (await self._agents.config()).roster:
            agent = member.agent
            if agent is None or agent.phase != "ended" or agent.place is None:
                continue
            if not processes.is_elsewhere(agent.place) and not _is_inside(agent.place):
                await self._end_place(member.name, agent.place, agent.nonce, grace_s=1.0)

    async def order(self, name: str, action: str, *, by: str, reason: str | None = None) -> None:
        """Give an order that the agent's runner obeys at once: stop, pause, resume, cancel."""
        order = Control.new(action=action, sender=by, reason=reason, timestamp=iso(self._clock()))
        await self._team.mailbox.send(name, order.text(), sender=by)

    async def look(self) -> tuple[Snapshot, list[AgentView]]:
        """The team, and everybody in it, as they are now."""
        return await self.roll.look()

    async def agents(self) -> list[AgentView]:
        """Everybody in the team as they are now."""
        return (await self.roll.look())[1]

    async def tend(self, *, by: str) -> list[str]:
        """Give up agents that are dead; returns their names."""
        return await self.roll.tend(by=by)

    async def resume(
        self, *, by: str, names: Sequence[str] | None = None, ready_s: float | None = None
    ) -> list[Spawned]:
        """Start again what does not run: what was lost, failed, suspended or met a limit.

        Names, tasks in progress, mailboxes and histories are as they were. With `names`, also
        what was stopped. The lead comes first.

        Raises:
            Unavailable: one did not get ready; those before it run.
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
            within = (
                max(_RESUME_S, ready_within(agent.asked.driver)) if ready_s is None else ready_s
            )
            if ON not in agent.asked.options:
                await self._checked(agent.asked, within)
            # Nothing of the launch before may still hold files. On a machine that is lost it
            # may run on; its nonce is no longer the newest, so that it cannot act.
            with suppress(*([Unavailable] if processes.is_elsewhere(agent.place) else [])):
                await self._end_place(member.name, agent.place, agent.nonce, grace_s=1.0)
            deadline = anyio.current_time() + within
            spawned.append(await self._start_again(member.name, agent, by=by, deadline=deadline))
        return spawned

    def _to_resume(
        self, member: Member, names: Sequence[str] | None, beat: Presence | None
    ) -> bool:
        agent = member.agent
        if agent is None or (names is not None and member.name not in names):
            return False
        if agent.phase == "ended":
            return names is not None or agent.end in _RESUMED or agent.at_limit is not None
        return bool(self.roll.dead(agent, beat))

    def attach(self, view: AgentView) -> list[str] | None:
        """The command that shows an agent in this terminal, or None if nothing can be seen."""
        if view.place is None or view.place.backend not in self._backends:
            return None
        return self._backends[view.place.backend].attach(view.place)

    async def transcript(self, name: str) -> Path:
        """The transcript of an agent; there need not be one yet. Raises NotFound."""
        config = await self._agents.config()
        return agent_folder(self._home, config, member_of(config, name).name) / TRANSCRIPT


def _is_inside(place: ProcessRecord) -> bool:
    """Whether an agent shares its process with others."""
    return place.group is None
