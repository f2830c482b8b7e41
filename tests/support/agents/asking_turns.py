"""Turns that ask for permission, and what became of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.contracts.driver import TurnInput
from bullpen.agents.tools.toolbox import call, toolbox
from bullpen.protocol.policy import Policy
from bullpen.protocol.request import Request
from bullpen.team.team import Team
from support.crews import Crew, Hired, eventually

Turn = Callable[[TurnInput, Desk], Awaitable[str]]


def runs(*commands: str) -> Turn:
    """A turn that runs each command in a shell and says what came of it."""

    async def turn(given: TurnInput, desk: Desk) -> str:
        said = []
        for command in commands:
            text, failed = await call(toolbox(desk), "Bash", {"command": command}, desk)
            said.append(f"{'failed' if failed else 'done'}: {text}")
        return "\n".join(said)

    return turn


async def the_request(team: Team) -> Request:
    """The one request that waits for an answer."""
    found: list[Request] = []

    async def is_there() -> bool:
        found[:] = await team.approvals.pending()
        return len(found) == 1

    await eventually(is_there)
    return found[0]


async def last_words(crew: Crew, alice: Hired) -> str:
    await eventually(lambda: bool(alice.told("end")))
    return str(alice.told("end")[-1]["text"])


def asking(**fields: object) -> Policy:
    return Policy.new(**fields)
