"""Admit agents to this machine, in order, when it has room for one more.

Every process that starts agents of a home asks here first. One file records which agents wait and
which were admitted, whatever process starts them. Entries of dead processes are dropped.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread

from bullpen.agents.system import processes
from bullpen.agents.system.footprint import footprints, memory
from bullpen.agents.work.until_stored import stored
from bullpen.errors import BullpenError, Conflict, Unavailable
from bullpen.protocol.agent import AgentFacts
from bullpen.protocol.clock import Clock, now_ms
from bullpen.protocol.team import Limits
from bullpen.team.budget.machine_rules import (
    Footprint,
    Machine,
    Shortage,
    expected,
    goes_first,
    mean,
    shortage,
)
from bullpen.team.team import Team
from bullpen.workspace.shared.locked_json import SharedFile

ROOM_S = 600.0
"""How long an agent waits for room by default."""

GROWS_S = 60.0
"""How long after its admission an agent counts at least as large as it is expected to become."""

_UNSTARTED_S = 300.0
"""How long an admitted agent counts that has not appeared."""

_POLL_S = 0.2
_POLL_MAX_S = 2.0


@dataclass(frozen=True, slots=True)
class WaitsForRoom:
    """An agent has to wait, and why. Its text is a line for people."""

    agent: str
    why: str

    def __str__(self) -> str:
        return f"{self.agent} waits for room: {self.why}"


@dataclass(frozen=True, slots=True)
class RoomWait:
    """How long an agent may wait for room, and what to call while it waits and starts.

    `told` gets why it waits when that changes; `step` its name and what it is doing.
    """

    seconds: float = ROOM_S
    told: Callable[[WaitsForRoom], None] = lambda waits: None
    step: Callable[[str, str], None] = lambda name, what: None


class Admission:
    """Decides which agents of a team may start on this machine."""

    def __init__(
        self,
        team: Team,
        home: Path,
        *,
        clock: Clock = now_ms,
        free: Callable[[], tuple[int, int] | None] = memory,
    ) -> None:
        self._team = team
        self._home = home
        self._clock = clock
        self._free = free

    async def admit(
        self,
        name: str,
        agent: AgentFacts,
        room: RoomWait = RoomWait(),  # noqa: B008 - frozen
    ) -> float:
        """Wait until there is room for a registered agent; returns how many seconds it waited.

        From then on it counts as running, until `release`. While it waits, its heartbeats say why.
        Raises Unavailable without room, or Conflict if it was ended or started again.
        """
        begun = time.monotonic()
        ticket = _Ticket(await stored(self._team.agents.limits), agent, self._team.name, name)
        poll_s, why = _POLL_S, ""
        try:
            while True:
                short = await to_thread.run_sync(self._try, ticket)
                waited = time.monotonic() - begun
                if short is None:
                    return waited
                if short.hopeless or waited >= room.seconds:
                    raise _no_room(name, short, room.seconds)
                await self._still_wanted(name, agent)
                detail = f"waits for room: {short.why}"
                with suppress(Unavailable):
                    await self._team.agents.beat(
                        processes.starting_beat(name, agent, detail, self._clock())
                    )
                if short.why != why:
                    why = short.why
                    room.told(WaitsForRoom(name, why))
                await anyio.sleep(min(poll_s, room.seconds - waited))
                poll_s = min(poll_s * 1.3, _POLL_MAX_S)
        except BaseException:
            with anyio.CancelScope(shield=True), suppress(BullpenError):
                await self.release(agent)
            raise

    async def release(self, agent: AgentFacts) -> None:
        """Free the room of an admitted agent that does not run."""
        await to_thread.run_sync(self._release, agent)

    async def _still_wanted(self, name: str, agent: AgentFacts) -> None:
        _, now = await stored(lambda: self._team.agents.get(name))
        if now.nonce != agent.nonce or now.phase == "ended":
            raise Conflict(
                f"{name!r} was ended or started again while it waited for room.",
                remedy="List the agents: bullpen ps",
            )

    def _file(self, agent: AgentFacts) -> SharedFile:
        # The home of a guest belongs to another program.
        ours = self._home / "bullpen" if agent.spec.is_guest else self._home
        return SharedFile(ours / "limits" / "room.json")

    def _try(self, ticket: _Ticket) -> Shortage | None:
        """Admit an agent if it is next and there is room; otherwise say why not."""
        with self._file(ticket.agent).changing() as kept:
            queue = [row for row in kept.get("waiting", []) if _lives(row)]
            row = next((row for row in queue if row["nonce"] == ticket.nonce), None)
            if row is None:
                row = ticket.row()
                queue.append(row)
            kept["waiting"] = queue
            before = queue[: queue.index(row)]
            first = next(
                (each for each in before if goes_first(_limits(each), ticket.limits)), None
            )
            if first is not None:
                row["why"] = f"{first['name']} of team {first['team']} comes first"
                if first["why"]:
                    row["why"] += f", and {first['why']}"
                return Shortage(row["why"], "Stop some agents, or wait longer.")
            short = self._room(kept, ticket)
            if short is not None:
                row["why"] = short.why
                return short
            queue.remove(row)
            if not ticket.inside:
                admitted = {"kind": ticket.kind, "at": time.monotonic(), "seen": False}
                kept["let_in"][ticket.nonce] = {**admitted, **_this_process()}
            return None

    def _room(self, kept: dict[str, Any], ticket: _Ticket) -> Shortage | None:
        """Why there is no room now, counting admitted agents that have not grown yet."""
        running = footprints(ticket.home)
        let_in = kept["let_in"] = _still_there(kept.get("let_in", {}), running)
        known = kept["usual"] = {
            **kept.get("usual", {}),
            **_usual(let_in, running, grown=True),
        }
        usual = {**_usual(let_in, running, grown=False), **known}
        there, to_come = dict(running), 0
        for nonce, row in let_in.items():
            if not _has_grown(row):
                now = running.get(nonce, Footprint(0, 0))
                size = expected(usual.get(row["kind"]))
                there[nonce] = Footprint(*map(max, zip(now, size, strict=True)))
                to_come += there[nonce].bytes - now.bytes
        # A single agent may always try: earlier usage says little about today.
        need = expected(usual.get(ticket.kind) if there else None)
        free = self._free()
        machine = Machine(
            Footprint(
                sum(size.bytes for size in there.values()),
                sum(size.processes for size in there.values()),
            ),
            len(there),
            None if free is None else max(0, free[0] - to_come),
            None if free is None else free[1],
        )
        return shortage(ticket.limits, machine, Footprint(0, 0) if ticket.inside else need)

    def _release(self, agent: AgentFacts) -> None:
        with self._file(agent).changing() as kept:
            queue = kept.get("waiting", [])
            kept["waiting"] = [row for row in queue if row["nonce"] != agent.nonce]
            kept.get("let_in", {}).pop(agent.nonce, None)


@dataclass(frozen=True, slots=True)
class _Ticket:
    """An agent that wants to start."""

    limits: Limits
    agent: AgentFacts
    team: str
    name: str

    @property
    def nonce(self) -> str:
        return self.agent.nonce

    @property
    def home(self) -> str:
        """The prefix of the nonces of all launches of its home."""
        return self.nonce.partition("-")[0]

    @property
    def inside(self) -> bool:
        return self.agent.spec.backend == "in-process"

    @property
    def kind(self) -> str:
        """Agents of one kind use about as much."""
        return self.agent.spec.driver

    def row(self) -> dict[str, Any]:
        """Its entry in the file."""
        return {
            "nonce": self.nonce,
            "team": self.team,
            "name": self.name,
            "limits": {"memoryMb": self.limits.memory_mb, "processes": self.limits.processes},
            "why": "",
            "at": time.monotonic(),
            **_this_process(),
        }


def _this_process() -> dict[str, Any]:
    pid = os.getpid()
    return {"pid": pid, "start": processes.start_of(pid)}


def _lives(row: dict[str, Any]) -> bool:
    return processes.is_alive(row["pid"], row["start"])


def _limits(row: dict[str, Any]) -> Limits:
    return Limits.parse({name: most for name, most in row["limits"].items() if most is not None})


def _usual(
    let_in: dict[str, dict[str, Any]], running: dict[str, Footprint], *, grown: bool
) -> dict[str, list[int]]:
    """What an agent of each kind uses, from those that run, or only those that have grown."""
    kinds: dict[str, list[Footprint]] = {}
    for nonce, row in let_in.items():
        if nonce in running and (_has_grown(row) or not grown):
            kinds.setdefault(row["kind"], []).append(running[nonce])
    return {kind: list(mean(sizes)) for kind, sizes in kinds.items()}


def _still_there(
    let_in: dict[str, dict[str, Any]], running: dict[str, Footprint]
) -> dict[str, dict[str, Any]]:
    """The admitted agents that run or may still appear."""
    kept: dict[str, dict[str, Any]] = {}
    for nonce, row in let_in.items():
        if nonce in running:
            kept[nonce] = {**row, "seen": True}
        elif not row["seen"] and _lives(row) and _age_s(row) < _UNSTARTED_S:
            kept[nonce] = row
    return kept


def _has_grown(row: dict[str, Any]) -> bool:
    return bool(row["seen"]) and _age_s(row) >= GROWS_S


def _age_s(row: dict[str, Any]) -> float:
    """How long ago it was admitted. After the machine was started again, that is long ago."""
    age = time.monotonic() - float(row["at"])
    return age if age >= 0 else float("inf")


def _no_room(name: str, short: Shortage, wait_s: float) -> Unavailable:
    waited = "" if short.hopeless else f" after {wait_s:.0f} s"
    return Unavailable(f"There is no room for {name!r}{waited}: {short.why}.", remedy=short.remedy)
