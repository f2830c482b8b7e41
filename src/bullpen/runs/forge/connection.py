"""What a worker needs to use one repository of a forge, put together from the settings."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from anyio import to_thread

from bullpen.agents.system.secrets import Redactor
from bullpen.protocol.forge import ForgeSettings
from bullpen.protocol.task import Task
from bullpen.runs.forge.contract import ForgeClient
from bullpen.runs.forge.outbox import Desk, Pusher
from bullpen.team.team import Team


def _nothing_to_do(_: object = None) -> None:
    """Stand in for what a connection without a repository on this machine need not do."""


async def _closed() -> None:
    """Stand in for a client that has nothing to close."""


@dataclass(frozen=True, slots=True)
class Connection:
    """A repository on a forge, and the repository on this machine. The functions block."""

    client: ForgeClient
    pushes: Pusher
    # Whose token it is, the branch that pull requests go to, and the key of the markers.
    login: str
    target: str
    key: bytes
    redactor: Redactor
    # Brings the forge's target here; returns why it could not be moved.
    bring_target: Callable[[], str | None] = _nothing_to_do
    # Brings the handed-in work of a task into the repository whose objects are pushed.
    prepare: Callable[[Task], None] = _nothing_to_do
    # Brings the forge's target here, by a merge commit if both have gone on; returns that commit,
    # or why it could not be moved.
    join_target: Callable[[], tuple[str | None, str | None]] = lambda: (None, None)
    # Of commits by name, the names of those that the forge's target has.
    on_target: Callable[[Mapping[str, str]], frozenset[str]] = lambda _: frozenset()
    # The files that the handed-in work of a task changed.
    files_of: Callable[[Task], frozenset[str]] = lambda _: frozenset()
    # Pushes a commit that is on the target here, from what the forge's target is.
    push_target: Callable[[str, str | None], str | None] = lambda _commit, _there: None
    # Runs what blocks, in a thread.
    blocking: Callable[[Callable[[], Any]], Awaitable[Any]] = to_thread.run_sync
    aclose: Callable[[], Awaitable[None]] = _closed

    def desk(self, team: Team, settings: ForgeSettings) -> Desk:
        """Return what writing needs."""
        return Desk(
            team=team,
            client=self.client,
            pushes=self.pushes,
            settings=settings,
            target=self.target,
            login=self.login,
            key=self.key,
            redactor=self.redactor,
            blocking=self.blocking,
        )
