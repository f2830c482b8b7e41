"""What the driver contract is played on: the puppet, a team, and one turn at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import anyio
import pytest

from bullpen.agents.drivers.base import Driver, TurnInput, TurnResult
from bullpen.errors import Unavailable
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.names import LEAD
from bullpen.store.memory import MemoryStore
from bullpen.team.team import Team
from bullpen.team.teams import Teams
from bullpen.testing.desks import RecordingDesk

CANCEL_S = 2.0
"""How long a cancelled turn may take to end."""
DEADLINE_S = 120.0
"""How long a test waits for anything else: much, for slow programs on slow machines."""


class Puppet(Protocol):
    """A model that does as it is told, and the driver that asks it."""

    @property
    def spec(self) -> AgentSpec:
        """What the agent is spawned with. It may use the tools TaskCreate and Bash."""

    @property
    def env(self) -> Mapping[str, str]:
        """The environment of the desk."""

    def driver(self) -> Driver:
        """A new driver for this model, as a new process would make one."""

    def say(self, text: str) -> None:
        """Answer the next request with this text, which ends the turn."""

    def use_tool(self, name: str, tool_input: dict[str, Any], *, saying: str = "") -> None:
        """Answer the next request with a tool call, and with some words before it if given."""

    def fail(self, cause: str) -> None:
        """Answer the next request with an error that ends the turn; repeating it does not help."""

    def hang(self) -> None:
        """Do not answer the next request."""

    def then(self) -> None:
        """What follows is for the next turn: the test breaks this one off before an answer."""

    def requests(self, desk: RecordingDesk) -> list[str]:
        """What was new in each request, in order: the text that was given, mail, results."""


class Stage:
    """The fixtures of the contract. A subclass has a fixture `puppet`."""

    @pytest.fixture
    async def team(self) -> Team:
        """A team of a lead, ann, whose driver is tested, and bob."""
        teams = Teams(MemoryStore())
        await teams.create("alpha")
        team = teams.open("alpha")
        for name in ("ann", "bob"):
            await team.roster.join(name, by=LEAD)
        return team

    @pytest.fixture
    def desk(self, team: Team, puppet: Puppet, tmp_path: Path) -> RecordingDesk:
        folder = tmp_path / "ann"
        folder.mkdir()
        return RecordingDesk(team, "ann", folder, puppet.spec, env=puppet.env)


class BrokenDesk(RecordingDesk):
    """A desk whose store is gone in the moment when mail was seen."""

    async def seen(self, ids: Sequence[str]) -> None:
        raise Unavailable("the store is gone")


def needs(capability: bool) -> None:
    """Skip a test of something that the driver says it cannot do."""
    if not capability:
        pytest.skip("the driver does not declare it")


@asynccontextmanager
async def started(puppet: Puppet, desk: RecordingDesk) -> AsyncIterator[Driver]:
    """A new driver, started, and closed at the end."""
    driver = puppet.driver()
    with anyio.fail_after(DEADLINE_S):
        await driver.start(desk)
    try:
        yield driver
    finally:
        with anyio.fail_after(DEADLINE_S, shield=True):
            await driver.aclose()


async def take(driver: Driver, desk: RecordingDesk, given: TurnInput | None = None) -> TurnResult:
    """A whole turn, with the mail there is unless it was given something else."""
    with anyio.fail_after(DEADLINE_S):
        return await driver.turn(given or await desk.begin(), desk)


@asynccontextmanager
async def begun(driver: Driver, desk: RecordingDesk) -> AsyncIterator[anyio.CancelScope]:
    """A turn that goes on beside the test; the scope cancels it. Leaving waits for its end."""
    given = await desk.begin()
    scope = anyio.CancelScope()

    async def go() -> None:
        with scope:
            await driver.turn(given, desk)

    async with anyio.create_task_group() as group:
        group.start_soon(go)
        yield scope


async def until(holds: Callable[[], bool]) -> None:
    """Wait for something that is about to be true."""
    with anyio.fail_after(DEADLINE_S):
        while not holds():  # noqa: ASYNC110 - what it waits for may happen in another process
            await anyio.sleep(0.01)


async def send(team: Team, text: str) -> str:
    """A message of the lead to ann; its id."""
    return (await team.mailbox.send("ann", text, sender=LEAD)).id


async def states(team: Team) -> dict[str, str]:
    """How far ann's messages got."""
    box = await team.mailbox.read("ann", history=True)
    return {entry.id: entry.state for entry in box.entries}
