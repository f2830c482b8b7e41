"""Alarms about servers. Pure: from surveys to sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from bullpen.fleet.servers.cluster_survey import Replica, Round, StreamKey
from bullpen.fleet.servers.server_binary import LEAST

Kind = Literal[
    "node_down",
    "node_ill",
    "node_old",
    "nodes_unasked",
    "no_meta_leader",
    "sync",
    "leaderless",
    "replica_missing",
    "replica_behind",
    "replicas_differ",
]


@dataclass(frozen=True, slots=True)
class Alarm:
    """One thing that is wrong, and what to do about it."""

    kind: Kind
    text: str
    remedy: str


def alarms(rounds: Sequence[Round]) -> list[Alarm]:
    """Return everything that is wrong in several surveys of the same servers, oldest first."""
    last = rounds[-1]
    found = [*_of_nodes(last), *_of_cluster(last)]
    for key in sorted({key for told in last for key in told.replicas}):
        found += _of_stream(key, rounds)
    return found


def _of_nodes(last: Round) -> Iterator[Alarm]:
    for told in last:
        if not told.up:
            yield Alarm(
                "node_down",
                f"Server {told.name} is down: {told.error}",
                "Start it again. Its data is kept.",
            )
            continue
        if told.ill:
            yield Alarm(
                "node_ill", f"Server {told.name} is not healthy: {told.ill}.", "Read its log."
            )
        if not told.sync_always:
            yield Alarm(
                "sync",
                f"Server {told.name} acknowledges messages before they are on disk: a power cut "
                "loses up to two minutes of them.",
                "Set sync_interval: always in its jetstream block, then restart it.",
            )
        if _version(told.version) < LEAST:
            yield Alarm(
                "node_old",
                f"Server {told.name} runs nats-server {told.version}, which is older than "
                f"{'.'.join(map(str, LEAST))}.",
                "Upgrade the servers one after another.",
            )


def _of_cluster(last: Round) -> Iterator[Alarm]:
    up = [told for told in last if told.up]
    size = max((told.cluster_size for told in up), default=1)
    if size > len(last):
        yield Alarm(
            "nodes_unasked",
            f"The cluster has {size} servers, but only {len(last)} were asked.",
            "Name the monitoring address of each server with --monitor.",
        )
    if size > 1 and not any(told.meta_leader for told in up):
        yield Alarm(
            "no_meta_leader",
            "The servers have no leader: nothing can be created or moved.",
            "Start the servers that are down. Two of three must see each other.",
        )


def _of_stream(key: StreamKey, rounds: Sequence[Round]) -> Iterator[Alarm]:
    last = rounds[-1]
    copies = _copies(key, last)
    form = next(told.forms[key] for told in last if key in told.forms)
    name = _named(key)
    if not any(copy.leader == node for node, copy in copies.items()):
        yield Alarm(
            "leaderless",
            f"{name} has no leader: it cannot be read or written.",
            "Wait ten seconds for an election, then start the servers that are down.",
        )
    if len(copies) < form.replicas and all(told.up for told in last):
        yield Alarm(
            "replica_missing",
            f"{name} has only {len(copies)} of {form.replicas} copies.",
            "Find the server that lacks it: bullpen server status",
        )
    for node, behind in _behind(key, rounds):
        yield Alarm(
            "replica_behind",
            f"The copy of {name} on {node} lacks the last {behind} messages, and does not catch "
            "up within seconds.",
            f"Check whether {node} is short of CPU or disk, and read its log.",
        )
    if not form.ages:
        yield from _differing(key, rounds)


def _behind(key: StreamKey, rounds: Sequence[Round]) -> Iterator[tuple[str, int]]:
    """Return the copies that still lack what another one had in the first round."""
    had = max((copy.last_seq for copy in _copies(key, rounds[0]).values()), default=0)
    for node, copy in _copies(key, rounds[-1]).items():
        if copy.last_seq < had:
            yield node, had - copy.last_seq


def _differing(key: StreamKey, rounds: Sequence[Round]) -> Iterator[Alarm]:
    """Return the copies with fewer messages than others at the same sequence.

    Removed messages never come back. So their number only grows with the sequence, and equally in
    all copies: a copy that lacks more than another one that was asked later has lost some. This
    also holds while others write.
    """
    names = sorted(_copies(key, rounds[-1]))
    for poor in names:
        lost = [
            min(counts)
            for rich in names
            if rich != poor and all(counts := [*_lost(key, poor, rich, rounds)])
        ]
        if lost:
            yield Alarm(
                "replicas_differ",
                f"The copy of {_named(key)} on {poor} has lost {max(lost)} messages that other "
                "copies have.",
                f"Stop {poor}, move its store directory away, and start it again. It then copies "
                "everything from the others.",
            )


def _lost(key: StreamKey, poor: str, rich: str, rounds: Sequence[Round]) -> Iterator[int]:
    """Return how many messages are missing according to each two consecutive rounds."""
    for earlier, later in pairwise(rounds):
        less, more = _copies(key, earlier).get(poor), _copies(key, later).get(rich)
        if less is None or more is None or less.last_seq > more.last_seq:
            yield 0
        else:
            yield max(0, less.gone - more.gone)


def _copies(key: StreamKey, taken: Round) -> dict[str, Replica]:
    return {told.name: told.replicas[key] for told in taken if key in told.replicas}


def _named(key: StreamKey) -> str:
    account, stream = key
    return f"stream {stream}" if account == "$G" else f"stream {stream} of account {account}"


def _version(text: str) -> tuple[int, ...]:
    numbers = text.split("-", maxsplit=1)[0].split(".")[:2]
    return tuple(int(number) for number in numbers if number.isdecimal())
