"""One simulated history: a team with its run watch, foreman, supervisor, runners and models."""

from __future__ import annotations

import contextvars
import hashlib
import shutil
import tempfile
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import anyio
import anyio.lowlevel

from bullpen.agents.contracts.backend import Launch
from bullpen.agents.runner.desk import RunnerDesk
from bullpen.agents.runner.loop import Runner
from bullpen.agents.runner.pace import Pace
from bullpen.agents.supervisor.supervisor import Supervisor
from bullpen.agents.system import processes
from bullpen.agents.system.transcript import Transcript, row_of
from bullpen.errors import BullpenError, Conflict, Unavailable
from bullpen.protocol.agent import AgentSpec, ProcessRecord
from bullpen.protocol.changes import Change, PutTask
from bullpen.protocol.clock import iso, now_ms
from bullpen.protocol.message import Message
from bullpen.protocol.names import LEAD
from bullpen.protocol.payloads import Control, payload_of
from bullpen.runs.watch.ending import QueueState
from bullpen.runs.watch.foreman import Foreman
from bullpen.runs.watch.lead_mail import LeadMail
from bullpen.runs.watch.outcome import Outcome
from bullpen.runs.watch.restarts import Restarts
from bullpen.runs.watch.team_run import RunServices, TeamRun
from bullpen.store.memory import MemoryStore
from bullpen.team.lookup import owner_of
from bullpen.team.team import Team, Teams

from .faults import KINDS, Fault, Kind, drawn
from .faulty_store import FaultyStore
from .machine import HOST, Machine, on
from .model import Memory, Model, Truth
from .virtual_loop import PROCESS, SimulatedProcess, Stuck, play

TEAM = "sim"
PACE = Pace(beat_s=30.0, beat_ttl_s=90.0, place_look_s=60.0, rest_s=18.0)
_NAMES = ("ann", "bob", "cyd", "dan", "eve")
_END_S = 1_800.0
"""How long after its last fault a run may take to its end."""

_REST_S = 1_800.0
"""How long after the run its agents may take to come to rest."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What a history begins with."""

    members: int
    tasks: int
    led: bool
    faults: tuple[Fault, ...]

    def __str__(self) -> str:
        led = "led" if self.led else "no lead"
        what = ", ".join(map(str, self.faults)) or "no faults"
        return f"{self.members} members, {self.tasks} tasks, {led}; {what}"


def setup_of(seed: int, kinds: tuple[Kind, ...] = KINDS) -> Setup:
    """The setup that a seed stands for."""
    chance = Random(f"setup {seed}")
    members = chance.choice((1, 1, 1, 2, 2, 3))
    return Setup(
        members, chance.choice((1, 1, 1, 2, 2, 3)), chance.random() < 0.35, drawn(chance, kinds)
    )


class SimulatedBackend:
    """Runs each launch as a process of the simulated machine."""

    name = "simulated"

    def __init__(self, world: World) -> None:
        self._world = world

    async def check(self) -> None:
        pass

    async def start(self, launch: Launch) -> ProcessRecord:
        world = self._world
        process = world.machine.start(launch.agent, launch.nonce, lambda: world.agent(launch))
        return ProcessRecord.new(backend=self.name, host=HOST, pid=process.pid, start=process.start)

    async def alive(self, place: ProcessRecord) -> bool:
        return self._world.machine.find(place.pid, place.start) is not None

    async def stop(self, place: ProcessRecord, nonce: str, *, grace_s: float) -> None:
        process = self._world.machine.find(place.pid, place.start)
        if process is None:
            return
        self._world.machine.terminate(process)
        with anyio.move_on_after(grace_s):
            await process.ended.wait()
        if process.alive:
            self._world.note(f"kill -9 {process.name}")
            self._world.machine.kill(process)

    async def screen(self, place: ProcessRecord) -> str:
        return ""

    def attach(self, place: ProcessRecord) -> list[str] | None:
        return None

    async def places(self) -> dict[str, ProcessRecord]:
        return {}

    async def aclose(self) -> None:
        pass


