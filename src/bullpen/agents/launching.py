"""Starting agents: registered before they start, proved by a handshake, or undone."""

from __future__ import annotations

import hashlib
import math
import os
import secrets
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import anyio

from bullpen.agents import processes
from bullpen.agents.admission import ROOM_S, Admission
from bullpen.agents.backends.base import Backend, Launch
from bullpen.agents.drivers.programs import ready_within
from bullpen.agents.environment import environment
from bullpen.agents.hosts.base import ON, Hosts, OneMachine
from bullpen.agents.rollcall import RollCall
from bullpen.agents.token_shapes import without_tokens
from bullpen.agents.trees import made_ready, seconds_for
from bullpen.errors import (
    BullpenError,
    Conflict,
    Invalid,
    NotFound,
    StartFailed,
    Unavailable,
)
from bullpen.protocol.agent import AgentFacts, AgentSpec, ProcessRecord
from bullpen.protocol.roster import Member, TeamConfig
from bullpen.store.clock import Clock, now_ms
from bullpen.team import budget_rules
from bullpen.team.team import Team
from bullpen.workspace.trees import Prepared

_POLL_S = 0.05
_ABANDONED_S = 3.0
"""An agent that died before it was ready is left to whoever started it for so long."""
_SCREEN_LINES = 20
_SCREEN_S = 5.0

AGENT_PROGRAM = (sys.executable, "-P", "-m", "bullpen", "agent", "run")
"""What a backend starts, never a `bullpen.py` that lies where it works.

Which agent it is, it learns from its environment."""


@dataclass(frozen=True, slots=True)
class Spawned:
    """An agent that has proved that it can receive. `fresh` says that this call started it."""

    name: str
    fresh: bool
    backend: str
    driver: str
    place: ProcessRecord | None
    # The tree that is its own.
    tree: str | None = None


