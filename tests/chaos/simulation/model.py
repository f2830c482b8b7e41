"""The simulated model: a driver that does its tasks, writes, asks, dawdles and fails."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.contracts.driver import EVERYTHING, TurnFailed, TurnInput, TurnResult
from bullpen.agents.tools.toolbox import call, toolbox
from bullpen.protocol.agent import Usage
from bullpen.protocol.names import LEAD
from bullpen.protocol.task import Task
from bullpen.team.lookup import owner_of

_ASKED = re.compile(r"question-(\d+) from (\w+)")
_FAILURES_MAX = 2


@dataclass(slots=True)
class Memory:
    """What the history file of one agent keeps, over all its processes."""

    seen: set[str] = field(default_factory=set)
    answered: set[str] = field(default_factory=set)
    dawdled: set[str] = field(default_factory=set)
    turns: int = 0
    failures: int = 0
    failures_in_a_row: int = 0
    questions: int = 0


@dataclass(frozen=True, slots=True)
class TurnTruth:
    """One turn whose driver came to its end."""

    agent: str
    nonce: str
    words: str
    failed: bool
    # Whether that launch was the agent's at that moment.
    current: bool


@dataclass(slots=True)
class Truth:
    """What really happened, as only the models and their provider know it."""

    turns: list[TurnTruth] = field(default_factory=list)
    # The messages of each request that was answered, by agent.
    read: list[tuple[str, str]] = field(default_factory=list)
    used: dict[str, Counter[str]] = field(default_factory=dict)
    # Who was told that a task is completed now, and in which attempt.
    completed: list[tuple[str, str, int | None]] = field(default_factory=list)
    sent: int = 0


class Surroundings(Protocol):
    """What a model needs of its world."""

    chance: Random
    truth: Truth
    memories: dict[str, Memory]
    names: tuple[str, ...]
    goals: tuple[str, ...]
    questions_max: int

    async def think(self, seconds: float) -> None:
        """Let the model think. Faults happen here too."""

    def is_current(self, agent: str, nonce: str) -> bool:
        """Whether a launch may act for its agent."""

    def refuse_writing(self) -> None:
        """Raise OSError if the disk is full."""


class Model:
    """The driver of one launch."""

    name = "simulated"
    capabilities = EVERYTHING

    def __init__(self, world: Surroundings, agent: str, nonce: str) -> None:
        self._world = world
        self._agent = agent
        self._nonce = nonce
        self._memory = world.memories.setdefault(agent, Memory())

    async def start(self, desk: Desk) -> None:
        await self._world.think(0.5)

    def remembers(self, message_id: str) -> bool:
        return message_id in self._memory.seen

    async def aclose(self) -> None:
        pass

    async def turn(self, given: TurnInput, desk: Desk) -> TurnResult:
        memory = self._memory
        memory.turns += 1
        words = f"{self._agent} said {memory.turns}"
        try:
            await self._play(given, desk)
        except TurnFailed as error:
            self._ended(error.message, failed=True)
            raise
        memory.failures_in_a_row = 0
        self._ended(words, failed=False)
        return TurnResult(words)

    def _ended(self, words: str, *, failed: bool) -> None:
        current = self._world.is_current(self._agent, self._nonce)
        turn = TurnTruth(self._agent, self._nonce, words, failed, current)
        self._world.truth.turns.append(turn)

    async def _play(self, given: TurnInput, desk: Desk) -> None:
        chance = self._world.chance
        text = await self._request(given.text, given.ids, desk)
        for asked in dict.fromkeys(_ASKED.findall(text)):
            await self._answer(asked, desk)
        if desk.is_lead:
            await self._lead(desk)
            return
        if chance.random() < 0.35 and self._memory.questions < self._world.questions_max:
            self._memory.questions += 1
            self._world.truth.sent += 1
            others = [name for name in self._world.names if name != self._agent]
            to = chance.choice(others or [LEAD])
            question = f"question-{self._world.truth.sent} from {self._agent}"
            await self._use(desk, "SendMessage", to=to, summary="ask", message=question)
        for task in await self._own(desk):
            if chance.random() < 0.15 and task.id not in self._memory.dawdled:
                self._memory.dawdled.add(task.id)
                continue
            await self._more(desk, 1 + 20 * chance.random())
            attempt = desk.attempts.get(task.id)
            said = await self._use(desk, "TaskUpdate", taskId=task.id, status="completed")
            if said is not None:
                self._world.truth.completed.append((task.id, self._agent, attempt))

    async def _lead(self, desk: Desk) -> None:
        tasks = (await desk.team.tasks.list()).tasks
        for goal in self._world.goals:
            if all(task.subject != goal for task in tasks):
                await self._use(desk, "TaskCreate", subject=goal, description=f"Do {goal}.")
        tasks = (await desk.team.tasks.list()).tasks
        made = {task.subject for task in tasks}
        if made >= set(self._world.goals) and all(task.status == "completed" for task in tasks):
            await self._use(desk, "Finish", summary="all is done")

    async def _answer(self, asked: tuple[str, str], desk: Desk) -> None:
        number, sender = asked
        if number in self._memory.answered or sender == self._agent:
            return
        self._memory.answered.add(number)
        await self._use(desk, "SendMessage", to=sender, summary="reply", message=f"reply-{number}")

    async def _request(
        self, text: str, ids: tuple[str, ...], desk: Desk, thinks_s: float = 0.0
    ) -> str:
        """One request to the provider: mail in it is seen once it was answered."""
        world, memory = self._world, self._memory
        await desk.may_spend()
        await world.think(thinks_s or 1 + 30 * world.chance.random())
        if world.chance.random() < 0.08 and memory.failures_in_a_row < _FAILURES_MAX:
            memory.failures += 1
            memory.failures_in_a_row += 1
            raise TurnFailed(f"{self._agent} failed {memory.failures}")
        used = Usage.new(requests=1, input_tokens=100, output_tokens=len(memory.seen) % 50 + 1)
        world.truth.used.setdefault(self._agent, Counter()).update(
            requests=1, input_tokens=100, output_tokens=used.output_tokens
        )
        world.truth.read += [(self._agent, message_id) for message_id in ids]
        memory.seen.update(ids)
        desk.used(used)
        world.refuse_writing()
        await desk.seen(ids)
        return text

    async def _more(self, desk: Desk, thinks_s: float) -> None:
        """Another request of the same turn, with the mail that came meanwhile."""
        mail = await desk.take_mail()
        text, ids = ("", ()) if mail is None else (mail.text, mail.ids)
        await self._request(text, ids, desk, thinks_s)

    async def _use(self, desk: Desk, tool: str, **given: object) -> str | None:
        """Use a tool; None if it failed."""
        text, failed = await call(toolbox(desk), tool, given, desk)
        return None if failed else text

    async def _own(self, desk: Desk) -> list[Task]:
        tasks = (await desk.team.tasks.list()).tasks
        return [
            task
            for task in tasks
            if task.status == "in_progress" and owner_of(task, desk.team.name) == self._agent
        ]
