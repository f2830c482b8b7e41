"""Checks that a team is completely stored: replays its history and compares it with its state."""

from __future__ import annotations

from bullpen.errors import Unavailable
from bullpen.store.contract import Finding
from bullpen.store.events.fold import fold
from bullpen.store.nats.log.log import TeamLog
from bullpen.store.nats.mail import read_events


async def examine(log: TeamLog) -> list[Finding]:
    """Return what is wrong with a log. Nothing is repaired: that takes an intact replica."""
    where, kept = log.address.log, log.kept
    try:
        replayed = fold(await read_events(log, 0, kept.seq))
    except (Unavailable, ValueError) as error:
        return [Finding("log", where, str(error), action="Compare the replicas.")]
    live = {
        agent: {key: state for key, state in box.items() if state != "archived"}
        for agent, box in replayed.mail.items()
    }
    state = kept.folded
    same = (
        (replayed.team, replayed.members, replayed.tasks, replayed.requests)
        == (state.team, state.members, state.tasks, state.requests)
    ) and {agent: box for agent, box in live.items() if box} == {
        agent: box for agent, box in state.mail.items() if box
    }
    if same:
        return []
    what = f"Its history up to event {kept.seq} does not give the team in its snapshot."
    return [Finding("log", where, what, action="Compare the replicas.")]