class Launching:
    """Starts agents of one team on this machine."""

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
        self._team = team
        self._agents = team.agents
        self._home = home
        self._backends = backends
        self._environ = environ
        # Refuses what the driver of a spec cannot do; with True also what has no known price.
        self._check = check
        self._hosts = hosts or OneMachine({})
        self._program = tuple(program)
        self._clock = clock
        self.roll = RollCall(team, clock=clock)
        self._admission = Admission(team, home, clock=clock)
        # How long an agent waits until this machine has room for it, and who is told meanwhile.
        self.room_s = ROOM_S
        self.tell: Callable[[str], None] = lambda line: None

    async def spawn(
        self,
        name: str,
        spec: AgentSpec,
        *,
        by: str,
        key: str | None = None,
        ready_s: float | None = None,
    ) -> Spawned:
        """Start an agent and wait until it has proved that it can receive.

        With the same key, all calls together start one process, and all get that agent. How long
        it may take depends on its driver, unless `ready_s` says it.

        Raises:
            StartFailed: it did not get ready; nothing of it is left.
            Refused: a limit of the team.
            Conflict: the name is taken.
        """
        seconds = ready_within(spec.driver) if ready_s is None else ready_s
        deadline = anyio.current_time() + seconds
        # Whoever else starts it may have to make its tree first, and to wait for room.
        longest = deadline + seconds_for(spec) + self.room_s
        if ON not in spec.options:
            # The machine that takes it does this, for itself.
            await self._checked(spec, seconds)
        while True:
            nonce = self._nonce()
            made = await self._agents.register(name, spec, by=by, nonce=nonce, key=key)
            if made.fresh:
                place = await self._bring_up(made.member, made.agent, by=by, deadline=deadline)
                return _spawned(made.member.name, made.agent, place, fresh=True)
            found = await self._joined(made.member.name, by=by, deadline=longest)
            if found is not None:
                return found

    async def take_place(self, name: str, spec: AgentSpec, *, by: str) -> Launch:
        """Register an agent in the place of a member that another program has added.

        It is not started here: whoever calls this becomes the agent, by executing what is returned
        in its own process.

        Raises:
            NotFound: there is no such member.
            Refused: a limit of the team.
            Conflict: an agent of ours has the place.
        """
        await self._checked(spec, ready_within(spec.driver))
        made = await self._agents.register(name, spec, by=by, nonce=self._nonce(), in_place=True)
        try:
            return await self._launch_of(name, made.agent, await self._tree(name, made.agent))
        except BullpenError as error:
            nonce = made.agent.nonce
            await self._agents.end(name, "failed", by=by, nonce=nonce, cause=error.message)
            raise

    async def _joined(self, name: str, *, by: str, deadline: float) -> Spawned | None:
        """Wait for an agent that another call with the same key starts.

        None if that call gave up and its agent is gone: then it is this call's turn.
        """
        dead_since = math.inf
        while anyio.current_time() < deadline:
            try:
                _, agent = await self._agents.get(name)
            except NotFound:
                return None
            if agent.phase != "starting":
                # A key is one agent, whatever became of it: who wants it again resumes the team.
                return _spawned(name, agent, agent.place, fresh=False)
            dead_since = await self._dead_since(name, agent, dead_since)
            if anyio.current_time() - dead_since >= _ABANDONED_S:
                with suppress(Conflict):
                    await self._start_again(name, agent, by=by, deadline=deadline)
            await anyio.sleep(_POLL_S)
        raise Unavailable(
            f"{name!r} is being started by somebody else and did not get ready in time.",
            remedy=f"See `bullpen logs {name}`, or try again.",
        )

    async def _dead_since(self, name: str, agent: AgentFacts, before: float) -> float:
        """Since when an agent that is not ready yet is dead, as far as is known; else never.

        Whoever started it notices that at once and withdraws it, unless they died with it.
        """
        beats = await self._agents.presence()
        return (
            min(before, anyio.current_time())
            if self.roll.dead(agent, beats.get(name))
            else math.inf
        )

    async def _start_again(
        self, name: str, agent: AgentFacts, *, by: str, deadline: float
    ) -> Spawned:
        """Start another launch of an agent. Raises Conflict if somebody else was faster."""
        made = await self._agents.relaunch(name, by=by, nonce=self._nonce(), expect=agent.nonce)
        place = await self._bring_up(made.member, made.agent, by=by, deadline=deadline)
        return _spawned(name, made.agent, place, fresh=True)

    async def take(self, name: str, nonce: str, *, by: str) -> Spawned:
        """Start an agent here that is registered and waits for a machine.

        Raises:
            Conflict: it does not wait any more, or somebody else has it.
            StartFailed: it did not get ready; nothing of it is left.
        """
        waiting = await self._agents.waiting(name, nonce=nonce)
        member, agent = waiting.member, waiting.agent
        seconds = ready_within(agent.asked.driver)
        try:
            await self._checked(agent.asked, seconds)
        except BullpenError as error:
            await self._agents.end(name, "failed", by=by, nonce=nonce, cause=error.message)
            raise
        deadline = anyio.current_time() + seconds
        place = await self._launch(member, agent, by=by, deadline=deadline, for_other=True)
        return _spawned(name, agent, place, fresh=True)

    async def _bring_up(
        self, member: Member, agent: AgentFacts, *, by: str, deadline: float
    ) -> ProcessRecord | None:
        """Start a launch that is registered, here or on a machine with the labels it asks for."""
        if ON not in agent.asked.options:
            return await self._launch(member, agent, by=by, deadline=deadline)
        name, nonce = member.name, agent.nonce
        try:
            await self.ask_for_a_machine(name, agent, by=by)
            longer_s = seconds_for(agent.asked) + self.room_s
            return await self._handshake(name, nonce, None, deadline, longer_s)
        except BaseException as error:
            with anyio.CancelScope(shield=True), suppress(NotFound):
                cause = error.message if isinstance(error, BullpenError) else "it was broken off"
                await self._agents.withdraw(name, by=by, nonce=nonce, cause=cause)
            if isinstance(error, Unavailable):
                screen = error.screen if isinstance(error, StartFailed) else ""
                raise _start_failed(name, error, screen) from error
            raise

    async def ask_for_a_machine(self, name: str, agent: AgentFacts, *, by: str) -> None:
        """Have an agent that is registered started on a machine with the labels it asks for."""
        labels = agent.asked.options[ON]
        await self._hosts.place(self._team.name, name, agent.nonce, labels, by=by)

    async def _launch(
        self,
        member: Member,
        agent: AgentFacts,
        *,
        by: str,
        deadline: float,
        for_other: bool = False,
    ) -> ProcessRecord | None:
        """Start a launch that is registered, and see that it gets ready, or undo it.

        With `for_other`, whoever asked for it is elsewhere and has to find there why it failed.
        """
        name, nonce = member.name, agent.nonce
        backend = self._backend(agent.asked.backend)
        place: ProcessRecord | None = None
        try:
            begun = anyio.current_time()
            tree = await self._tree(name, agent)
            deadline += anyio.current_time() - begun
            deadline += await self._admission.admit(name, agent, wait_s=self.room_s, tell=self.tell)
            with anyio.fail_after(max(0.0, deadline - anyio.current_time())):
                place = await backend.start(await self._launch_of(name, agent, tree))
            await self._agents.placed(name, nonce=nonce, place=place)
            return await self._handshake(name, nonce, (place, backend), deadline)
        except BaseException as error:
            with anyio.CancelScope(shield=True):
                broken_off = not isinstance(error, Exception)
                if broken_off and await self._is_others(name, nonce, for_other=for_other):
                    raise
                screen = await self._end_failed(name, nonce, place, backend)
                with suppress(BullpenError):
                    await self._admission.release(agent)
                cause = _cause_of(error)
                with suppress(NotFound):
                    if for_other:
                        told = without_tokens(f"{cause}\n{_last_lines(screen)}".rstrip())
                        await self._agents.end(name, "failed", by=by, nonce=nonce, cause=told)
                    else:
                        await self._agents.withdraw(name, by=by, nonce=nonce, cause=cause)
            if isinstance(error, BullpenError | TimeoutError):
                raise _start_failed(name, error, screen) from error
            raise

    async def _tree(self, name: str, agent: AgentFacts) -> Prepared | None:
        """The tree of an agent, made or found as it was. Raises Refused or Unavailable."""
        owner = tree_owner(self._home, await self._agents.config())
        return await made_ready(
            self._team, name, agent, owner=owner, environ=self._environ, clock=self._clock
        )

    async def _is_others(self, name: str, nonce: str, *, for_other: bool) -> bool:
        """Whether an agent is ready, and others than this call may have it by now.

        That is whoever asked for it from elsewhere, and other calls with its key.
        """
        try:
            _, agent = await self._agents.get(name)
        except BullpenError:
            return False
        shared = for_other or agent.key is not None
        return agent.nonce == nonce and shared and agent.phase == "running"

    async def _end_failed(
        self, name: str, nonce: str, place: ProcessRecord | None, backend: Backend
    ) -> str:
        """Leave nothing running of a failed start; returns the last screen."""
        screen = ""
        if place is not None:
            with anyio.move_on_after(_SCREEN_S):
                screen = await backend.screen(place)
        await self._end_place(name, place, nonce, grace_s=1.0)
        return screen

    async def _handshake(
        self,
        name: str,
        nonce: str,
        started: tuple[ProcessRecord, Backend] | None,
        deadline: float,
        longer_s: float = 0.0,
    ) -> ProcessRecord | None:
        """Wait until the agent itself says that it can receive, whoever started it.

        It may take `longer_s` from when another machine has taken it.
        """
        taken = False
        while anyio.current_time() < deadline:
            _, agent = await self._agents.get(name)
            if agent.nonce != nonce:
                raise Conflict(f"{name!r} was started again by somebody else.")
            if agent.phase == "running":
                return agent.place
            if agent.phase == "ended":
                cause = agent.cause or "It ended at once."
                if started is not None:
                    raise Unavailable(cause)
                why, _, screen = cause.partition("\n")
                raise StartFailed(why, screen=screen)
            if started is not None and not await started[1].alive(started[0]):
                raise Unavailable("It ended before it was ready.")
            if started is None and not taken and await self._is_taken(name, agent):
                taken = True
                deadline += longer_s
            await anyio.sleep(_POLL_S)
        if started is None and not taken:
            raise Unavailable(
                f"No machine took it in time. There are: {await self._hosts.who()}.",
                remedy="See `bullpen hosts`; ask for other labels, or start a host that has them.",
            )
        raise Unavailable("It was not ready in time.")

    async def _is_taken(self, name: str, agent: AgentFacts) -> bool:
        """Whether a machine is at starting an agent: it beats for it until it runs."""
        if agent.place is not None:
            return True
        beat = (await self._agents.presence()).get(name)
        return beat is not None and beat.nonce == agent.nonce

    async def _launch_of(self, name: str, agent: AgentFacts, tree: Prepared | None) -> Launch:
        spec = agent.asked
        folder = await self.folder(name)
        env = environment(
            spec.env,
            self._environ,
            home=str(self._home),
            team=self._team.name,
            agent=name,
            nonce=agent.nonce,
            store=await self._hosts.admit(self._team.name, name),
        )
        return Launch(
            team=self._team.name,
            agent=name,
            nonce=agent.nonce,
            argv=self._program,
            env=env if tree is None else {**env, **tree.env},
            cwd=spec.cwd if tree is None else tree.cwd,
            log=str(folder / "output.log"),
        )

    async def _checked(self, spec: AgentSpec, seconds: float) -> None:
        """Refuse what cannot be had, before anything is registered."""
        backend = self._backend(spec.backend)
        with _answering(backend, seconds):
            await backend.check()
        in_money = budget_rules.in_money(await self._agents.config(), spec.cap)
        await anyio.to_thread.run_sync(self._check, spec, in_money)

    async def _end_place(
        self, name: str, place: ProcessRecord | None, nonce: str, *, grace_s: float
    ) -> None:
        """End whatever runs of a launch, wherever that is, whatever its backend does.

        Raises:
            Unavailable: it takes too long.
        """
        if place is None:
            await processes.end(None, None, None, nonce, grace_s)
            return
        if place.host != processes.host_name():
            await self._hosts.stop(place, self._team.name, name, nonce, grace_s=grace_s)
            return
        backend = self._backend(place.backend)
        with _answering(backend, grace_s + processes.END_S + _SCREEN_S):
            await backend.stop(place, nonce, grace_s=grace_s)

    def _backend(self, name: str) -> Backend:
        try:
            return self._backends[name]
        except KeyError:
            raise Invalid(
                f"There is no backend {name!r} here.",
                remedy=f"Choose one of these: {', '.join(self._backends)}.",
            ) from None

    def _nonce(self) -> str:
        return f"{home_mark(self._home)}-{secrets.token_hex(12)}"

    async def folder(self, name: str) -> Path:
        """The directory of an agent: transcript, history, output. It outlives the team."""
        path = agent_folder(self._home, await self._agents.config(), name)
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        return path