class SimulatedTranscript(Transcript):
    """A transcript on the disk of the simulated machine, which can be full."""

    machine: Machine

    def _write(self) -> None:
        if not self.machine.disk_is_full:
            super()._write()


@dataclass
class World:
    """One history while it is played, and what is known about it afterwards."""

    seed: int
    setup: Setup
    home: Path
    machine: Machine = field(init=False)
    chance: Random = field(init=False)
    truth: Truth = field(default_factory=Truth)
    memories: dict[str, Memory] = field(default_factory=dict)
    log: list[tuple[float, str, str]] = field(default_factory=list)
    outcome: Outcome | None = None
    # Errors that ended the run watch, and how often agents were started in the calm at the end.
    broke: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    # Requests that a killed process could not write down, because the disk was full.
    unknowable: int = 0

    def __post_init__(self) -> None:
        self.machine = Machine(self.seed)
        self.chance = self.machine.chance
        self.names = _NAMES[: self.setup.members]
        self.questions_max = 2
        self.goals = tuple(f"goal {number + 1}" for number in range(self.setup.tasks))
        self.kept = MemoryStore(clock=self.machine.wall_ms)
        self.store = FaultyStore(self.kept, self)
        self._due = list(self.setup.faults)
        self._awaits = 0
        self._calm = False
        self._away_until = 0.0
        self._silent_until: dict[int, float] = {}
        self._quiet_at = self.machine.now
        self._open: list[Transcript] = []
        self.watch: SimulatedProcess | None = None

    # What the store and the models ask at every await.

    async def before(self, what: str, *, writes: bool) -> bool:
        process = PROCESS.get()
        fault = self._next(process, what, writes=writes)
        if self.chance.random() < 0.25:
            # Otherwise it is the first to be done.
            await anyio.sleep(0.1 * self.chance.random())
        lost = False
        if fault is not None and process is not None:
            lost = await self._happen(fault, process, writes=writes)
        if self.machine.now < self._away_until:
            raise away("The store does not answer.")
        if writes and self.machine.disk_is_full:
            raise away("No space left on device.")
        return lost

    async def after(self, what: str, *, lost: bool) -> None:
        if not lost:
            return
        process = PROCESS.get()
        if process is not None and process in self._dying:
            await self._die(process)
        raise away("The answer of the store was lost.")

    def silent_s(self) -> float:
        process = PROCESS.get()
        if process is None:
            return 0.0
        # Whoever watches the run would look at every change, and nothing depends on that.
        soon = 25.0 if process is self.watch else 0.0
        return max(soon, self._silent_until.get(process.pid, 0.0) - self.machine.now)

    async def think(self, seconds: float) -> None:
        process = PROCESS.get()
        fault = self._next(process, "model", writes=False)
        if fault is not None and process is not None:
            await anyio.sleep(seconds * self.chance.random())
            try:
                if await self._happen(fault, process, writes=False):
                    await self._die(process)
            except Unavailable:
                # The store has nothing to do with it.
                pass
        await anyio.sleep(seconds)

    def refuse_writing(self) -> None:
        self.machine.refuse_writing()

    def is_current(self, agent: str, nonce: str) -> bool:
        member = self.kept._teams[TEAM].team.member(agent)
        facts = None if member is None else member.agent
        return facts is not None and facts.nonce == nonce and facts.phase != "ended"

    def expired(self, owners: dict[str, str | None], changes: Sequence[Change]) -> None:
        """Note who lost a task because its lease ran out: nobody that lives may."""
        for change in changes:
            owner = owners.get(change.task.id) if isinstance(change, PutTask) else None
            living = any(each.alive and each.name == owner for each in self.machine.everyone)
            if owner is not None and living:
                self.wrong.append(f"lease: {owner} lost a task, though it is alive")

    def owners(self) -> dict[str, str | None]:
        """Who works on which task now."""
        tasks = self.kept._teams[TEAM].tasks().values()
        return {task.id: owner_of(task, TEAM) for task in tasks if task.status == "in_progress"}

    def note(self, what: str) -> None:
        self.log.append((self.machine.now, "", what))

    def _next(self, process: SimulatedProcess | None, what: str, *, writes: bool) -> Fault | None:
        """The fault that happens at this await."""
        if process is None:
            return None
        self._awaits += 1
        self.log.append((self.machine.now, process.name, what))
        if self._calm:
            return None
        aimed = writes and what != "beat" and process is not self.watch
        for place, fault in enumerate(self._due):
            if fault.at > self._awaits:
                break
            if aimed or not fault.aims:
                return self._due.pop(place)
        return None

    _dying: set[SimulatedProcess] = field(default_factory=set)

    async def _happen(self, fault: Fault, process: SimulatedProcess, *, writes: bool) -> bool:
        """Let a fault happen. Returns whether the answer of the store gets lost."""
        machine, seconds = self.machine, fault.seconds
        self.note(f"! {fault} in {process.name}")
        # A clock that is set delays nothing.
        lasts_s = 0.0 if fault.kind == "jump" else seconds
        self._quiet_at = max(self._quiet_at, machine.now + lasts_s)
        match fault.kind:
            case "refuse":
                raise away("The store refused once.")
            case "lost_answer":
                if not writes:
                    raise away("The answer of the store was lost.")
                return True
            case "away":
                self._away_until = machine.now + seconds
            case "delay":
                await anyio.sleep(seconds)
            case "drop":
                await self._die(process)
            case "drop_after":
                self._dying.add(process)
                return True
            case "jump":
                machine.set_by_s += seconds
            case "stop":
                machine.stop_for(process, seconds)
                await anyio.lowlevel.checkpoint()
            case "suspend" if fault.at % 2:
                machine.set_by_s += seconds
            case "suspend":
                machine.suspend(seconds)
                await anyio.lowlevel.checkpoint()
            case "full_disk":
                machine.full_until = machine.now + seconds
            case "silent":
                self._silent_until[process.pid] = machine.now + seconds
            case "cancel" | "pause":
                self.apart(self._order(fault.kind, seconds))
            case "release":
                self.apart(self._release())
        return False

    async def _die(self, process: SimulatedProcess) -> None:
        self.note(f"{process.name} is killed")
        self.machine.kill(process)
        if process is self.watch:
            self.apart(self._watch_again())
        await anyio.sleep_forever()

    def apart(self, body: Coroutine[Any, Any, None]) -> None:
        """Do something that belongs to no process."""
        self.machine.loop.create_task(body, context=contextvars.Context())

    async def _order(self, action: str, seconds: float) -> None:
        """The lead gives an order, and takes it back."""
        name = self.chance.choice(self.names)
        for each in [action, "resume"] if action == "pause" else [action]:
            order = Control.new(
                action=each, sender=LEAD, reason="a whim", timestamp=iso(self.machine.wall_ms())
            )
            try:
                await self._team(faulty=False).mailbox.send(name, order.text(), sender=LEAD)
            except BullpenError as error:
                self.note(f"no order: {error.message}")
            await anyio.sleep(seconds)

    async def _release(self) -> None:
        """The lead takes a task from its owner, who may be working on it."""
        owned = [task_id for task_id, owner in self.owners().items() if owner is not None]
        if owned:
            task_id = self.chance.choice(owned)
            await self._team(faulty=False).tasks.release(task_id, by=LEAD, reason="a whim")

    # The processes.

    def _team(self, *, faulty: bool = True) -> Team:
        store = self.store if faulty else self.kept
        return Teams(store, clock=self.machine.wall_ms, new_id=self.machine.new_id).open(TEAM)

    def _supervisor(self, team: Team) -> Supervisor:
        return Supervisor(
            team,
            home=self.home,
            backends={SimulatedBackend.name: SimulatedBackend(self)},
            environ={},
            check=lambda spec, in_money: None,
            program=("simulated",),
        )

    async def agent(self, launch: Launch) -> None:
        """The main program of an agent's process."""
        team = self._team()
        _, agent = await team.agents.get(launch.agent)
        folder = await self._supervisor(team).starter.folder(launch.agent)
        SimulatedTranscript.machine = self.machine
        transcript = SimulatedTranscript(folder)
        self._open.append(transcript)
        driver = Model(self, launch.agent, launch.nonce)
        desk = RunnerDesk(
            team,
            launch.agent,
            agent.spec,
            nonce=launch.nonce,
            folder=folder,
            env={},
            transcript=transcript,
            colleagues=None,
            now=now_ms,
            remembers=driver.remembers,
        )
        place = processes.this_process(SimulatedBackend.name, group=None)
        runner = Runner(desk, driver, place=place, pace=PACE)
        process = PROCESS.get()
        assert process is not None
        process.on_term = lambda: runner.stop("lost", "its process got SIGTERM")
        process.on_kill = lambda: self._forget(transcript)
        try:
            ended = await runner.run()
            self.note(f"{launch.agent} ended: {ended.end} {ended.cause}")
        finally:
            self.close(transcript)

    def close(self, transcript: Transcript) -> None:
        """Close a transcript, as the end of its process does."""
        if transcript in self._open:
            self._open.remove(transcript)
            transcript.close()

    def close_all(self) -> None:
        """Close what killed processes left open."""
        for transcript in list(self._open):
            self.close(transcript)

    def _forget(self, transcript: Transcript) -> None:
        """Count what nobody can know any more: what a full disk refused until the kill."""
        for line in transcript._kept:
            row = row_of(line)
            if row.get("kind") == "usage":
                self.unknowable += 1
        self.close(transcript)

    def start_watch(self) -> None:
        self.watch = self.machine.start("watch", "", self._watch)

    async def _watch_again(self) -> None:
        await anyio.sleep(15)
        if self.outcome is None:
            self.start_watch()

    async def _watch(self) -> None:
        """The main program of the process that watches the run."""
        team = self._team()
        supervisor = self._supervisor(team)
        restarts = Restarts(patient=True, members=None)
        led = self.setup.led
        foreman = Foreman(
            team,
            supervisor,
            led=led,
            returning=lambda name, agent: restarts.comes_back(name, agent, anyio.current_time()),
            trees=False,
            every_s=45.0,
        )
        services = RunServices(
            restarts=restarts,
            patient=True,
            chores=[foreman] if led else [foreman, LeadMail(team)],
            queue=QueueState,
            quiet=lambda: False,
            backlogs=None,
            forge=None,
            notices=(),
            needs=_nothing,
            told=[],
        )
        seen = self.kept._teams[TEAM].state.seq
        run = TeamRun(team, supervisor, lambda progress: None, services, seen=seen, keep=True)

        async def begin() -> None:
            for name in (*([LEAD] if led else []), *self.names):
                await self._spawn(supervisor, name)

        try:
            self.outcome = await run.run(begin, led=led, timeout_s=None)
        except BullpenError as error:
            self.note(f"the run broke: {error}")
            if run.begun and not isinstance(error, Conflict):
                self.broke.append(str(error))
            self.apart(self._watch_again())

    async def _spawn(self, supervisor: Supervisor, name: str) -> None:
        spec = AgentSpec.new(
            driver="simulated",
            backend=SimulatedBackend.name,
            cwd="/",
            mode="bypassPermissions",
            claims=name != LEAD,
            prompt="Reach the goals." if name == LEAD else None,
            options={"until_done": True} if name == LEAD else {},
        )
        while True:
            try:
                await supervisor.spawn(name, spec, by=LEAD, key=f"key-{name}")
                if (await self._team().agents.get(name))[1].end == "failed":
                    # A person sees that its start failed, and starts it again.
                    await supervisor.resume(by=LEAD, names=[name])
                return
            except Unavailable as error:
                self.note(f"{name} is not started: {error.message}")
                await anyio.sleep(2)

    # The history.

    async def play(self) -> None:
        """Play the history to its end."""
        teams = Teams(self.kept, clock=self.machine.wall_ms, new_id=self.machine.new_id)
        await teams.create(TEAM, cwd="/")
        if not self.setup.led:
            for goal in self.goals:
                await teams.open(TEAM).tasks.add(goal, by=LEAD)
        self.start_watch()
        while self.outcome is None:
            if self.machine.now > self._quiet_at + _END_S:
                self.wrong.append(
                    f"ends: the run did not end within {_END_S:g} s of its last fault"
                )
                break
            await anyio.sleep(10)
        self.note(f"outcome {None if self.outcome is None else self.outcome.status}")
        self._calm = True
        self._away_until = self.machine.full_until = 0.0
        resting = self.machine.start("calm", "", self._rest)
        await resting.ended.wait()
        self.machine.over = True

    async def _rest(self) -> None:
        """Start agents that were lost, and wait until all are at rest."""
        team = self._team(faulty=False)
        supervisor = self._supervisor(team)
        begun, rested = self.machine.now, 0
        while rested < 2:
            await supervisor.tend(by=LEAD)
            config = await team.agents.config()
            lost = [
                member.name
                for member in config.roster
                if member.agent is not None
                and not member.is_lead
                and member.agent.phase == "ended"
                and member.agent.end in ("lost", "failed", "suspended")
            ]
            for name in lost:
                self.note(f"{name} is started again at rest")
                await supervisor.resume(by=LEAD, names=[name])
            why = await self._busy(team)
            rested = 0 if why else rested + 1
            # A fault may have happened since the run ended.
            if why and self.machine.now > max(begun, self._quiet_at) + _REST_S:
                self.wrong.append(f"rest: {why} after {_REST_S:g} s without faults")
                return
            await anyio.sleep(30)

    async def _busy(self, team: Team) -> str | None:
        """Why the team is not at rest yet."""
        config = await team.agents.config()
        for member in config.roster:
            agent = member.agent
            if agent is None or agent.phase == "ended":
                if member.is_active:
                    return f"{member.name} has ended and is shown as working"
                continue
            if agent.phase != "running":
                return f"{member.name} is {agent.phase}"
            if member.is_active:
                return f"{member.name} is shown as working"
            unread = (await team.mailbox.read(member.name)).unread
            if unread:
                return f"{len(unread)} messages wait for {member.name}"
        for task in (await team.tasks.list()).tasks:
            if task.status == "in_progress":
                return f"task {task.id} is in progress"
        return None

    def digest(self) -> str:
        """What is equal for equal histories."""
        events = self.kept._teams[TEAM].log
        told = "\n".join([*map(str, self.log), *map(str, events)])
        return hashlib.sha256(told.encode()).hexdigest()[:16]

    def story(self) -> str:
        """What happened, for people: every await and every fault, in order."""
        return "\n".join(f"{at:10.3f} {who:9} {what}" for at, who, what in self.log)


def away(what: str) -> Unavailable:
    return Unavailable(what, remedy="Wait.")


async def _nothing() -> list[str]:
    return []


def is_order(message: Message) -> bool:
    """Whether a message is for the runner, not for the model."""
    return isinstance(payload_of(message.text), Control)


def history(seed: int, setup: Setup | None = None, *, keep_home: Path | None = None) -> World:
    """Play the history of one seed."""
    from .invariants import violations

    setup = setup or setup_of(seed)
    home = keep_home or Path(tempfile.mkdtemp(prefix="sim", dir=_FAST))
    world = World(seed, setup, home)
    with on(world.machine):
        try:
            play(world.machine.loop, world.play(), world.machine.everyone)
        except Stuck as error:
            world.wrong.append(f"stuck: {error}")
    world.close_all()
    world.wrong = list(dict.fromkeys([*world.wrong, *violations(world)]))[:10]
    if keep_home is None:
        shutil.rmtree(home, ignore_errors=True)
    return world


_FAST = "/dev/shm" if Path("/dev/shm").is_dir() else None
