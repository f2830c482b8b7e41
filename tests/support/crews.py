"""Agents for tests: real runners on a real team, with turns that are functions of the test."""

from __future__ import annotations

import asyncio
import json
import selectors
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

import anyio
import anyio.abc

from bullpen.agents.contracts.desk import Colleagues, Desk
from bullpen.agents.contracts.driver import Capabilities, TurnInput, TurnResult
from bullpen.agents.runner.control import Ended
from bullpen.agents.runner.desk import RunnerDesk
from bullpen.agents.runner.loop import Runner
from bullpen.agents.runner.pace import Pace
from bullpen.agents.system import processes
from bullpen.agents.system.transcript import Transcript, rows
from bullpen.protocol.agent import AgentSpec, ProcessRecord
from bullpen.protocol.clock import Clock, now_ms
from bullpen.protocol.message import Message
from bullpen.protocol.names import LEAD
from bullpen.protocol.policy import Policy
from bullpen.team.team import Team, Teams

T = TypeVar("T")
Turn = Callable[[TurnInput, Desk], Awaitable[str]]

QUICK = Pace(
    beat_s=0.5,
    gather_s=0.5,
    retry_s=0.05,
    reply_s=5.0,
    place_look_s=0.5,
    remind_s=0.05,
    again_s=0.3,
)


async def nothing(given: TurnInput, desk: Desk) -> str:
    """A turn in which the model says nothing."""
    return ""


class Told:
    """A driver that does what a test tells it to."""

    name = "told"
    capabilities = Capabilities(mid_turn=True)

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self.given: list[TurnInput] = []

    async def start(self, desk: Desk) -> None:
        pass

    def remembers(self, message_id: str) -> bool:
        return False

    async def turn(self, given: TurnInput, desk: Desk) -> TurnResult:
        self.given.append(given)
        return TurnResult(await self._turn(given, desk))

    async def aclose(self) -> None:
        pass


class Hired:
    """An agent at work in this process."""

    def __init__(self, runner: Runner, driver: Told, desk: RunnerDesk, folder: Path) -> None:
        self.runner = runner
        self.driver = driver
        self.desk = desk
        self.folder = folder
        self.ended: Ended | None = None

    @property
    def turns(self) -> list[str]:
        return [given.text for given in self.driver.given]

    def told(self, kind: str) -> list[dict[str, Any]]:
        return [row for row in rows(self.folder / "transcript.jsonl") if row["kind"] == kind]


class Crew:
    """The agents of one team, each a runner in this process."""

    def __init__(
        self, team: Team, folder: Path, group: anyio.abc.TaskGroup, *, clock: Clock = now_ms
    ) -> None:
        self.team = team
        self._folder = folder
        self._group = group
        self._clock = clock
        self._nonces = 0

    async def hire(
        self,
        name: str,
        turn: Turn = nothing,
        *,
        pace: Pace = QUICK,
        prompt: str | None = None,
        claims: bool = False,
        options: dict[str, Any] | None = None,
        tools: Sequence[str] | None = None,
        mode: str | None = "bypassPermissions",
        policy: Policy | None = None,
        cwd: Path | None = None,
        by: str = LEAD,
        hooks: dict[str, Any] | None = None,
        role: str | None = None,
        colleagues: Colleagues | None = None,
    ) -> Hired:
        self._nonces += 1
        nonce = f"nonce-{self._nonces}"
        spec = AgentSpec.new(
            driver="told",
            backend="in-process",
            cwd=str(cwd or self._folder),
            prompt=prompt,
            claims=claims,
            tools=list(tools) if tools is not None else None,
            mode=mode,
            policy=None if policy is None else policy.raw,
            hooks=hooks,
            role=role,
            options=options or {},
        )
        await self.team.agents.register(name, spec, by=by, nonce=nonce)
        folder = self._folder / name
        folder.mkdir(exist_ok=True)
        driver = Told(turn)
        desk = RunnerDesk(
            self.team,
            name,
            spec,
            nonce=nonce,
            folder=folder,
            env={},
            transcript=Transcript(folder),
            colleagues=colleagues,
            now=self._clock,
            remembers=driver.remembers,
        )
        place = ProcessRecord.new(
            backend="in-process", host=processes.host_name(), pid=1, start=f"test-{nonce}"
        )
        runner = Runner(desk, driver, place=place, clock=self._clock, pace=pace)
        hired = Hired(runner, driver, desk, folder)

        async def live() -> None:
            hired.ended = await runner.run()

        self._group.start_soon(live)

        async def ready() -> bool:
            return (await self.team.agents.get(name))[1].phase != "starting"

        await eventually(ready, every_s=0.01 if self._clock is now_ms else 1.0)
        return hired


async def eventually(
    condition: Callable[[], bool | Awaitable[bool]],
    *,
    within_s: float = 60.0,
    every_s: float = 0.01,
) -> None:
    """Wait until something is so; fail if it is not in time."""
    with anyio.fail_after(within_s):
        while True:
            found = condition()
            if found if isinstance(found, bool) else await found:
                return
            await anyio.sleep(every_s)


async def forge(inbox: Path, rows: list[Message], until: Callable[[], bool]) -> None:
    """Write messages into an inbox without its lock, until that shows.

    Who reads at that moment may write back what there was before: then they are written again.
    """

    def write_what_is_missing() -> bool:
        kept = json.loads(inbox.read_text("utf-8"))
        texts = {row["text"] for row in kept}
        missing = [row.raw for row in rows if row.text not in texts]
        if missing:
            inbox.write_text(json.dumps([*kept, *missing], indent=2), "utf-8")
        return bool(missing)

    async def shows() -> bool:
        if not until() and write_what_is_missing():
            await anyio.sleep(1.0)
        return until()

    await eventually(shows)


class _JumpingSelector(selectors.DefaultSelector):
    """Never waits: it lets the time pass that it was told to wait."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1_000_000.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            return super().select(None)
        found = super().select(0)
        if not found:
            self.now += max(0.0, timeout)
        return found


class _JumpingLoop(asyncio.SelectorEventLoop):
    """An event loop in which an hour of waiting takes no time. Nothing in it may use threads."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


def simulated_ms() -> int:
    """The time of the simulated clock."""
    return round(asyncio.get_running_loop().time() * 1000)


def simulate(body: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run something in simulated time."""
    with asyncio.Runner(loop_factory=_JumpingLoop) as runner:
        return runner.run(body())


async def new_team(teams: Teams, name: str = "alpha") -> Team:
    await teams.create(name, cwd="/")
    return teams.open(name)
