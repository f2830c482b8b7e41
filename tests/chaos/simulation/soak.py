"""One team of 20 agents that works on and on, with faults of every kind: does anything grow?

BULLPEN_SOAK_TURNS=100000 python tests/chaos/simulation/soak.py
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import warnings
from array import array
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
    __package__ = "chaos.simulation"

import anyio
import anyio.lowlevel

from bullpen.errors import BullpenError
from bullpen.protocol import json_text
from bullpen.protocol.changes import Event
from bullpen.protocol.names import LEAD
from bullpen.store.events.checkpoint import BEGIN, Checkpoint
from bullpen.team.tasks.check_rules import is_done
from bullpen.team.team import Teams

from . import virtual_loop
from .faults import Fault, drawn_one
from .invariants import violations
from .machine import on
from .model import Truth, TurnTruth
from .virtual_loop import SimulatedProcess, bury, play
from .world import TEAM, Setup, World

AGENTS = 20
_OPEN_TASKS = 40
_AWAITS_BETWEEN_FAULTS = 600
_SEEN_KEPT = 1_000
_ARCHIVED_KEPT = 200
"""How much archived mail of a member stays in memory, so that repeats of it are known."""

_ARCHIVED_KEPT_OF_LEAD = 2_000

_FEED_S = 20.0
_LINES_PER_MARK = 1_000


@dataclass(frozen=True, slots=True)
class Sample:
    """What was measured after so many turns."""

    turns: int
    memory_kb: int
    # What Python really has in use: freed memory does not always go back to the system.
    blocks: int
    descriptors: int
    files: int
    processes: int
    home_kb: int
    log_kb: int
    # The longest record of a member, and the mean event since the sample before.
    member_bytes: int
    event_bytes: int
    events: int

    def __str__(self) -> str:
        return (
            f"{self.turns:7d} turns: {self.memory_kb} kB, {self.blocks} blocks,"
            f" {self.descriptors} descriptors,"
            f" {self.files} files, {self.processes} processes, home {self.home_kb} kB,"
            f" log {self.log_kb} kB, member {self.member_bytes} B, event {self.event_bytes} B"
            f" of {self.events}"
        )


MEASURED = tuple(name for name in Sample.__dataclass_fields__ if name != "turns")


class LogFile:
    """The log of a store in memory, on disk: only its last lines are in memory."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w+b")
        self._last: deque[bytes] = deque(maxlen=500)
        self._many = 0
        # Where every 1,000th line begins.
        self._marks = array("Q")
        self._state = Checkpoint()
        # The event that the newest part begins with, and the one that the next would begin with.
        self._begins: tuple[bytes, bytes] | None = None
        self.bytes = 0

    def __len__(self) -> int:
        return self._many

    def append(self, line: bytes) -> None:
        if self._many % _LINES_PER_MARK == 0:
            self._marks.append(self.bytes)
        self._file.write(line + b"\n")
        self._last.append(line)
        self._many += 1
        self.bytes += len(line) + 1
        self._state.take(json_text.loads_line(line))
        if self._many % _LINES_PER_MARK == 0:
            begin = json_text.dumps_line(self._begin())
            self._begins = (begin if self._begins is None else self._begins[1], begin)

    def _begin(self) -> dict[str, Any]:
        """The event that a log after this moment begins with."""
        state = self._state
        changes = state.changes()
        return {"seq": state.seq, "time": state.time, "actor": "", "op": BEGIN, "changes": changes}

    def recent(self) -> list[bytes]:
        """The last 1,000 to 2,000 lines, after one that has the whole team; all of a short log."""
        if self._begins is None or self._many < 2 * _LINES_PER_MARK:
            return self[0:]
        start = (self._many // _LINES_PER_MARK - 1) * _LINES_PER_MARK
        return [self._begins[0], *self[start:]]

    def __iter__(self) -> Iterator[bytes]:
        return self._from(0)

    def _from(self, start: int) -> Iterator[bytes]:
        self._file.flush()
        mark = start // _LINES_PER_MARK
        with open(self._file.name, "rb") as file:
            file.seek(self._marks[mark] if mark < len(self._marks) else self.bytes)
            for line in islice(file, start - mark * _LINES_PER_MARK, None):
                yield line.rstrip(b"\n")

    def __getitem__(self, part: slice) -> list[bytes]:
        start, stop, _ = part.indices(self._many)
        gone = self._many - len(self._last)
        if start < gone:
            return list(islice(self._from(start), max(0, stop - start)))
        return list(islice(self._last, start - gone, stop - gone))

    def close(self) -> None:
        self._file.close()


class Rows:
    """A list that only grows, on disk."""

    def __init__(self, path: Path, row: type[Any]) -> None:
        self._file = path.open("w+", encoding="utf-8")
        self._row = row

    def append(self, row: Any) -> None:
        fields = row if isinstance(row, tuple) else tuple(getattr(row, name) for name in _FIELDS)
        self._file.write(json.dumps(fields) + "\n")

    def __iadd__(self, found: list[Any]) -> Rows:
        for row in found:
            self.append(row)
        return self

    def __iter__(self) -> Iterator[Any]:
        self._file.flush()
        with open(self._file.name, encoding="utf-8") as file:
            for line in file:
                fields = json.loads(line)
                yield self._row(*fields) if self._row is TurnTruth else tuple(fields)

    def close(self) -> None:
        self._file.close()


_FIELDS = tuple(TurnTruth.__dataclass_fields__)


class NoLog(list[Any]):
    """A log that nobody reads."""

    def append(self, row: Any) -> None:
        pass


class Soak(World):
    """A world without an end: tasks come and go until enough turns were taken."""

    def begin(self, turns: int, aside: Path, every: int) -> None:
        self.turns, self.every, self.aside = turns, every, aside
        self.stopped_early = False
        self.samples: list[Sample] = []
        self.questions_max = sys.maxsize
        self.names = tuple(f"agent{number:02d}" for number in range(self.setup.members))
        self.log = NoLog()
        self.faults = 0
        self._measured = 0, 0
        self._next_fault = _AWAITS_BETWEEN_FAULTS
        truth = Truth()
        truth.turns = Rows(aside / "turns", TurnTruth)  # type: ignore[assignment]
        truth.read = Rows(aside / "read", tuple)  # type: ignore[assignment]
        truth.completed = Rows(aside / "completed", tuple)  # type: ignore[assignment]
        self.truth = truth
        virtual_loop.STEPS_MAX = sys.maxsize

    @property
    def taken(self) -> int:
        return sum(memory.turns for memory in self.memories.values())

    def _next(self, process: SimulatedProcess | None, what: str, *, writes: bool) -> Fault | None:
        if not self._due and self._awaits >= self._next_fault and not self._calm:
            span = round(2 * _AWAITS_BETWEEN_FAULTS * self.chance.random())
            self._next_fault = self._awaits + span
            self._due.append(drawn_one(self.chance, at=self._awaits))
            self.faults += 1
        return super()._next(process, what, writes=writes)

    async def _feed(self) -> None:
        """Add tasks, and remove what is done or given up, as a lead does."""
        tasks = self._team(faulty=False).tasks
        number = 0
        while not self._calm:
            listed = (await tasks.list()).tasks
            for task in listed:
                if is_done(task) or (task.facts.given_up and task.status == "pending"):
                    await tasks.delete(task.id, by=LEAD, voice="human")
            for _ in range(_OPEN_TASKS - len(listed)):
                number += 1
                await tasks.add(f"goal {number}", by=LEAD)
            self._tidy()
            await anyio.sleep(_FEED_S)

    def _tidy(self) -> None:
        """Forget what only the simulation would keep for ever."""
        for memory in self.memories.values():
            if len(memory.seen) > 2 * _SEEN_KEPT:
                memory.seen = set(list(memory.seen)[-_SEEN_KEPT:])
            for kept in (memory.answered, memory.dawdled):
                if len(kept) > 500:
                    kept.clear()
        for process in [each for each in self.machine.everyone if not each.alive]:
            bury(process)
            self.machine.everyone.remove(process)
            self._silent_until.pop(process.pid, None)
            self._dying.discard(process)
        self._forget_archived()

    def _forget_archived(self) -> None:
        """Leave old mail to the log, which is on disk, as other stores do."""
        held = self.kept._teams[TEAM]
        for agent, box in held.state.mail.items():
            kept = _ARCHIVED_KEPT_OF_LEAD if agent == LEAD else _ARCHIVED_KEPT
            if len(box) - len(held.live_box(agent)) > 2 * kept:
                old = [key for key, state in box.items() if state == "archived"]
                for key in old[:-kept]:
                    del box[key]
                    del held.bodies[agent][key]

    async def _look_after(self) -> None:
        """Start agents again that stayed down, as a person does in the morning."""
        team = self._team(faulty=False)
        supervisor = self._supervisor(team)
        while not self._calm:
            await anyio.sleep(600)
            for member in (await team.agents.config()).roster:
                agent = member.agent
                if agent is not None and agent.phase == "ended" and not member.is_lead:
                    try:
                        await supervisor.resume(by=LEAD, names=[member.name])
                    except BullpenError as error:
                        self.note(f"not resumed: {error}")

    async def play(self) -> None:
        teams = Teams(self.kept, clock=self.machine.wall_ms, new_id=self.machine.new_id)
        await teams.create(TEAM, cwd="/")
        held = self.kept._teams[TEAM]
        log = LogFile(self.aside / "log")
        for line in held.log:
            log.append(line)
        held.log = log  # type: ignore[assignment]

        async def recent_events(team: str) -> list[Event]:
            await anyio.lowlevel.checkpoint()
            return [Event.decode(json_text.loads_line(line)) for line in log.recent()]

        self.kept.recent_events = recent_events  # type: ignore[method-assign]
        for goal in range(_OPEN_TASKS):
            await teams.open(TEAM).tasks.add(f"first goal {goal}", by=LEAD)
        await teams.open(TEAM).agents.limit(by=LEAD, turns=10**9)
        # A task that nobody takes, so that the run goes on.
        await teams.open(TEAM).tasks.add("the end", by=LEAD, owner=LEAD)
        self.apart(self._feed())
        self.machine.start("person", "", self._look_after)
        self.start_watch()
        while self.taken < self.turns and not self.stopped_early:
            await anyio.sleep(60)
            if self.taken >= self.every * (len(self.samples) + 1):
                self.samples.append(self.measured(log))
                print(self.samples[-1], flush=True)
            if self.outcome is not None:
                how = f"{self.outcome.status}: {self.outcome.cause}"
                self.wrong.append(f"ends: the run ended before its time, {how}")
                break
        self._calm = True
        self._away_until = self.machine.full_until = 0.0
        resting = self.machine.start("calm", "", self._rest)
        await resting.ended.wait()
        self.machine.over = True

    def measured(self, log: LogFile) -> Sample:
        gc.collect()
        status = Path("/proc/self/status").read_text("ascii")
        memory = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        threads = next(line for line in status.splitlines() if line.startswith("Threads"))
        files = [path for path in self.home.rglob("*") if path.is_file()]
        return Sample(
            self.taken,
            int(memory.split()[1]),
            sys.getallocatedblocks(),
            len(os.listdir("/proc/self/fd")),
            len(files),
            int(threads.split()[1]),
            sum(path.stat().st_size for path in files) // 1024,
            log.bytes // 1024,
            max(map(len, self.kept._teams[TEAM].state.members.values())),
            self._mean_event(log),
            len(log),
        )

    def _mean_event(self, log: LogFile) -> int:
        events, size = self._measured
        self._measured = len(log), log.bytes
        return (log.bytes - size) // max(1, len(log) - events)


def slope(samples: list[Sample], what: str) -> float:
    """How much something grows in 1,000 turns, by least squares, after a quarter to warm up."""
    rows = samples[len(samples) // 4 :]
    if len(rows) < 2:
        return 0.0
    xs = [row.turns / 1000 for row in rows]
    ys = [float(getattr(row, what)) for row in rows]
    middle, mean = sum(xs) / len(xs), sum(ys) / len(ys)
    below = sum((x - middle) ** 2 for x in xs)
    return sum((x - middle) * (y - mean) for x, y in zip(xs, ys, strict=True)) / below


def soak(
    turns: int,
    *,
    agents: int = AGENTS,
    seed: int = 1,
    every: int = 1_000,
    interruptible: bool = False,
) -> Soak:
    """Let a team take so many turns. Returns what was measured, and what was wrong.

    If it is `interruptible`, an interrupt (Ctrl-C) ends it early; what was played is checked.
    """
    place = Path(tempfile.mkdtemp(prefix="soak"))
    home, aside = place / "home", place / "aside"
    home.mkdir()
    aside.mkdir()
    world = Soak(seed, Setup(agents, 0, False, ()), home)
    world.begin(turns, aside, every)
    if interruptible:
        signal.signal(signal.SIGINT, lambda *_: setattr(world, "stopped_early", True))
    try:
        with warnings.catch_warnings(), on(world.machine):
            warnings.simplefilter("ignore")
            play(world.machine.loop, world.play(), world.machine.everyone)
        world.close_all()
        world.wrong += [each for each in violations(world) if not each.startswith("tasks:")]
    finally:
        for rows in (world.truth.turns, world.truth.read, world.truth.completed):
            rows.close()  # type: ignore[union-attr]
        log = world.kept._teams[TEAM].log
        if isinstance(log, LogFile):
            log.close()
        shutil.rmtree(place, ignore_errors=True)
    return world


def main() -> None:
    turns = int(os.environ.get("BULLPEN_SOAK_TURNS", "2000"))
    begun = time.monotonic()
    every = max(100, min(1_000, turns // 20))
    world = soak(turns, every=every, interruptible=True)
    seconds = time.monotonic() - begun
    print(f"{world.taken} turns and {world.faults} faults in {seconds:.0f} s")
    turns_of = sorted(memory.turns for memory in world.memories.values())
    print(f"{turns_of[0]} to {turns_of[-1]} turns by each of {len(turns_of)} agents")
    for what in MEASURED:
        print(f"{what}: {slope(world.samples, what):+.2f} in 1,000 turns")
    print("\n".join(world.wrong[:20]) or "Nothing was lost.")


if __name__ == "__main__":
    main()
