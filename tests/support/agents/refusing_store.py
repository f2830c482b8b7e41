"""A store that fails at one chosen write, and a team of three whose every write can be chosen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import anyio

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.contracts.driver import TurnInput
from bullpen.agents.runner.pace import Pace
from bullpen.agents.tools.team_tools import SendMessageInput, send
from bullpen.errors import Unavailable
from bullpen.protocol.agent import Usage
from bullpen.protocol.changes import Change
from bullpen.protocol.clock import Clock
from bullpen.protocol.message import Message
from bullpen.protocol.names import LEAD
from bullpen.protocol.payloads import IdleNotification, payload_of
from bullpen.protocol.presence import Presence
from bullpen.store.contract import Committed, Decide, Mark, Store, Stored, View
from bullpen.team.team import Team, Teams
from support.crews import Crew, Hired, eventually, new_team

T = TypeVar("T")

Write = tuple[str, str, int]
"""Who writes, what, and for which time."""

Fault = Literal["once", "away", "lost"]
"""Refused once; refused with everything else for a while; done, but the answer is lost."""


class RefusingStore:
    """Notes every write of another store, and fails at one of them."""

    def __init__(self, inner: Store, *, away_s: float) -> None:
        self._inner = inner
        self._away_s = away_s
        self._count: Counter[tuple[str, str]] = Counter()
        self._back_at = 0.0
        self._target: Write | None = None
        self._fault: Fault = "once"
        self.writes: list[Write] = []
        self.struck = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def fail_at(self, write: Write, fault: Fault) -> None:
        self._target, self._fault = write, fault

    async def commit(self, team: str, decide: Decide, *, actor: str, op: str) -> Committed:
        changed: list[bool] = [False]
        # The rule may run in a thread.
        now = anyio.current_time()

        def noted(view: View) -> Sequence[Change]:
            changes = decide(view)
            changed[:] = [bool(changes)]
            if changes and self._strikes_before(actor, op, now):
                raise _away()
            return changes

        done = await self._inner.commit(team, noted, actor=actor, op=op)
        self._after(actor, op, wrote=changed[0])
        return done

    async def append(
        self, team: str, to: str, message: Message, *, actor: str, fresh: bool = False
    ) -> Stored:
        return await self._write(
            actor,
            "message",
            lambda: self._inner.append(team, to, message, actor=actor, fresh=fresh),
        )

    async def acknowledge(
        self, team: str, agent: str, ids: Sequence[str], state: Mark, *, actor: str
    ) -> int:
        return await self._write(
            actor,
            f"mail.{state}",
            lambda: self._inner.acknowledge(team, agent, ids, state, actor=actor),
        )

    async def beat(self, team: str, presence: Presence) -> None:
        await self._write(presence.agent, "beat", lambda: self._inner.beat(team, presence))

    async def _write(self, actor: str, op: str, write: Callable[[], Awaitable[T]]) -> T:
        if self._strikes_before(actor, op, anyio.current_time()):
            raise _away()
        done = await write()
        self._after(actor, op, wrote=True)
        return done

    def _strikes_before(self, actor: str, op: str, now: float) -> bool:
        if now < self._back_at:
            return True
        if not self._is_target(actor, op) or self._fault == "lost":
            return False
        self.struck = True
        self._target = None
        if self._fault == "away":
            self._back_at = now + self._away_s
        return True

    def _after(self, actor: str, op: str, *, wrote: bool) -> None:
        if not wrote:
            return
        lost = self._is_target(actor, op)
        self._count[actor, op] += 1
        self.writes.append((actor, op, self._count[actor, op]))
        if lost:
            self.struck = True
            self._target = None
            raise _away()

    def _is_target(self, actor: str, op: str) -> bool:
        return self._target == (actor, op, self._count[actor, op] + 1)


def _away() -> Unavailable:
    return Unavailable("The store is away.", remedy="Wait until it is back.")


@dataclass
class Seen:
    """What models were asked and charged, whatever the team's record says."""

    requests: Counter[str]
    said: list[str]


