"""Hosts that write to one team take turns, by what its log says about them."""

from __future__ import annotations

import asyncio
import random

import pytest

from bullpen.store.nats.log import contention
from bullpen.store.nats.log.contention import Contention, writer_of
from bullpen.store.nats.log.tail import LogTail


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(contention, "time", clock)
    return clock


def write(hosts: list[Contention], writer: Contention | str) -> None:
    name = writer if isinstance(writer, str) else writer.writer
    for host in hosts:
        host.wrote(name)


def test_an_id_names_its_host_and_is_never_given_twice() -> None:
    here, there = Contention(), Contention()
    ids = [host.new_id() for host in (here, there) for _ in range(3)]
    assert len(set(ids)) == 6
    assert [writer_of(each) for each in ids] == [here.writer] * 3 + [there.writer] * 3


def test_ids_of_earlier_versions_name_no_host() -> None:
    assert writer_of("0123456789abcdef") == ""


def test_a_host_alone_never_waits(clock: Clock) -> None:
    host = Contention()
    for _ in range(3):
        assert not host.is_shared
        host.wrote(host.writer)
    assert host.wait_s(0) <= 0


def test_whoever_has_not_written_for_the_longest_time_goes_first(clock: Clock) -> None:
    hosts = [Contention() for _ in range(3)]
    for host in hosts:
        write(hosts, host)
    waits = [host.wait_s(0) for host in hosts]
    assert waits[0] <= 0 < waits[1] < waits[2]
    write(hosts, hosts[0])
    waits = [host.wait_s(0) for host in hosts]
    assert waits[1] <= 0 < waits[2] < waits[0]


def test_whoever_lets_its_turn_pass_is_not_waited_for_again(clock: Clock) -> None:
    hosts = [Contention() for _ in range(2)]
    here, there = hosts
    write(hosts, here)
    write(hosts, there)
    write(hosts, here)
    # The other one may want to write. If it does not, it is soon alone.
    assert here.is_shared and here.wait_s(0) > 0
    clock.now += here.wait_s(0)
    assert here.wait_s(0) <= 0
    write(hosts, here)
    assert not here.is_shared
    # Who comes new does not wait behind those that write all the time.
    assert there.is_shared and there.wait_s(0) <= 0


def test_who_wrote_long_ago_is_not_waited_for(clock: Clock) -> None:
    hosts = [Contention() for _ in range(2)]
    for host in hosts:
        write(hosts, host)
    clock.now += 60
    assert not any(host.is_shared for host in hosts)


def test_a_snapshot_takes_nobodys_turn(clock: Clock) -> None:
    hosts = [Contention() for _ in range(2)]
    for host in hosts:
        write(hosts, host)
    clock.now += 0.001
    for host in hosts:
        host.wrote(None)
    assert hosts[0].wait_s(0) <= 0 < hosts[1].wait_s(0)


def test_all_versions_without_a_host_in_their_ids_count_as_one(clock: Clock) -> None:
    here = Contention()
    here.wrote(here.writer)
    for _ in range(20):
        here.wrote("")
    assert here.is_shared
    assert here.wait_s(0) <= 0


RTT_S = 0.001


def race(clock: Clock, decides_s: list[float]) -> list[int]:
    """How many of 400 messages each of these hosts wrote, if all want to write all the time.

    Each needs that long to decide; half as long after each refusal, because it decides less.
    """
    hosts = [Contention() for _ in decides_s]
    lost, written = [0] * len(hosts), [0] * len(hosts)
    for _ in range(400):
        waits = [max(0.0, host.wait_s(count)) for host, count in zip(hosts, lost, strict=True)]
        takes = [RTT_S + each / 2**count for each, count in zip(decides_s, lost, strict=True)]
        ready = [wait + each for wait, each in zip(waits, takes, strict=True)]
        first = min(range(len(hosts)), key=lambda index: (ready[index], random.random()))
        clock.now += ready[first]
        # Whoever began before it heard of this one is refused.
        lost = [count + (wait < ready[first]) for count, wait in zip(lost, waits, strict=True)]
        lost[first] = 0
        written[first] += 1
        hosts[first].took(takes[first])
        write(hosts, hosts[first])
    return written


def test_hosts_that_write_all_the_time_write_equally_often(clock: Clock) -> None:
    assert min(race(clock, [0.002] * 4)) >= 60


def test_a_host_that_is_slower_than_the_others_gets_its_share(clock: Clock) -> None:
    assert min(race(clock, [0.002, 0.002, 0.002, 0.004])) >= 60


def test_a_host_that_is_much_slower_than_the_others_is_not_shut_out(clock: Clock) -> None:
    assert min(race(clock, [0.002, 0.002, 0.002, 0.015])) >= 10


async def test_what_is_heard_ends_the_waiting(clock: Clock) -> None:
    hosts = [Contention() for _ in range(2)]
    here, there = hosts
    write(hosts, there)
    write(hosts, here)
    heard, taken = asyncio.Event(), list[int]()

    def take() -> None:
        taken.append(len(taken))
        if len(taken) == 1:
            asyncio.get_running_loop().call_soon(heard.set)
        else:
            write(hosts, there)

    # The clock stands still: only the message of the other host ends this.
    await here.turn(0, heard, take)
    assert len(taken) >= 2 and here.wait_s(0) <= 0


def test_a_log_that_another_host_made_long_is_left_to_it_for_a_while() -> None:
    tail = LogTail(events_kept=4)
    for number in range(1, 5):
        tail.add(number, f"e{number}", b"{}")
    assert tail.is_long
    tail.put_off()
    assert not tail.is_long
    for number in range(5, 9):
        tail.add(number, f"e{number}", b"{}")
    assert tail.is_long
