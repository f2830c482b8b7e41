"""The simulated machine: its clocks, processes, disk and chance. One seed decides all of it."""

from __future__ import annotations

import contextvars
import errno
import functools
import itertools
import os
import random
import secrets
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any, TypeVar

import anyio.lowlevel
from anyio import to_thread
from anyio._backends import _asyncio as anyio_asyncio

from bullpen.agents.supervisor import admission, start, supervisor
from bullpen.agents.system import process_table, processes
from bullpen.agents.system.process_owners import Owners
from bullpen.agents.system.process_table import Process
from bullpen.agents.system.secrets import Redactor
from bullpen.errors import Unavailable
from bullpen.protocol import json_text, names
from bullpen.protocol.team import Member, TeamConfig
from bullpen.runs.watch import team_run
from bullpen.store import memory
from bullpen.store.contract import Entry, Mailbox

from .virtual_loop import PROCESS, SimulatedProcess, VirtualLoop

T = TypeVar("T")

HOST = "simulated"
_BORN_S = 1_800_000_000.0


class Machine:
    """One machine: what its clocks show, what runs on it, and whether its disk is full."""

    def __init__(self, seed: int) -> None:
        self.loop = VirtualLoop()
        self.chance = random.Random(seed)
        # Ids do not depend on how often anything else was drawn.
        self._ids = random.Random(seed ^ 0x5EED)
        self.set_by_s = 0.0
        self.full_until = 0.0
        self._asleep_until = 0.0
        self.everyone: list[SimulatedProcess] = []
        self._pids = itertools.count(1000)
        self.crashes: list[str] = []
        self.over = False

    @property
    def now(self) -> float:
        """Seconds of the monotonic clock."""
        return self.loop.now

    def wall_ms(self) -> int:
        """The wall clock, which can be set."""
        return round((_BORN_S + self.loop.now + self.set_by_s) * 1000)

    @property
    def disk_is_full(self) -> bool:
        return self.loop.now < self.full_until

    def refuse_writing(self, path: object = "") -> None:
        """Raise the error of a full disk, if it is full."""
        if self.disk_is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    def new_id(self) -> str:
        return str(uuid.UUID(int=self._ids.getrandbits(128), version=4))

    def token_hex(self, size: int | None = None) -> str:
        return f"{self._ids.getrandbits(8 * (size or 16)):0{2 * (size or 16)}x}"

    def start(self, name: str, nonce: str, main: Callable[[], Awaitable[None]]) -> SimulatedProcess:
        """Start a process."""
        context = contextvars.copy_context()
        process = SimulatedProcess(name, next(self._pids), nonce, context)
        self.everyone.append(process)
        context.run(PROCESS.set, process)

        async def run() -> None:
            try:
                await main()
            except Exception as error:
                # An agent that cannot record its end has crashed, as far as others can tell.
                passes = _is_full_disk(error) or isinstance(error, Unavailable)
                if process.alive and not self.over and not passes:
                    self.crashes.append(f"{name} crashed: {error!r}")
            finally:
                process.alive = False
                process.ended.set()

        self.loop.create_task(run(), context=context)
        if self.now < self._asleep_until:
            self.stop_for(process, self._asleep_until - self.now)
        return process

    def kill(self, process: SimulatedProcess) -> None:
        """End a process at once. Nothing of it runs again, not even its cleanup."""
        process.alive = False
        process.ended.set()
        if process.on_kill is not None:
            process.on_kill()
            process.on_kill = None

    def terminate(self, process: SimulatedProcess) -> None:
        """Ask a process to end, as SIGTERM and SIGCONT do."""
        self.loop.go_on(process)
        if process.on_term is not None:
            self.loop.call_soon(process.on_term, context=process.context)

    def stop_for(self, process: SimulatedProcess, seconds: float) -> None:
        """Stop a process, as SIGSTOP does, and continue it later.

        One that is stopped already goes on when the longer stop is over.
        """
        process.stopped = True
        process.stopped_until = max(process.stopped_until, self.now + seconds)
        context = contextvars.Context()
        context.run(self.loop.call_later, seconds, self._go_on, process)

    def suspend(self, seconds: float) -> None:
        """Let the whole machine sleep: whoever is started meanwhile begins when it wakes up."""
        self._asleep_until = max(self._asleep_until, self.now + seconds)
        for each in self.everyone:
            if each.alive:
                self.stop_for(each, seconds)

    def _go_on(self, process: SimulatedProcess) -> None:
        if self.now >= process.stopped_until:
            self.loop.go_on(process)

    def find(self, pid: int | None, start: str | None) -> SimulatedProcess | None:
        """The living process with this pid and start."""
        for process in reversed(self.everyone):
            if process.alive and process.pid == pid and process.start == start:
                return process
        return None

    # What takes the place of the system's calls.

    def getpid(self) -> int:
        process = PROCESS.get()
        return 1 if process is None else process.pid

    def look(self, pid: int) -> Process | None:
        for process in reversed(self.everyone):
            if process.pid == pid:
                return _row(process) if process.alive else None
        return None

    def start_of(self, pid: int) -> str | None:
        row = self.look(pid)
        return None if row is None else row.start

    def table(self) -> list[Process]:
        return [_row(process) for process in self.everyone if process.alive]

    def marked(self) -> dict[int, str]:
        return {each.pid: each.nonce for each in self.everyone if each.alive and each.nonce}


