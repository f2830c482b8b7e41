"""A scripted agent on a stage."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
import pytest

from bullpen.agents.contracts.driver import TurnFailed
from bullpen.agents.drivers.scripted.driver import Scripted
from bullpen.protocol.names import LEAD
from bullpen.team.team import Team
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


async def send(team: Team, text: str, *, sender: str = LEAD) -> str:
    return (await team.mailbox.send("ann", text, sender=sender)).id
