"""What in the words of servers should wake somebody. Pure: from surveys to sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from bullpen.fleet.servers.binary import LEAST
from bullpen.fleet.servers.survey import Replica, Round, StreamKey

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
    """Everything that is wrong by several surveys of the same servers, the last one the latest."""
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
                "Start it again; its data comes back with it.",
            )
            continue
        if told.ill:
            yield Alarm("node_ill", f"Server {told.name} is not well: {told.ill}.", "Read its log.")
        if not told.sync_always:
            yield Alarm(
                "sync",
                f"Server {told.name} says that a message is kept before it is on the disk: a power"
                " cut loses up to two minutes of what was acknowledged.",
                "Set sync_interval: always in its jetstream block, and restart it.",
            )
        if _version(told.version) < LEAST:
            yield Alarm(
                "node_old",
                f"Server {told.name} is nats-server {told.version}, which is older than"
                f" {'.'.join(map(str, LEAST))}.",
                "Upgrade the servers one after another.",
            )


def _of_cluster(last: Round) -> Iterator[Alarm]:
    up = [told for told in last if told.up]
    size = max((told.cluster_size for told in up), default=1)
    if size > len(last):
        yield Alarm(
            "nodes_unasked",
            f"The cluster has {size} servers and {len(last)} were asked.",
            "Name the monitoring address of each with --monitor.",
        )
    if size > 1 and not any(told.meta_leader for told in up):
        yield Alarm(
            "no_meta_leader",
            "The servers have no leader among them: nothing can be created or moved.",
            "Bring back the servers that are down; two of three must see each other.",
        )


def _of_stream(key: StreamKey, rounds: Sequence[Round]) -> Iterator[Alarm]:
    last = rounds[-1]
    copies = _copies(key, last)
    form = next(told.forms[key] for told in last if key in told.forms)
    name = _named(key)
    if not any(copy.leader == node for node, copy in copies.items()):
        yield Alarm(
            "leaderless",
            f"{name} has no leader: nothing can be written to it or read from it.",
            "Wait ten seconds for an election. Then bring back the servers that are down.",
        )
    if len(copies) < form.replicas and all(told.up for told in last):
        yield Alarm(
            "replica_missing",
            f"{name} has {len(copies)} of {form.replicas} copies.",
            "See which server lacks it: bullpen server status",
        )
    for node, behind in _behind(key, rounds):
        yield Alarm(
            "replica_behind",
            f"The copy of {name} on {node} lacks the last {behind} messages, and does not catch up"
            " within seconds.",
            f"See whether {node} has work for more than its share of CPU and disk; read its log.",
        )
    if not form.ages:
        yield from _differing(key, rounds)


def _behind(key: StreamKey, rounds: Sequence[Round]) -> Iterator[tuple[str, int]]:
    """Copies that still lack what another one had in the first round."""
    had = max((copy.last_seq for copy in _copies(key, rounds[0]).values()), default=0)
    for node, copy in _copies(key, rounds[-1]).items():
        if copy.last_seq < had:
            yield node, had - copy.last_seq


def _differing(key: StreamKey, rounds: Sequence[Round]) -> Iterator[Alarm]:
    """Copies with fewer messages than others, although they are as far.

    What has left a stream never comes back. So the number of those that are gone only grows with
    the sequence, and grows alike in all copies: a copy in which more are gone than in another
    that was asked later and is further has lost some. That holds while others write, too.
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
                f"The copy of {_named(key)} on {poor} has lost {max(lost)} messages that other"
                " copies have.",
                f"Stop {poor}, move its store directory away, and start it again: it copies all of"
                " it from the others.",
            )


def _lost(key: StreamKey, poor: str, rich: str, rounds: Sequence[Round]) -> Iterator[int]:
    """How many messages each two consecutive rounds show to be missing."""
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
