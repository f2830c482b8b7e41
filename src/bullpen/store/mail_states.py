"""Delivery states of messages, and what follows for a mailbox. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from bullpen.protocol.changes import Change, Deliver, MarkMail
from bullpen.protocol.message import DeliveryState
from bullpen.store.contract import Mark

_UNREAD: frozenset[DeliveryState] = frozenset({"stored", "injected"})
_RANK: dict[DeliveryState, int] = {"stored": 0, "injected": 1, "seen": 2, "archived": 3}

Box = Mapping[str, DeliveryState]
"""The states of the messages in a mailbox by id, oldest first."""


def is_unread(state: DeliveryState) -> bool:
    """Return whether a message in this state has not been in a successful model request."""
    return state in _UNREAD


def forward(box: Box, ids: Collection[str], state: DeliveryState) -> tuple[str, ...]:
    """Return the messages that have not reached a state yet."""
    wanted = frozenset(ids)
    return tuple(
        key for key, reached in box.items() if key in wanted and _RANK[reached] < _RANK[state]
    )


def too_old(box: Box, seen_now: Iterable[str], kept: int) -> tuple[str, ...]:
    """Return the oldest seen messages, once there are more than twice as many as are kept."""
    fresh = frozenset(seen_now)
    seen = tuple(key for key, state in box.items() if state == "seen" or key in fresh)
    return seen[: len(seen) - kept] if len(seen) > 2 * kept else ()


def marks(agent: str, box: Box, ids: Collection[str], state: Mark, kept: int) -> list[MarkMail]:
    """Return the changes that move messages to a state, and archive the oldest seen ones."""
    moved = forward(box, ids, state)
    old = too_old(box, moved, kept) if moved and state == "seen" else ()
    found = (MarkMail(agent, moved, state), MarkMail(agent, old, "archived"))
    return [mark for mark in found if mark.ids]


def without_repeats(changes: Iterable[Change], is_known: Callable[[Deliver], bool]) -> list[Change]:
    """Return the changes without repeated messages and those that their mailbox already has."""
    delivered: set[tuple[str, str]] = set()
    kept: list[Change] = []
    for change in changes:
        if isinstance(change, Deliver):
            address = (change.to, change.message.id)
            if address in delivered or is_known(change):
                continue
            delivered.add(address)
        kept.append(change)
    return kept


def ahead_of(box: Box, message_id: str) -> int:
    """Return how many unread messages are before one, or in total if it is not there."""
    count = 0
    for key, state in box.items():
        if key == message_id:
            break
        # Every message sent counts the whole box: no call for each.
        count += state in _UNREAD
    return count
