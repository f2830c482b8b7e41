"""How far messages got, and what follows from it for a mailbox. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from bullpen.protocol.message import DeliveryState

_RANK: dict[DeliveryState, int] = {"stored": 0, "injected": 1, "seen": 2, "archived": 3}

Box = Mapping[str, DeliveryState]
"""The states of the messages in a mailbox by their ids, oldest first."""


def is_unread(state: DeliveryState) -> bool:
    """Whether a message in this state was in no successful model request yet."""
    return _RANK[state] < _RANK["seen"]


def forward(box: Box, ids: Collection[str], state: DeliveryState) -> tuple[str, ...]:
    """Those of some messages that have not reached a state yet."""
    wanted = frozenset(ids)
    return tuple(
        key for key, reached in box.items() if key in wanted and _RANK[reached] < _RANK[state]
    )


def too_old(box: Box, seen_now: Iterable[str], kept: int) -> tuple[str, ...]:
    """The oldest seen messages, once there are more than twice as many as are kept."""
    fresh = frozenset(seen_now)
    seen = tuple(key for key, state in box.items() if state == "seen" or key in fresh)
    return seen[: len(seen) - kept] if len(seen) > 2 * kept else ()


def ahead_of(box: Box, message_id: str) -> int:
    """How many unread messages are before one, or in all if it is not there."""
    count = 0
    for key, state in box.items():
        if key == message_id:
            break
        count += is_unread(state)
    return count