def _row(process: SimulatedProcess) -> Process:
    return Process(process.pid, process.pid, "S", process.start, 1)


def _is_full_disk(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return all(_is_full_disk(each) for each in error.exceptions)
    return isinstance(error, OSError) and error.errno == errno.ENOSPC


async def _inline(work: Callable[..., T], *args: Any, **_: Any) -> T:
    """What a thread would do, done here: the order of threads is not ours to repeat."""
    await anyio.lowlevel.checkpoint()
    return work(*args)


def _number_of(scope: Any) -> int:
    """The hash of a cancel scope: scopes lie in sets, and addresses must not order a history."""
    number: int = getattr(scope._host_task, "number", 0)
    return number


class ReadMailbox(Mailbox):
    """A mailbox that many read: what is unread is found once."""

    @cached_property
    def unread(self) -> tuple[Entry, ...]:
        return super().unread


class Parsed:
    """The records of a store in memory, each parsed once: they are frozen, and serve everybody."""

    def __init__(self) -> None:
        self._held: object = None
        self._forget()

    def _forget(self) -> None:
        self._seq = -1
        self._header: object = None
        self._team: TeamConfig | None = None
        self._members: dict[str, tuple[bytes, Member]] = {}
        self._boxes: dict[str, tuple[int, Mailbox]] = {}

    def _meet(self, held: object) -> None:
        if self._held is not held:
            self._held = held
            self._forget()

    def team(self, held: Any) -> TeamConfig:
        """The team; only what changed is parsed."""
        self._meet(held)
        if self._team is None or self._seq != held.state.seq:
            before, self._seq = self._team, held.state.seq
            roster = tuple(self._member(name, row) for name, row in held.state.members.items())
            rows = [member.raw for member in roster]
            if before is not None and self._header is held.state.team:
                self._team = before.with_rows(rows)
                self._team.__dict__["facts"] = before.facts
            else:
                header = json_text.loads(json_text.dumps_line(held.state.team))
                self._team = TeamConfig.parse({**header, "members": rows})
                self._header = held.state.team
            self._team.__dict__["_rows"] = roster, ()
        return self._team

    def _member(self, name: str, row: bytes) -> Member:
        known = self._members.get(name)
        if known is None or known[0] is not row:
            known = self._members[name] = row, Member.parse(json_text.loads(row))
        return known[1]

    def mailbox(self, held: Any, agent: str, *, after: str | None, history: bool) -> Mailbox:
        """A mailbox, read once for each state of it."""
        if after is not None or history:
            return _read_mailbox(held, agent, after=after, history=history)
        self._meet(held)
        touched = held.touched.get(agent, 0)
        known = self._boxes.get(agent)
        if known is None or known[0] != touched:
            found = _read_mailbox(held, agent, after=None, history=False)
            known = self._boxes[agent] = touched, ReadMailbox(found.entries)
        return known[1]


_read_mailbox: Callable[..., Mailbox] = vars(memory._Held)["mailbox"]


@contextmanager
def on(machine: Machine) -> Iterator[None]:
    """Let all code use this machine instead of the real one."""
    parsed = Parsed()
    with patched(
        (time, "time_ns", lambda: machine.wall_ms() * 1_000_000),
        (time, "time", lambda: machine.wall_ms() / 1000),
        (time, "monotonic", lambda: machine.loop.now),
        (os, "getpid", machine.getpid),
        (uuid, "uuid4", lambda: uuid.UUID(machine.new_id())),
        (secrets, "token_hex", machine.token_hex),
        (to_thread, "run_sync", _inline),
        (processes, "host_name", lambda: HOST),
        (processes, "look", machine.look),
        (processes, "start_of", machine.start_of),
        (processes, "table", machine.table),
        (processes, "marked", machine.marked),
        (processes, "same_boot", lambda start: True),
        (process_table, "look", machine.look),
        (processes, "owners", lambda: Owners({})),
        (admission.Admission, "_try", lambda self, ticket: None),
        (admission.Admission, "_release", lambda self, agent: None),
        (start, "home_mark", lambda home: "simulate"),
        (start, "_POLL_S", 1.0),
        (supervisor, "_POLL_S", 1.0),
        # Everything that looks regularly looks less often: a look costs time, waiting does not.
        (team_run, "_LOOK_S", 30.0),
        (anyio_asyncio.CancelScope, "__hash__", _number_of),
        # Only for speed.
        (memory, "_load", functools.lru_cache(2_000)(memory._load)),
        (memory._Held, "team", property(parsed.team)),
        (
            memory._Held,
            "mailbox",
            lambda held, agent, **which: parsed.mailbox(held, agent, **which),
        ),
        (Redactor, "text", lambda self, text: text),
        (Redactor, "value", lambda self, value: value),
        (names, "check_component", lambda name, *, kind: name),
    ):
        yield


@contextmanager
def patched(*changes: tuple[Any, str, Any]) -> Iterator[None]:
    before = [(where, name, vars(where)[name]) for where, name, _ in changes if name in vars(where)]
    absent = [(where, name) for where, name, _ in changes if name not in vars(where)]
    try:
        for where, name, value in changes:
            setattr(where, name, value)
        yield
    finally:
        for where, name, value in before:
            setattr(where, name, value)
        for where, name in absent:
            delattr(where, name)
