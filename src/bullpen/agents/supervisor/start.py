"""Start agents: register them, launch them, wait for the handshake, and undo a failed start."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio

from bullpen.agents.backends.warm_start.starter import OFF, WARM_START
from bullpen.agents.config.taken_spec import check_taken
from bullpen.agents.contracts.backend import Backend, Launch
from bullpen.agents.contracts.machines import ON, Hosts
from bullpen.agents.drivers.registry import modules_of
from bullpen.agents.permissions.rule_language.known_tools import missing_tools
from bullpen.agents.supervisor.admission import Admission, RoomWait
from bullpen.agents.supervisor.roster_view import STARTING, RosterView
from bullpen.agents.supervisor.start_end import (
    SPAWN_AGAIN,
    Answered,
    cause_of,
    end_of,
    last_lines,
    nonce_to_undo,
    start_failed,
    undo,
)
from bullpen.agents.supervisor.start_wait import StartDeadline, Step, with_beats
from bullpen.agents.supervisor.team_backends import SCREEN_S, TeamBackends
from bullpen.agents.system.environment import environment
from bullpen.agents.system.folders import agent_folder, home_mark, tree_owner
from bullpen.agents.system.token_shapes import without_tokens
from bullpen.agents.system.vendors.programs import READY_S
from bullpen.agents.work.tree_at_spawn import made_ready, seconds_for
from bullpen.agents.work.until_stored import stored
from bullpen.errors import BullpenError, Conflict, NotFound, Refused, StartFailed, Unavailable
from bullpen.protocol.agent import AgentFacts, AgentSpec, ProcessRecord
from bullpen.protocol.clock import Clock
from bullpen.protocol.names import LEAD
from bullpen.protocol.team import Member
from bullpen.store.private_folder import make_private
from bullpen.team.agents.rules import Registration
from bullpen.team.budget import rules as budget_rules
from bullpen.team.team import Team
from bullpen.workspace.trees.tree import Prepared

_POLL_S = 0.05
_ABANDONED_S = 3.0
"""How long the process that started an agent may take to notice that it died."""
_STEP_S = 0.3


@dataclass(frozen=True, slots=True)
class Spawned:
    """An agent that is ready to receive mail. `fresh` says whether this call started it."""

    name: str
    fresh: bool
    backend: str
    driver: str
    place: ProcessRecord | None
    # Its own worktree.
    tree: str | None = None
    # The tools of its role that it does not have.
    missing_tools: tuple[str, ...] = ()


class Starter:
    """Starts agents of one team on this machine."""

    def __init__(
        self,
        team: Team,
        *,
        home: Path,
        backends: TeamBackends,
        environ: Mapping[str, str],
        check: Callable[[AgentSpec, bool], None],
        hosts: Hosts,
        roster: RosterView,
        program: Sequence[str],
        clock: Clock,
    ) -> None:
        self._team = team
        self._agents = team.agents
        self._home = home
        self._backends = backends
        self._environ = environ
        # Refuses what a spec's driver cannot do; with True, also a model of unknown price.
        self._check = check
        self._hosts = hosts
        self._roster = roster
        self._program = tuple(program)
        self._clock = clock
        self._admission = Admission(team, home, clock=clock)

    async def spawn(
        self,
        name: str,
        spec: AgentSpec,
        *,
        by: str,
        key: str | None = None,
        ready_s: float | None = None,
        room: RoomWait = RoomWait(),  # noqa: B008 - frozen
    ) -> Spawned:
        """Start an agent and wait until it is ready to receive mail.

        All calls with the same key together start one process, and all get that agent. Raises
        StartFailed if it did not get ready, Refused for a limit of the team, or Conflict if the
        name is taken.
        """
        deadline, longest = StartDeadline(ready_s), StartDeadline(ready_s)
        # Another call may have to create its worktree first, and to wait for room.
        longest.put_off(seconds_for(spec) + room.seconds)
        await self._check_here(spec, READY_S if ready_s is None else ready_s)
        while True:
            made = await self._register(name, spec, by=by, key=key)
            if made.fresh:
                place = await self._bring_up(
                    made.member, made.agent, by=by, deadline=deadline, room=room
                )
                return _spawned(made.member.name, made.agent, place, fresh=True)
            found = await self._joined(made.member.name, by=by, deadline=longest, room=room)
            if found is not None:
                return found

    async def begin(self, name: str, spec: AgentSpec, *, by: str, key: str) -> Registration:
        """Register an agent, or find the one with this key; `finish` starts it.

        Raises what `spawn` raises for a rule: nothing is left then.
        """
        await self._check_here(spec, READY_S)
        return await self._register(name, spec, by=by, key=key)

    async def finish(self, made: Registration, *, by: str, answered: Answered) -> None:
        """Start an agent that `begin` registered. A failure is told by mail.

        If another call starts it, wait for that one, and start it if its process died.
        """
        name, agent, room = made.member.name, made.agent, RoomWait()
        deadline = StartDeadline()
        with suppress(BullpenError):
            if made.fresh:
                await self._bring_up(
                    made.member, agent, by=by, deadline=deadline, room=room, answered=answered
                )
            else:
                deadline.put_off(seconds_for(agent.spec) + room.seconds)
                await self._joined(name, by=by, deadline=deadline, room=room)

    async def _check_here(self, spec: AgentSpec, seconds: float) -> None:
        """Check a spec, unless the machine that takes it does."""
        if ON not in spec.options:
            await self.check(spec, seconds)

    async def _register(
        self, name: str, spec: AgentSpec, *, by: str, key: str | None
    ) -> Registration:
        nonce = self.new_nonce()
        return await stored(partial(self._agents.register, name, spec, by=by, nonce=nonce, key=key))

    async def take_place(self, name: str, spec: AgentSpec, *, by: str) -> Launch:
        """Register an agent in the place of a member that another program added.

        It is not started here: the caller becomes the agent by executing what is returned.
        Raises NotFound, Refused for a limit, or Conflict if one of our agents has the place.
        """
        await self.check(spec, READY_S)
        made = await self._agents.register(name, spec, by=by, nonce=self.new_nonce(), in_place=True)
        try:
            return await self._launch_of(name, made.agent, await self._tree(name, made.agent))
        except BullpenError as error:
            nonce = made.agent.nonce
            await self._agents.end(name, "failed", by=by, nonce=nonce, cause=error.message)
            raise

    async def _joined(
        self, name: str, *, by: str, deadline: StartDeadline, room: RoomWait
    ) -> Spawned | None:
        """Wait for an agent that another call with the same key starts.

        None if that call gave up and the agent is gone: then this call has to start it.
        """
        dead_since = math.inf
        while not deadline.has_passed:
            try:
                _, agent = await self._agents.get(name)
            except NotFound:
                return None
            if agent.phase != "starting":
                # A key is one agent, even one that has ended: `resume` starts it again.
                return _spawned(name, agent, agent.process, fresh=False)
            # Its starter notices its death at once and withdraws it, unless the starter died too.
            beats, unknown = await self._roster.beats()
            dead = unknown is None and self._roster.dead(agent, beats.get(name))
            dead_since = min(dead_since, anyio.current_time()) if dead else math.inf
            if anyio.current_time() - dead_since >= _ABANDONED_S:
                with suppress(Conflict):
                    await self.start_again(name, agent, by=by, deadline=deadline, room=room)
            await anyio.sleep(_POLL_S)
        raise Unavailable(
            f"{name!r} is being started by another process and did not get ready in time.",
            remedy=f"Run `bullpen logs {name}` to see why, or try again.",
        )

    async def start_again(
        self, name: str, agent: AgentFacts, *, by: str, deadline: StartDeadline, room: RoomWait
    ) -> Spawned:
        """Start another launch of an agent. Raises Conflict if someone else was faster."""
        nonce = self.new_nonce()
        made = await stored(
            lambda: self._agents.relaunch(name, by=by, nonce=nonce, expect=agent.nonce)
        )
        place = await self._bring_up(made.member, made.agent, by=by, deadline=deadline, room=room)
        return _spawned(name, made.agent, place, fresh=True)

    async def take(self, name: str, nonce: str, *, by: str) -> Spawned:
        """Start an agent here that waits for a machine. Raises Conflict or StartFailed."""
        waiting = await self._agents.waiting(name, nonce=nonce)
        member, agent = waiting.member, waiting.agent
        try:
            await self._check_parent(name, agent)
            await self.check(agent.spec, READY_S)
        except BullpenError as error:
            await self._agents.end(name, "failed", by=by, nonce=nonce, cause=error.message)
            raise
        place = await self._launch(
            member, agent, by=by, deadline=StartDeadline(), room=RoomWait(), for_other=True
        )
        return _spawned(name, agent, place, fresh=True)

    async def _check_parent(self, name: str, agent: AgentFacts) -> None:
        """Refuse what its parent may not spawn. People spawn as the lead."""
        parent = agent.parent
        if parent is None or parent == LEAD:
            return
        member = (await self._agents.config()).member(parent)
        above = None if member is None else member.agent
        if above is None:
            raise Refused(
                f"{parent!r} spawned {name!r} and has left the team, so its rights are unknown.",
                reason="no_parent",
                remedy="Spawn the agent again, as the lead.",
            )
        check_taken(agent.spec, (parent, above), name=name)

    async def _bring_up(
        self,
        member: Member,
        agent: AgentFacts,
        *,
        by: str,
        deadline: StartDeadline,
        room: RoomWait,
        answered: Answered | None = None,
    ) -> ProcessRecord | None:
        """Start a registered launch, here or on a machine with the labels it asks for."""
        if ON not in agent.spec.options:
            return await self._launch(
                member, agent, by=by, deadline=deadline, room=room, answered=answered
            )
        name, nonce = member.name, agent.nonce
        try:
            await self.ask_for_a_machine(name, agent, by=by)
            longer_s = seconds_for(agent.spec) + room.seconds
            return await self._handshake(name, nonce, None, deadline, longer_s, step=room.step)
        except BaseException as error:
            with anyio.CancelScope(shield=True), suppress(NotFound):
                mine = await nonce_to_undo(
                    self._agents, name, agent, error, by=by, instead=self.new_nonce()
                )
                if mine is None:
                    raise
                await undo(self._agents, name, mine, error, by=by, answered=answered)
            if isinstance(error, Unavailable):
                screen = error.screen if isinstance(error, StartFailed) else ""
                raise start_failed(name, error, screen) from error
            raise

    async def ask_for_a_machine(self, name: str, agent: AgentFacts, *, by: str) -> None:
        """Ask for a machine with the agent's labels to start it."""
        labels = agent.spec.options[ON]
        await self._hosts.place(self._team.name, name, agent.nonce, labels, by=by)

    async def _launch(
        self,
        member: Member,
        agent: AgentFacts,
        *,
        by: str,
        deadline: StartDeadline,
        room: RoomWait,
        for_other: bool = False,
        answered: Answered | None = None,
    ) -> ProcessRecord | None:
        """Start a registered launch on this machine and wait until it is ready, or undo it.

        With `for_other`, the failure is recorded for the process elsewhere that asked for it.
        """
        name, nonce = member.name, agent.nonce
        backend = self._backends.named(agent.spec.backend)
        place: ProcessRecord | None = None
        try:
            if agent.spec.workspace is not None:
                room.step(name, "preparing its worktree")
            begun = anyio.current_time()
            tree = await self._tree(name, agent)
            deadline.put_off(anyio.current_time() - begun)
            deadline.put_off(await self._admission.admit(name, agent, room))
            room.step(name, STARTING)
            launch = await self._launch_of(name, agent, tree)
            with anyio.fail_after(deadline.left_s):
                place = await with_beats(
                    self._team, name, agent, lambda: backend.start(launch), clock=self._clock
                )
            started = place
            await stored(lambda: self._agents.placed(name, nonce=nonce, place=started))
            return await self._handshake(name, nonce, (place, backend), deadline, step=room.step)
        except BaseException as error:
            with anyio.CancelScope(shield=True):
                mine = await nonce_to_undo(
                    self._agents,
                    name,
                    agent,
                    error,
                    by=by,
                    instead=self.new_nonce(),
                    for_other=for_other,
                )
                if mine is None:
                    raise
                screen = await self._end_failed(name, nonce, place, backend)
                with suppress(BullpenError):
                    await self._admission.release(agent)
                with suppress(NotFound):
                    if for_other:
                        cause, end = cause_of(error), end_of(error)
                        told = without_tokens(f"{cause}\n{last_lines(screen)}".rstrip())
                        await stored(
                            lambda: self._agents.end(name, end, by=by, nonce=mine, cause=told)
                        )
                    else:
                        await undo(self._agents, name, mine, error, by=by, answered=answered)
            if isinstance(error, BullpenError | TimeoutError):
                raise start_failed(name, error, screen) from error
            raise

    async def _tree(self, name: str, agent: AgentFacts) -> Prepared | None:
        """Create the agent's worktree, or find the existing one. Raises Refused or Unavailable."""
        owner = tree_owner(self._home, await stored(self._agents.config))
        return await made_ready(
            self._team, name, agent, owner=owner, environ=self._environ, clock=self._clock
        )

    async def _end_failed(
        self, name: str, nonce: str, place: ProcessRecord | None, backend: Backend
    ) -> str:
        """Stop everything of a failed start; returns the last screen."""
        screen = ""
        if place is not None:
            with anyio.move_on_after(SCREEN_S):
                screen = await backend.screen(place)
        await self._backends.end(name, place, nonce, grace_s=1.0)
        return screen

    async def _handshake(
        self,
        name: str,
        nonce: str,
        started: tuple[ProcessRecord, Backend] | None,
        deadline: StartDeadline,
        longer_s: float = 0.0,
        *,
        step: Step,
    ) -> ProcessRecord | None:
        """Wait until the agent itself reports that it is ready, wherever it was started.

        It gets `longer_s` more once another machine has taken it.
        """
        taken, gone, doing, looked = False, False, STARTING, -math.inf
        while True:
            # Once more after the deadline: this process may have slept until then.
            last = deadline.has_passed
            try:
                _, agent = await stored(lambda: self._agents.get(name))
            except Unavailable:
                # The agent may be at work: it has until the deadline, whatever the store does.
                if last:
                    raise
                continue
            if agent.nonce != nonce:
                raise Conflict(
                    f"{name!r} was started again by another process.",
                    remedy="List the agents: bullpen ps",
                )
            if agent.phase == "running":
                return agent.process
            if agent.phase == "ended":
                cause = agent.cause or "The agent ended at once."
                if started is not None:
                    raise Unavailable(cause, remedy=SPAWN_AGAIN)
                why, _, screen = cause.partition("\n")
                raise StartFailed(why, screen=screen, remedy=SPAWN_AGAIN)
            if started is not None and not await started[1].alive(started[0]):
                if gone:
                    raise Unavailable("The agent ended before it was ready.", remedy=SPAWN_AGAIN)
                # It may have been ready, and have ended, since its record was read.
                gone = True
                continue
            if started is None and not taken and await self._is_taken(name, agent):
                taken = True
                deadline.put_off(longer_s)
            elif last:
                break
            if anyio.current_time() - looked >= _STEP_S:
                looked = anyio.current_time()
                told = await self._roster.step_of(name, nonce) or doing
                if told != doing:
                    doing = told
                    step(name, doing)
            await anyio.sleep(_POLL_S)
        if started is None and not taken:
            raise Unavailable(
                f"No machine took it in time. Known hosts: {await self._hosts.who()}.",
                remedy="Ask for labels that `bullpen hosts` shows, or start a host that has them.",
            )
        raise Unavailable(
            f"The agent was not ready in time: after {deadline.given_s:.0f} s it was still"
            f" {doing}.",
            remedy=SPAWN_AGAIN,
        )

    async def _is_taken(self, name: str, agent: AgentFacts) -> bool:
        """Whether a machine is starting an agent: it sends heartbeats until the agent runs."""
        if agent.process is not None:
            return True
        beat = (await self._roster.beats())[0].get(name)
        return beat is not None and beat.nonce == agent.nonce

    async def _launch_of(self, name: str, agent: AgentFacts, tree: Prepared | None) -> Launch:
        spec = agent.spec
        folder = await stored(lambda: self.folder(name))
        env = environment(
            spec.env,
            self._environ,
            home=str(self._home),
            team=self._team.name,
            agent=name,
            nonce=agent.nonce,
            store=await self._hosts.admit(self._team.name, name),
        )
        if self._environ.get(WARM_START) == OFF:
            # It holds for those that the agent starts as well.
            env[WARM_START] = OFF
        return Launch(
            team=self._team.name,
            agent=name,
            nonce=agent.nonce,
            argv=self._program,
            env=env if tree is None else {**env, **tree.env},
            cwd=spec.cwd if tree is None else tree.cwd,
            log=str(folder / "output.log"),
            modules=modules_of(spec, env),
        )

    async def check(self, spec: AgentSpec, seconds: float) -> None:
        """Refuse a spec that this machine cannot run, before anything is registered."""
        await self._backends.check(spec.backend, within_s=seconds)
        in_money = budget_rules.in_money(await self._agents.config(), spec.budget_with_turns)
        await anyio.to_thread.run_sync(self._check, spec, in_money)

    def new_nonce(self) -> str:
        """The nonce of a new launch. It begins with the mark of its home."""
        return f"{home_mark(self._home)}-{secrets.token_hex(12)}"

    async def folder(self, name: str) -> Path:
        """The folder of an agent: transcript, history, output. It outlives the team."""
        path = agent_folder(self._home, await self._agents.config(), name)
        make_private(path)
        return path


def _spawned(name: str, agent: AgentFacts, place: ProcessRecord | None, *, fresh: bool) -> Spawned:
    spec = agent.spec
    missing = tuple(missing_tools(spec))
    return Spawned(name, fresh, spec.backend, spec.driver, place, spec.worktree_path, missing)
