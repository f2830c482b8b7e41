"""Counts mail in many mailboxes at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import anyio

from bullpen.errors import BullpenError
from bullpen.store.contract import Mailbox, Store

AT_ONCE_MAX = 16
"""How many mailboxes are read at the same time."""

Count = Callable[[Mailbox], int]


def unread(mailbox: Mailbox) -> int:
    """Return how many messages have not been in a successful model request."""
    return len(mailbox.unread)


async def count_mail(
    store: Store, team: str, counts: Mapping[str, Count]
) -> dict[str, int | BullpenError]:
    """Count something in each mailbox. An unreadable mailbox has its error instead of a count."""
    found: dict[str, int | BullpenError] = {}
    limit = anyio.Semaphore(AT_ONCE_MAX)

    async def look(name: str, count: Count) -> None:
        async with limit:
            try:
                found[name] = count(await store.mailbox(team, name))
            except BullpenError as error:
                found[name] = error

    async with anyio.create_task_group() as group:
        for name, count in counts.items():
            group.start_soon(look, name, count)
    return {name: found[name] for name in counts}
