"""Operations of a command on agents: on those of one team, or of the whole home."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

from bullpen.app.app import App, open_app
from bullpen.doors.cli.session import Session

T = TypeVar("T")


def with_app(
    session: Session,
    operation: Callable[[App, str], Awaitable[T]],
    *,
    name: str | None = None,
) -> T:
    """What an operation on the agents of a team answers; it gets the team's name."""

    async def run(app: App) -> T:
        return await operation(app, name or await session.resolved(app.teams))

    return with_home(session, run)


def with_home(session: Session, operation: Callable[[App], Awaitable[T]]) -> T:
    """What an operation on the whole home answers."""

    async def run() -> T:
        async with open_app(session.settings) as app:
            return await operation(app)

    return anyio.run(run)
