"""The store of a local process, which goes through the host process of the machine.

The operator of the machine uses it like any store. An agent reads, and sends operations: the host
decides what becomes of them.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from bullpen.errors import BullpenError, Conflict, NotFound, Unavailable
from bullpen.protocol.changes import Change, Event
from bullpen.protocol.clock import now_ms
from bullpen.protocol.message import Message
from bullpen.protocol.presence import Presence
from bullpen.protocol.team import TeamConfig
from bullpen.store.contract import (
    Committed,
    Decide,
    Finding,
    Mailbox,
    Mark,
    Store,
    Stored,
    StoreLimits,
    TeamState,
)
from bullpen.store.hosted import frames
from bullpen.store.hosted.connection import Broken, HostConnection, no_answer
from bullpen.store.hosted.replica import Replica, ReplicaView
from bullpen.store.record_checks import creation_of

_FIRST_WAIT_S = 2.0
"""How long to wait for a host that was never reached: it may be starting."""
_GRACE_S = 5.0
"""How much longer to wait for an answer than the host itself waits for a store."""
_RETRY_S = (0.01, 0.25)


class _KnownTeam:
    """What this process knows of one team, and the order of its own commits."""

    def __init__(self) -> None:
        self.order = asyncio.Lock()
        self.known: Replica | None = None

    def mark(self) -> dict[str, Any]:
        """Return which moment of the team is known."""
        known = self.known or Replica()
        return {"stamp": known.stamp or None, "seq": known.seq}

    def take(self, lacking: dict[str, Any]) -> Replica:
        """Record what the host said."""
        if self.known is None or "whole" in lacking:
            self.known = Replica.of(lacking["whole"])
        else:
            self.known.advance(lacking["seq"], frames.changes_of(lacking["changes"]))
        return self.known


class HostedStore(Store):
    """A store behind the socket at `path`, used as the owner of `token`. One event loop only.

    It reconnects to a restarted host: calls in progress are repeated so that each happens once.
    With the token of an agent, only the methods that read work, and `operate`.
    """

    def __init__(self, path: str, token: str, *, limits: StoreLimits | None = None) -> None:
        self._path, self._token = path, token
        self._limits = limits or StoreLimits()
        self._line: HostConnection | None = None
        self._connecting = asyncio.Lock()
        self._met = False
        self._known_teams: dict[str, _KnownTeam] = {}

    async def create(self, team: str, config: TeamConfig, *, actor: str) -> None:
        tries: list[bool] = []
        try:
            await self._change("create", tries, team=team, config=config.raw, actor=actor)
        except Conflict:
            if not tries or not await self._is_made_of(team, config):
                raise
        self._known_teams.pop(team, None)

    async def _is_made_of(self, team: str, config: TeamConfig) -> bool:
        """Return whether an existing team is the one that was to be created."""
        first = await self.events(team, limit=1)
        return bool(first) and list(first[0].changes) == creation_of(config)

    async def restore(self, team: str, events: Sequence[Event]) -> None:
        """Create a team from its log. Only for the operator."""
        tries: list[bool] = []
        rows = [event.encode() for event in events]
        try:
            await self._change("restore", tries, team=team, events=rows)
        except Conflict:
            if not tries or await self.events(team) != list(events):
                raise
        self._known_teams.pop(team, None)

    async def delete(self, team: str, *, actor: str) -> bool:
        deleted = await self._change("delete", [], team=team, actor=actor)
        self._known_teams.pop(team, None)
        return bool(deleted)

    async def teams(self) -> list[str]:
        """Return the teams that this identity can reach."""
        return list(await self._ask("teams"))

    async def config(self, team: str) -> TeamConfig:
        return TeamConfig.parse(await self._ask("config", team=team))

    async def read(self, team: str) -> TeamState:
        return frames.state_of(await self._ask("read", team=team))

    async def commit(self, team: str, decide: Decide, *, actor: str, op: str) -> Committed:
        """Run `decide` here, when the host gives this process its turn.

        Raises Conflict if the team changed during every attempt, and Unavailable if the host does
        not answer. If it already had the changes, the message says that their fate is unknown.
        """
        held = self._known_teams.setdefault(team, _KnownTeam())
        async with held.order:
            turn = uuid.uuid4().hex
            try:
                answer, sent, refusal = await self._decided(
                    held, team, decide, {"turn": turn, "actor": actor, "op_name": op}
                )
            except NotFound:
                self._known_teams.pop(team, None)
                raise
            except BaseException:
                if self._line is not None:
                    self._line.hand_back(turn)
                raise
        if refusal is not None:
            raise refusal
        if "changes" in answer:
            return Committed(answer["seq"], frames.changes_of(answer["changes"]))
        return Committed(answer["seq"], sent)

    async def _decided(
        self, held: _KnownTeam, team: str, decide: Decide, args: dict[str, Any]
    ) -> tuple[dict[str, Any], tuple[Change, ...], Exception | None]:
        """Run `decide` until the host knows nothing newer. Only then does a refusal count."""
        lacking = await self._ask("begin", team=team, turn=args["turn"], **held.mark())
        for _ in range(self._limits.attempts_max):
            known = held.take(lacking)
            view, changes, refusal = ReplicaView(known), tuple[Change, ...](), None
            try:
                changes = tuple(decide(view))
            except Exception as error:
                refusal = error
            basis = {"stamp": known.stamp, "seq": known.seq, "reads": view.reads.raw()}
            answer = await self._settle(team, changes, {**args, **basis})
            if "again" not in answer:
                return answer, changes, refusal
            lacking = answer["again"]
        raise Conflict(
            f"Team {team!r} changed during every attempt to commit.",
            remedy="Try again in a moment.",
        )

    async def _settle(
        self, team: str, changes: Sequence[Change], args: dict[str, Any]
    ) -> dict[str, Any]:
        tries: list[bool] = []
        try:
            answer: dict[str, Any] = await self._change(
                "settle", tries, team=team, changes=frames.changes_raw(changes), **args
            )
        except Unavailable as error:
            if tries and changes:
                raise _unknown(team, args["op_name"], error) from error
            raise
        return answer

    async def append(
        self, team: str, to: str, message: Message, *, actor: str, fresh: bool = False
    ) -> Stored:
        tries: list[bool] = []
        message_id, seq, ahead, duplicate = await self._change(
            "append", tries, team=team, to=to, message=message.raw, actor=actor, fresh=fresh
        )
        # Nobody else has an id that was created just now: this call added it.
        return Stored(message_id, seq, ahead, duplicate and not (fresh and tries))

    async def mailbox(
        self, team: str, agent: str, *, after: str | None = None, history: bool = False
    ) -> Mailbox:
        """Return a mailbox. Another agent's is returned without the texts."""
        raw = await self._ask("mailbox", team=team, agent=agent, after=after, history=history)
        return frames.box_of(raw)

    async def acknowledge(
        self, team: str, agent: str, ids: Sequence[str], state: Mark, *, actor: str
    ) -> int:
        args = {"team": team, "agent": agent, "ids": list(ids), "state": state, "actor": actor}
        return int(await self._change("acknowledge", [], **args))

    async def events(self, team: str, *, after: int = 0, limit: int | None = None) -> list[Event]:
        """Return the log, without the texts of others' mail."""
        rows = await self._ask("events", team=team, after=after, limit=limit)
        return [Event.decode(row) for row in rows]

    async def recent_events(self, team: str) -> list[Event]:
        rows = await self._ask("events", team=team, after=0, recent=True)
        return [Event.decode(row) for row in rows]

    async def watch(
        self, team: str, *, every_s: float | None = None, agent: str | None = None
    ) -> AsyncGenerator[int, None]:
        """Follow a team, also across restarts of the host, after which it yields at once."""
        args = {"team": team, "every_s": every_s, "agent": agent}
        while True:
            line = await self._connected()
            try:
                async with aclosing(line.watch(args)) as seqs:
                    async for seq in seqs:
                        yield seq
            except Broken:
                continue

    async def beat(self, team: str, presence: Presence) -> None:
        await self._ask("beat", team=team, presence=presence.raw)

    async def presence(self, team: str) -> Mapping[str, Presence]:
        rows = await self._ask("presence", team=team)
        return {agent: Presence.parse(row) for agent, row in rows.items()}

    async def checkup(self, team: str | None, *, fix: bool) -> list[Finding]:
        """Ask the host to look for damage."""
        rows = await self._ask("checkup", team=team, fix=fix)
        return [Finding(*row) for row in rows]

    async def aclose(self) -> None:
        """Close the connection. The host continues."""
        line, self._line = self._line, None
        if line is not None:
            await line.aclose()

    async def takes_operations(self) -> bool:
        """Return whether the token is an agent's, for whom the host runs operations."""
        return not (await self._connected()).is_operator

    async def operate(self, team: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Have the host run an operation of a team in the name of the token's agent.

        Raises what the operation raises, and Unavailable if the host does not answer. If it already
        had the call, the message says that its fate is unknown.
        """
        tries: list[bool] = []
        try:
            answer: dict[str, Any] = await self._change(
                "operate", tries, team=team, name=name, arguments=arguments, at_ms=now_ms()
            )
        except Unavailable as error:
            if tries:
                raise _unknown(team, name, error) from error
            raise
        return answer

    async def ask(self, what: str, **args: Any) -> Any:
        """Ask the host something that does not concern the store."""
        return await self._ask("ask", what=what, args=args)

    async def _change(self, op: str, tries: list[bool], /, **args: Any) -> Any:
        """Ask for something that must happen once, even if it has to be asked several times."""
        return await self._ask(op, tries, eid=uuid.uuid4().hex, **args)

    async def _ask(self, op: str, tries: list[bool] | None = None, /, **args: Any) -> Any:
        """Ask, again if the connection breaks; `tries` gets an item for each attempt."""
        deadline: float | None = None
        tries = [] if tries is None else tries
        while True:
            line = await self._connected(deadline)
            try:
                async with asyncio.timeout(self._limits.lock_wait_s + _GRACE_S):
                    return await line.call(op, args)
            except (Broken, TimeoutError) as error:
                tries.append(True)
                if isinstance(error, TimeoutError):
                    raise no_answer(self._path) from None
            if deadline is None:
                deadline = time.monotonic() + self._limits.lock_wait_s
            args["repeat"] = True

    async def _connected(self, deadline: float | None = None) -> HostConnection:
        """Return the connection, or a new one. Raises Unavailable, Refused (unknown_token)."""
        async with self._connecting:
            if self._line is not None and not self._line.broken:
                return self._line
            if self._line is not None:
                await self._line.aclose()
                self._line = None
            wait_s = self._limits.lock_wait_s
            wait_s = wait_s if self._met else min(wait_s, _FIRST_WAIT_S)
            deadline = time.monotonic() + wait_s if deadline is None else deadline
            pause, longest = _RETRY_S
            while True:
                try:
                    async with asyncio.timeout(max(deadline - time.monotonic(), pause)):
                        self._line = await HostConnection.open(self._path, self._token)
                except (OSError, Broken, TimeoutError):
                    if time.monotonic() + pause >= deadline:
                        raise no_answer(self._path) from None
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, longest)
                else:
                    self._met = True
                    return self._line


def _unknown(team: str, op: str, why: BullpenError) -> Unavailable:
    return Unavailable(
        f"Bullpen does not know whether {op!r} was done in team {team!r}: {why.message}",
        remedy="Check the team before you try again.",
    )
