"""Letting agents in: one more starts when this machine has room for it, first come first served.

Every process that starts agents of a home asks here first. Who waits and who was let in is in one
file, so that it holds whoever starts them; what a dead process left in it is dropped.
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

from bullpen.agents import processes
from bullpen.agents.footprint import footprints, memory
from bullpen.errors import BullpenError, Conflict, Unavailable
from bullpen.protocol.agent import AgentFacts, Limits
from bullpen.protocol.presence import Presence
from bullpen.store.clock import Clock, now_ms
from bullpen.team.room_rules import (
    Footprint,
    Machine,
    Shortage,
    expected,
    goes_first,
    mean,
    shortage,
)
from bullpen.team.team import Team
from bullpen.workspace.shared_file import SharedFile

ROOM_S = 600.0
"""How long an agent waits for room, unless somebody says it."""

GROWS_S = 60.0
"""So long after it was let in an agent counts as at least what it is expected to become."""

_UNSTARTED_S = 300.0
"""So long after it was let in an agent counts that has not appeared."""

_POLL_S = 0.2
_POLL_MAX_S = 2.0


class Admission:
    """Who of a team may start on this machine."""

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
        *,
        wait_s: float = ROOM_S,
        tell: Callable[[str], None] = lambda line: None,
    ) -> float:
        """Wait until there is room for an agent that is registered; returns for how many seconds.

        From then on it counts as being there. Meanwhile it has heartbeats that say what it waits
        for, and `tell` gets the same as a line whenever that changes. If it is not started after
        all, `release` gives the room back.

        Raises:
            Unavailable: there is no room by the deadline, or there can be none.
            Conflict: somebody ended it, or started it again.
        """
        begun = time.monotonic()
        ticket = _Ticket(await self._team.agents.limits(), agent, self._team.name, name)
        poll_s, told = _POLL_S, ""
        try:
            while True:
                short = await to_thread.run_sync(self._try, ticket)
                waited = time.monotonic() - begun
                if short is None:
                    return waited
                if short.hopeless or waited >= wait_s:
                    raise _no_room(name, short, wait_s)
                await self._still_wanted(name, agent)
                await self._team.agents.beat(self._beat(name, agent, short.why))
                if short.why != told:
                    told = short.why
                    tell(f"{name} waits for room: {told}")
                await anyio.sleep(min(poll_s, wait_s - waited))
                poll_s = min(poll_s * 1.3, _POLL_MAX_S)
        except BaseException:
            with anyio.CancelScope(shield=True), suppress(BullpenError):
                await self.release(agent)
            raise

    async def release(self, agent: AgentFacts) -> None:
        """Give back the room of an agent that was let in and does not run."""
        await to_thread.run_sync(self._release, agent)

    async def _still_wanted(self, name: str, agent: AgentFacts) -> None:
        _, now = await self._team.agents.get(name)
        if now.nonce != agent.nonce or now.phase == "ended":
            raise Conflict(f"{name!r} was ended, or started again, while it waited for room.")

    def _beat(self, name: str, agent: AgentFacts, why: str) -> Presence:
        """The heartbeat of an agent that is not started yet, from whoever is about to start it."""
        return Presence.new(
            agent=name,
            state="starting",
            since_ms=agent.since_ms,
            beat_ms=self._clock(),
            detail=f"waits for room: {why}",
            host=processes.host_name(),
            nonce=agent.nonce,
            **_this_process(),
        )

    def _file(self, agent: AgentFacts) -> SharedFile:
        # The home of a guest is another program's.
        ours = self._home / "bullpen" if agent.asked.is_guest else self._home
        return SharedFile(ours / "limits" / "room.json")

    def _try(self, ticket: _Ticket) -> Shortage | None:
        """Let an agent in if it is its turn and there is room; else say why not."""
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
                return Shortage(row["why"], "End some agents, or wait longer.")
            short = self._room(kept, ticket)
            if short is not None:
                row["why"] = short.why
                return short
            queue.remove(row)
            if not ticket.inside:
                kept["let_in"][ticket.nonce] = _let_in(ticket.kind)
            return None

    def _room(self, kept: dict[str, Any], ticket: _Ticket) -> Shortage | None:
        """What stands in the way now, from what runs and from what was let in and has not grown."""
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
        # Alone it may always try: what those like it once used says little about another day.
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
    """A place in the line."""

    limits: Limits
    agent: AgentFacts
    team: str
    name: str

    @property
    def nonce(self) -> str:
        return self.agent.nonce

    @property
    def home(self) -> str:
        """What the nonces of all launches of its home begin with."""
        return self.nonce.partition("-")[0]

    @property
    def inside(self) -> bool:
        return self.agent.asked.backend == "in-process"

    @property
    def kind(self) -> str:
        """Agents of one kind use about as much."""
        return self.agent.asked.driver

    def row(self) -> dict[str, Any]:
        """The place as it is kept."""
        return {
            "nonce": self.nonce,
            "team": self.team,
            "name": self.name,
            "limits": {"memoryMb": self.limits.memory_mb, "processes": self.limits.processes},
            "why": "",
            "at": time.time(),
            **_this_process(),
        }


def _this_process() -> dict[str, Any]:
    pid = os.getpid()
    return {"pid": pid, "start": processes.start_of(pid)}


def _lives(row: dict[str, Any]) -> bool:
    return processes.is_alive(row["pid"], row["start"])


def _limits(row: dict[str, Any]) -> Limits:
    return Limits.parse({name: most for name, most in row["limits"].items() if most is not None})


def _let_in(kind: str) -> dict[str, Any]:
    return {"kind": kind, "at": time.time(), "seen": False, **_this_process()}


def _usual(
    let_in: dict[str, dict[str, Any]], running: dict[str, Footprint], *, grown: bool
) -> dict[str, list[int]]:
    """What an agent of each kind takes, from those that run, or have had their time to grow."""
    kinds: dict[str, list[Footprint]] = {}
    for nonce, row in let_in.items():
        if nonce in running and (_has_grown(row) or not grown):
            kinds.setdefault(row["kind"], []).append(running[nonce])
    return {kind: list(mean(sizes)) for kind, sizes in kinds.items()}


def _still_there(
    let_in: dict[str, dict[str, Any]], running: dict[str, Footprint]
) -> dict[str, dict[str, Any]]:
    """Those that were let in and run, or are still to appear."""
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
    """How long ago it was let in. What a clock that was set back says is taken for long ago."""
    age = time.time() - float(row["at"])
    return age if age >= 0 else float("inf")


def _no_room(name: str, short: Shortage, wait_s: float) -> Unavailable:
    waited = "" if short.hopeless else f", also after {wait_s:.0f} s"
    return Unavailable(f"There is no room for {name!r}{waited}: {short.why}.", remedy=short.remedy)