@contextmanager
def _answering(backend: Backend, seconds: float) -> Iterator[None]:
    """Wait for a backend only so long, whatever it promises. Raises Unavailable."""
    try:
        with anyio.fail_after(seconds):
            yield
    except TimeoutError:
        raise Unavailable(
            f"The backend {backend.name!r} does not answer.",
            remedy="Try again; `bullpen doctor --fix` ends what is left over.",
        ) from None


def home_mark(home: Path) -> str:
    """What the nonces of all launches of one home begin with."""
    return hashlib.sha256(os.fsencode(home.resolve())).hexdigest()[:8]


def agent_folder(home: Path, team: TeamConfig, name: str) -> Path:
    """Where an agent keeps its things. Two teams of one name, one after another, share nothing."""
    member = team.member(name)
    agent = member.agent if member is not None else None
    # The home of a guest is another program's, for which `agents` means something else.
    ours = home / "bullpen" if agent is not None and agent.asked.is_guest else home
    return ours / "agents" / _identity(team) / name


def tree_owner(home: Path, team: TeamConfig) -> str:
    """Whose the trees of a team are: no other home's, and no later team's of the same name."""
    return f"{home_mark(home)}-{_identity(team)}"


def _identity(team: TeamConfig) -> str:
    born = f"{team.created_at:.0f}" if team.created_at is not None else "0"
    return f"{team.name}.{born}"


def _spawned(name: str, agent: AgentFacts, place: ProcessRecord | None, *, fresh: bool) -> Spawned:
    spec = agent.asked
    return Spawned(name, fresh, spec.backend, spec.driver, place, spec.worktree_path)


def _cause_of(error: BaseException) -> str:
    return error.message if isinstance(error, BullpenError) else "its start was broken off"


def _last_lines(screen: str) -> str:
    return "\n".join(screen.strip().splitlines()[-_SCREEN_LINES:])


def _start_failed(name: str, error: BaseException, screen: str) -> StartFailed:
    why = error.message if isinstance(error, BullpenError) else "It was not started in time."
    remedy = error.remedy if isinstance(error, BullpenError) else ""
    return StartFailed(
        f"{name!r} could not be started: {why}",
        screen=_last_lines(screen),
        remedy=remedy or "Mend the cause and spawn it again; nothing of it is left.",
    )
