"""Commits of one host that wait: who joins whom, and who is told of what went wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bullpen.errors import Unavailable
from bullpen.protocol.changes import Event, PutTask
from bullpen.protocol.clock import now_ms
from bullpen.store.contract import Committed
from bullpen.store.nats.log.commits import CommitQueue
from bullpen.store.nats.log.log import TeamLog
from bullpen.store.nats.log.state import LogState
from bullpen.store.nats.log.turns import Turns
from bullpen.testing.sample_records import task

STORED, LOST, AWAY = "stored", "lost", "away"


class Log:
    """A log whose appends end as a test says; `sizes` is how many events each of them had."""

    def __init__(self, *ends: str, others_write: bool = True) -> None:
        self.ends = list(ends)
        self.sizes: list[int] = []
        self.lost: list[int] = []
        self.kept = LogState(format="2.0")
        self.is_shared, self.has_heard, self.certain = others_write, False, 0.0
        self.address = SimpleNamespace(team="alpha")
        self.tail = SimpleNamespace(is_long=False)
        self.link = self.history = None
        self._turns = Turns(10.0, busy=lambda: Unavailable("busy"), ended=lambda: None)

    def turn(self) -> Turns:
        return self._turns

    def took(self, seconds: float) -> None:
        pass

    async def wait_for_others(self, times_lost: int) -> None:
        self.lost.append(times_lost)
        await asyncio.sleep(0)

    async def append(self, events: Sequence[Event], deadline: float) -> bool:
        self.sizes.append(len(events))
        await asyncio.sleep(0)
        end = self.ends.pop(0) if self.ends else STORED
        if end == AWAY:
            raise Unavailable("away")
        if end == STORED:
            for event in events:
                self.kept.apply(event)
        return end == STORED


def queue_of(log: Log) -> CommitQueue:
    return CommitQueue(cast("TeamLog", log), now_ms, wait_s=10.0)


def commit(queue: CommitQueue, number: int) -> asyncio.Task[Committed]:
    def plan(view: Any) -> list[PutTask]:
        return [PutTask(task(str(number)))]

    return asyncio.create_task(queue.run(plan, actor="team-lead", op="test"))


async def test_while_other_hosts_write_those_that_come_meanwhile_share_the_first_message() -> None:
    log = Log()
    queue = queue_of(log)
    found = await asyncio.gather(*(commit(queue, number) for number in range(8)))
    assert log.sizes == [8]
    assert [each.seq for each in found] == list(range(1, 9))


async def test_a_host_alone_stores_the_first_at_once() -> None:
    log = Log(others_write=False)
    queue = queue_of(log)
    await asyncio.gather(*(commit(queue, number) for number in range(8)))
    assert log.sizes == [1, 7] and not log.lost


async def test_after_each_refusal_fewer_are_decided_and_all_are_stored_in_order() -> None:
    log = Log(LOST, LOST)
    queue = queue_of(log)
    found = await asyncio.gather(*(commit(queue, number) for number in range(8)))
    assert log.sizes == [8, 4, 2, 6]
    assert log.lost == [0, 1, 2, 0]
    assert [each.seq for each in found] == list(range(1, 9))


async def test_whoever_only_waited_is_not_told_of_anothers_failure() -> None:
    log = Log(LOST, AWAY)
    queue = queue_of(log)
    commits = [commit(queue, number) for number in range(4)]
    found = await asyncio.gather(*commits, return_exceptions=True)
    assert log.sizes == [4, 2, 2]
    assert [type(each) for each in found] == [Unavailable, Unavailable, Committed, Committed]


async def test_one_that_gives_up_before_it_is_decided_is_left_out() -> None:
    log = Log()
    queue = queue_of(log)
    commits = [commit(queue, number) for number in range(3)]
    await asyncio.sleep(0)
    commits[1].cancel()
    with pytest.raises(asyncio.CancelledError):
        await commits[1]
    await asyncio.gather(commits[0], commits[2])
    assert log.sizes == [2]