class Three:
    """A lead and two teammates: two tasks, a question, and an answer to a teammate."""

    def __init__(self, team: Team, crew: Crew, pace: Pace) -> None:
        self.team = team
        self._crew = crew
        self._pace = pace
        self.seen = Seen(Counter(), [])
        self.hired: dict[str, Hired] = {}

    def _says(self, name: str, act: Callable[[TurnInput, Desk], Awaitable[None]]) -> Any:
        async def turn(given: TurnInput, desk: Desk) -> str:
            await desk.may_spend()
            self.seen.requests[name] += 1
            desk.used(Usage.new(requests=1, input_tokens=10))
            await act(given, desk)
            text = f"{name} ended turn {self.seen.requests[name]}"
            self.seen.said.append(text)
            return text

        return turn

    async def _works(self, given: TurnInput, desk: Desk) -> None:
        for task_id in list(desk.attempts):
            await desk.complete(task_id, report="It is done.")
            desk.attempts.pop(task_id, None)

    async def _answers(self, given: TurnInput, desk: Desk) -> None:
        if "Ask alice" in given.text:
            await send(SendMessageInput(to="alice", message="Hello from bob"), desk)

    async def _nothing(self, given: TurnInput, desk: Desk) -> None:
        pass

    async def _hire(self, name: str, act: Any, *, claims: bool = False) -> None:
        turn = self._says(name, act)
        self.hired[name] = await again(
            lambda: self._crew.hire(name, turn, pace=self._pace, claims=claims)
        )

    async def play(self) -> None:
        """Work until nobody has anything to do."""
        team = self.team
        await self._hire(LEAD, self._nothing)
        for subject in ("First", "Second"):
            await again(lambda subject=subject: team.tasks.add(subject, by=LEAD))  # type: ignore[misc]
        await self._hire("alice", self._works, claims=True)
        await self._hire("bob", self._answers)
        await again(lambda: team.mailbox.send("bob", "Ask alice", sender=LEAD, key="once"))
        await self.until_at_rest()

    async def until_at_rest(self) -> None:
        """Wait until everything is done, read and over."""
        await eventually(self.at_rest, within_s=600, every_s=self._pace.retry_s / 30)

    async def at_rest(self) -> bool:
        """Whether everything is done, read and over."""
        tasks = (await self.team.tasks.list()).tasks
        config = await self.team.agents.config()
        active = any(member.is_active for member in config.roster)
        unread = sum((await self.team.mailbox.unread()).values())
        asked = "bob" in self.seen.requests
        return all(task.status == "completed" for task in tasks) and not (
            active or unread or not asked
        )

    async def check(self) -> list[str]:
        """What is wrong in the end, in words."""
        wrong: list[str] = []
        box = await self.team.mailbox.read(LEAD, history=True)
        notices = [payload_of(entry.message.text) for entry in box.entries]
        reports = [each.result for each in notices if isinstance(each, IdleNotification)]
        expected = [text for text in self.seen.said if not text.startswith(LEAD)]
        if sorted(filter(None, reports)) != sorted(expected):
            wrong.append(f"reports {reports} instead of {expected}")
        mail = await self.team.mailbox.read("alice", history=True)
        greetings = [e.message.text for e in mail.entries if "Hello" in e.message.text]
        if greetings != ["Hello from bob"]:
            wrong.append(f"alice has {greetings}")
        given = "\n".join(self.hired["alice"].turns)
        if given.count("Hello from bob") != 1:
            wrong.append("alice was not given it once")
        for name in ("alice", "bob"):
            member, agent = await self.team.agents.get(name)
            state = self.hired[name].desk.activity.state
            if member.is_active or state != "idle":
                wrong.append(f"{name} is {state}, active {member.is_active}")
            if agent.usage.requests != self.seen.requests[name]:
                wrong.append(f"{name} is charged {agent.usage.requests} requests")
            if agent.usage.turns != self.seen.requests[name]:
                wrong.append(f"{name} has had {agent.usage.turns} turns")
            if self.hired[name].ended is not None:
                wrong.append(f"{name} ended: {self.hired[name].ended}")
        for task in (await self.team.tasks.list()).tasks:
            if task.facts.attempt != 1:
                wrong.append(f"task {task.id} took {task.facts.attempt} attempts")
            if f"#{task.id} {task.subject}" not in given:
                wrong.append(f"alice was not told of task {task.id}")
        return wrong


async def again(act: Callable[[], Awaitable[T]]) -> T:
    """Do something as a person does who tries again."""
    while True:
        try:
            return await act()
        except Unavailable:
            await anyio.sleep(0.2)


@dataclass(frozen=True)
class Played:
    """What the three wrote, what is wrong in the end, and whether the chosen write came at all."""

    writes: list[Write]
    wrong: list[str]
    struck: bool


async def played(
    store: Store,
    folder: Path,
    *,
    clock: Clock,
    pace: Pace,
    away_s: float,
    write: Write | None,
    fault: Fault = "once",
    name: str = "alpha",
) -> Played:
    """Let the three work on a store that fails at one write."""
    refusing = RefusingStore(store, away_s=away_s)
    teams = Teams(refusing, clock=clock)
    team = await new_team(teams, name)
    if write is not None:
        refusing.fail_at(write, fault)
    async with anyio.create_task_group() as group:
        three = Three(team, Crew(team, folder, group, clock=clock), pace)
        try:
            await three.play()
            # What comes late comes now.
            await anyio.sleep(pace.gather_s * 3)
            await three.until_at_rest()
            wrong = await three.check()
        except Exception as error:
            wrong = [f"it did not end: {error!r}", *await three.check()]
        group.cancel_scope.cancel()
    return Played(refusing.writes, wrong, refusing.struck)


def of_agents(writes: Sequence[Write]) -> list[Write]:
    """The writes of agents. What a person does is refused to the person, who can try again."""
    ours = [write for write in writes if write[1] not in ("agent.spawn", "task.add", "message")]
    return ours + [write for write in writes if write[:2] == ("bob", "message")]
