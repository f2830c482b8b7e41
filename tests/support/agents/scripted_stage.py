"""A scripted agent on a stage."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import pytest

from bullpen.agents.contracts.driver import TurnFailed
from bullpen.agents.drivers.scripted.driver import Scripted
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.names import LEAD
from bullpen.store.memory import MemoryStore
from bullpen.team.team import Team, Teams
from bullpen.testing.desks import RecordingDesk

Play = Callable[[str], Awaitable["Stage"]]
WAIT_S = 30.0


class Stage:
    """A scripted ann, started, with her desk."""

    def __init__(self, driver: Scripted, desk: RecordingDesk) -> None:
        self.driver = driver
        self.desk = desk

    async def turn(self) -> str:
        """One turn with the mail there is: the last thing she said."""
        with anyio.fail_after(WAIT_S):
            return (await self.driver.turn(await self.desk.begin(), self.desk)).text

    async def failed(self) -> TurnFailed:
        with pytest.raises(TurnFailed) as caught:
            await self.turn()
        return caught.value

    async def restarted(self) -> Stage:
        """The same agent in a new process."""
        again = Scripted(self.desk.spec)
        await again.start(self.desk)
        return Stage(again, self.desk)


@pytest.fixture
async def team() -> Team:
    teams = Teams(MemoryStore())
    await teams.create("alpha")
    team = teams.open("alpha")
    for name in ("ann", "bob"):
        await team.roster.join(name, by=LEAD)
    return team


@pytest.fixture
def play(team: Team, tmp_path: Path) -> Play:
    """Start ann with these turns."""

    async def begin(turns: str) -> Stage:
        text = turns.replace("[[turns]]", "[[agents.ann.turns]]")
        await anyio.Path(tmp_path / "play.toml").write_text(f"[agents.ann]\n{text}")
        spec = AgentSpec.new(
            driver="scripted", backend="in-process", cwd=str(tmp_path), script="play.toml"
        )
        desk = RecordingDesk(team, "ann", tmp_path / "ann", spec)
        driver = Scripted(spec)
        await driver.start(desk)
        return Stage(driver, desk)

    return begin


async def send(team: Team, text: str, *, sender: str = LEAD) -> str:
    return (await team.mailbox.send("ann", text, sender=sender)).id
