"""The fixtures of the driver contract: the puppet, a team, and one turn at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import anyio
import pytest

from bullpen.agents.contracts.driver import Driver, TurnInput, TurnResult
from bullpen.errors import Unavailable
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.names import LEAD
from bullpen.store.memory import MemoryStore
from bullpen.team.team import Team, Teams
from bullpen.testing.desks import RecordingDesk

DEADLINE_S = 120.0
"""How long a test waits for anything: long, for slow programs on slow machines."""


class Puppet(Protocol):
    """A model that does as it is told, and the driver that uses it."""

    @property
    def spec(self) -> AgentSpec:
        """Return what the agent is spawned with. It may use the tools TaskCreate and Bash."""

    @property
    def env(self) -> Mapping[str, str]:
        """Return the environment of the desk."""

    def driver(self) -> Driver:
        """Return a new driver for this model, as a new process would create it."""

    def say(self, text: str) -> None:
        """Answer the next request with this text, which ends the turn."""

    def use_tool(self, name: str, tool_input: dict[str, Any], *, saying: str = "") -> None:
        """Answer the next request with a tool call, with some words before it if given."""

    def fail(self, cause: str) -> None:
        """Answer the next request with an error that ends the turn; retrying does not help."""

    def hang(self) -> None:
        """Do not answer the next request."""

    def then(self) -> None:
        """Start the next turn here: the test cancels this one before an answer."""

    def requests(self, desk: RecordingDesk) -> list[str]:
        """Return what was new in each request, in order: the given text, mail, results."""

    def tokens(self, desk: RecordingDesk) -> int | None:
        """Return how many tokens these requests took, in both directions; None if not counted."""


class Stage:
    """The fixtures of the contract. A subclass has a fixture `puppet`."""

    @pytest.fixture
    async def team(self) -> Team:
        """Create a team of a lead, ann, whose driver is tested, and bob."""
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
    """A desk whose store fails at the moment mail is marked as seen."""

    async def seen(self, ids: Sequence[str]) -> None:
        raise Unavailable("the store is gone")


def needs(capability: bool) -> None:
    """Skip a test of something that the driver says it cannot do."""
    if not capability:
        pytest.skip("the driver does not declare it")


@asynccontextmanager
async def started(puppet: Puppet, desk: RecordingDesk) -> AsyncIterator[Driver]:
    """Yield a new driver, started, and close it at the end."""
    driver = puppet.driver()
    with anyio.fail_after(DEADLINE_S):
        await driver.start(desk)
    try:
        yield driver
    finally:
        with anyio.fail_after(DEADLINE_S, shield=True):
            await driver.aclose()


async def take(driver: Driver, desk: RecordingDesk, given: TurnInput | None = None) -> TurnResult:
    """Run a whole turn, with the current mail unless something else is given."""
    with anyio.fail_after(DEADLINE_S):
        return await driver.turn(given or await desk.begin(), desk)


@asynccontextmanager
async def begun(driver: Driver, desk: RecordingDesk) -> AsyncIterator[anyio.CancelScope]:
    """Run a turn beside the test; the scope cancels it. Leaving waits for its end."""
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
    """Send a message from the lead to ann. Returns its id."""
    return (await team.mailbox.send("ann", text, sender=LEAD)).id


async def states(team: Team) -> dict[str, str]:
    """Return the delivery states of ann's messages."""
    box = await team.mailbox.read("ann", history=True)
    return {entry.id: entry.state for entry in box.entries}
