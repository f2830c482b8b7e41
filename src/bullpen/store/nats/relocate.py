"""Moves a team into another partition of its cell while others work with it."""

from __future__ import annotations

import time
from collections.abc import Sequence

from bullpen.errors import Invalid, Unavailable
from bullpen.protocol.changes import Event
from bullpen.protocol.clock import iso, now_ms
from bullpen.store.contract import StoreLimits
from bullpen.store.nats.client.api_requests import api
from bullpen.store.nats.client.connection import NatsConnection
from bullpen.store.nats.client.subjects import Address
from bullpen.store.nats.directory import Directory
from bullpen.store.nats.log import restore
from bullpen.store.nats.log.log import Gone, TeamLog
from bullpen.store.nats.log.packing import together_max
from bullpen.store.nats.mail import read_events

_ACTOR = "bullpen"
_PATIENCE_S = 60.0
_PURGE_S = 10.0


async def relocate(link: NatsConnection, team: str, partition: int) -> bool:
    """Move a team; False if it does not exist, or is there already. Needs an administrator's key.

    Its events are copied first. Then one last event in the old log names the new partition: only if
    nothing was added meanwhile, so nothing that was stored is lost. Whoever meets that event goes
    on in the new partition, and completes the move if the mover was killed. Raises Unavailable.
    """
    directory = Directory(link)
    found = await directory.find(team)
    if found.address is None or found.address.partition == partition:
        return False
    address = Address(team, partition, found.address.uid)
    old = TeamLog(link, found.address, StoreLimits())
    try:
        await _copy(old, address)
    except Gone:
        if old.moved_to is None:
            return False
    await enter(directory, address, found.address)
    await _purge(link, old.address, old.address.history)
    await _purge(link, old.address, old.address.begin)
    await _purge(link, old.address, old.address.sync)
    # The last event stays, for those who learned of the old place before.
    await _purge(link, old.address, old.address.log, keep=1)
    return True


async def enter(directory: Directory, address: Address, before: Address) -> None:
    """Make the directory name the new place of a team that was at another. Raises Unavailable."""
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        found = await directory.find(address.team, look_twice=False)
        # Earlier versions remove an entry whose log has ended.
        if found.address not in (before, None) or await directory.enter(address, found.revision):
            return
    raise Unavailable(
        f"The directory entry of team {address.team!r} keeps changing.", remedy="Try again."
    )


async def _copy(old: TeamLog, address: Address) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    await _purge(old.link, address, address.everything)
    new = TeamLog(old.link, address, StoreLimits())
    new.kept.format = await Directory(old.link).new_format()
    while time.monotonic() < deadline:
        await old.confirm(within_s=_PATIENCE_S)
        events = await read_events(old, new.kept.seq, None)
        if new.head:
            async with new.turn():
                await _append(new, events, deadline)
        else:
            await restore.store(new, events)
            await new.confirm(within_s=_PATIENCE_S)
        async with old.turn():
            if old.kept.seq == new.kept.seq and await old.append(
                [Event(old.kept.seq + 1, iso(now_ms()), _ACTOR, "team.move", ())],
                deadline,
                last=True,
                moved_to=address.partition,
            ):
                return
    raise Unavailable(
        f"Team {address.team!r} changed all the time while it was moved.", remedy="Try again."
    )


async def _append(new: TeamLog, events: Sequence[Event], deadline: float) -> None:
    """Append events, many in a message: one after another, others would write faster."""
    most = together_max(new.kept.format)
    for start in range(0, len(events), most):
        group = events[start : start + most]
        try:
            await new.append(group, deadline)
        except Invalid:
            if len(group) == 1:
                raise
            # They are too long for one message.
            for event in group:
                await new.append([event], deadline)


async def _purge(link: NatsConnection, address: Address, subject: str, keep: int = 0) -> None:
    ask: dict[str, object] = {"filter": subject, **({"keep": keep} if keep else {})}
    call = f"STREAM.PURGE.{address.stream}"
    await api(await link.client(), call, ask, timeout_s=_PURGE_S)
