"""Teams that live through a random history, for what looks at them."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from contextlib import suppress

from bullpen.errors import BullpenError
from bullpen.protocol.agent import AgentSpec, End, ProcessRecord, Spent
from bullpen.protocol.names import LEAD
from bullpen.store.contract import Mark
from bullpen.team.team import Team

NAMES = ("ann", "bob", "cyd")
ENDS: tuple[End, ...] = ("stopped", "failed", "lost", "finished")
PLACE = ProcessRecord.new(backend="subprocess", host="elsewhere", pid=1, start="1-1")
SPEC = AgentSpec.new(driver="scripted", backend="subprocess", cwd="/", prompt="Go")


class Fate:
    """Does one thing after another to a team, as chance wants it."""

    def __init__(self, team: Team, seed: int) -> None:
        self._team = team
        self._random = random.Random(seed)
        self._nonces: dict[str, str] = {}
        self._reports = 0

    async def strike(self) -> None:
        """Do something; what is refused is refused."""
        acts: tuple[Callable[[str], Awaitable[object]], ...] = (
            self._add, self._add, self._claim, self._done, self._release, self._send, self._send,
            self._see, self._spawn, self._ready, self._turn, self._idle, self._end, self._ask,
            self._inject, self._answer, self._delete, self._depend, self._broadcast, self._leave,
        )  # fmt: skip
        with suppress(BullpenError):
            await self._random.choice(acts)(self._random.choice(NAMES))

    async def _tasks(self) -> list[str]:
        return [task.id for task in (await self._team.tasks.list()).tasks] or ["1"]

    async def _one(self) -> str:
        return self._random.choice(await self._tasks())

    async def _add(self, name: str) -> object:
        after = [await self._one()] if self._random.random() < 0.5 else []
        return await self._team.tasks.add("Do it", by=name, blocked_by=after)

    async def _claim(self, name: str) -> object:
        return await self._team.tasks.claim(await self._one(), by=name)

    async def _done(self, name: str) -> object:
        return await self._team.tasks.done(await self._one(), by=name)

    async def _release(self, name: str) -> object:
        return await self._team.tasks.release(await self._one(), by=name)

    async def _delete(self, name: str) -> object:
        return await self._team.tasks.delete(await self._one(), by=LEAD)

    async def _depend(self, name: str) -> object:
        return await self._team.tasks.depend(await self._one(), await self._one(), by=LEAD)

    async def _send(self, name: str) -> object:
        return await self._team.mailbox.send(name, "Hello", sender=LEAD)

    async def _broadcast(self, name: str) -> object:
        return await self._team.mailbox.broadcast("Hello, all", sender=name)

    async def _inject(self, name: str) -> object:
        return await self._mark(name, "injected")

    async def _see(self, name: str) -> object:
        return await self._mark(name, "seen")

    async def _mark(self, name: str, how: Mark) -> object:
        entries = (await self._team.mailbox.read(name)).entries
        ids = [entry.id for entry in entries[: self._random.randint(0, 3)]]
        return await self._team.mailbox.mark(name, ids, how)

    async def _spawn(self, name: str) -> object:
        nonce = f"n-{self._random.random()}"
        made = await self._team.agents.register(name, SPEC, by=LEAD, nonce=nonce)
        self._nonces[name] = nonce
        return made

    async def _ready(self, name: str) -> object:
        return await self._team.agents.ready(name, nonce=self._nonces.get(name, ""), place=PLACE)

    async def _turn(self, name: str) -> object:
        return await self._team.agents.begin_turn(name, nonce=self._nonces.get(name, ""))

    async def _idle(self, name: str) -> object:
        self._reports += 1
        spent = Spent.new(requests=1, input_tokens=10, output_tokens=5, cost_usd=0.25, model="m")
        return await self._team.agents.end_turn(
            name, nonce=self._nonces.get(name, ""), reports={self._reports: spent}, idle=None
        )

    async def _end(self, name: str) -> object:
        how: End = self._random.choice(ENDS)
        nonce = self._nonces.get(name, "")
        return await self._team.agents.end(name, how, by=LEAD, nonce=nonce, cause="chance")

    async def _ask(self, name: str) -> object:
        return await self._team.approvals.ask_permission("Bash", {"command": "ls"}, by=name)

    async def _answer(self, name: str) -> object:
        waiting = await self._team.approvals.pending()
        yes = self._random.random() < 0.5
        return await self._team.approvals.answer(
            waiting[0].id if waiting else "", approve=yes, by=LEAD, voice="human"
        )

    async def _leave(self, name: str) -> object:
        return await self._team.roster.remove(name, by=LEAD)
