"""When a host takes another for lost, and when it lets its own agents in: no process needed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bullpen.agents.supervisor.machines.host_records import (
    HostBeat,
    HostRecord,
    fits,
    has_room,
    own_labels,
    parse_labels,
    pool_of,
    rank,
    wanted_labels,
)
from bullpen.agents.supervisor.machines.over_nats import KnownHost
from bullpen.errors import Invalid, Unavailable
from bullpen.fleet.host import heartbeat as heart_module
from bullpen.fleet.host import launches as launches_module
from bullpen.fleet.host import lost_hosts as undertaker_module
from bullpen.fleet.host.heartbeat import HostHeartbeat
from bullpen.fleet.host.launches import Launches, LaunchTokens
from bullpen.fleet.host.lost_hosts import LostHosts
from bullpen.store.hosted.tokens import OPERATOR, Identities, TokenIdentity
from bullpen.store.nats.client import api_requests
from bullpen.store.nats.client.api_requests import NoAnswer
from bullpen.store.nats.client.connection import Endpoint, NatsConnection
from bullpen.team.team import Teams

TTL_S = 30.0


class Times:
    """A clock that the test moves, servers that hear or do not, and a leader that knows."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_000.0
        self.answers = True
        self.silent = True
        for module in (heart_module, launches_module, undertaker_module):
            monkeypatch.setattr(module, "passed_s", lambda: self.now)
        monkeypatch.setattr(api_requests, "replace", self._replace)
        monkeypatch.setattr(undertaker_module, "is_silent", self._is_silent)
        self.link = NatsConnection(Endpoint(("nats://127.0.0.1:1",)))
        monkeypatch.setattr(self.link, "client", self._client)
        beat = HostBeat.new(name="me", beat_ms=0)
        self.heart = HostHeartbeat(self.link, "me", lambda: beat)

    async def _client(self) -> None:
        return None

    async def _replace(self, *args: Any, **more: Any) -> int:
        if not self.answers:
            raise NoAnswer("TimeoutError")
        return 1

    async def _is_silent(self, *args: Any) -> bool:
        return self.silent

    async def live(self, seconds: float) -> None:
        """Beat every five seconds for so long."""
        until = self.now + seconds
        await self.heart.beat()
        while self.now < until:
            self.now += 5.0
            await self.heart.beat()


class Graves(LostHosts):
    """An undertaker that only writes down whom it would bury."""

    def __init__(self, times: Times, name: str = "me") -> None:
        super().__init__(name, times.link, cast("Any", None), times.heart)
        self.buried: list[str] = []

    async def _give_up_agents(self, host: HostRecord) -> bool:
        self.buried.append(host.name)
        return True


@pytest.fixture
async def times(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Times]:
    yield Times(monkeypatch)


def known(name: str, *, beats: bool, teams: tuple[str, ...] = ("crew",)) -> KnownHost:
    record = HostRecord.new(name=name, started_ms=0, teams=list(teams))
    return KnownHost(record, HostBeat.new(name=name, beat_ms=0) if beats else None)


ALL = [known("me", beats=True), known("gone", beats=False)]


async def test_a_heartbeat_that_is_missing_once_buries_nobody(times: Times) -> None:
    graves = Graves(times)
    await times.live(TTL_S)
    await graves.look(ALL)
    times.now += 4.0
    await graves.look(ALL)
    assert graves.buried == []
    times.now += 1.0
    await graves.look(ALL)
    await graves.look(ALL)
    assert graves.buried == ["gone"]


async def test_a_heartbeat_that_came_between_two_looks_begins_it_anew(times: Times) -> None:
    graves = Graves(times)
    await times.live(TTL_S)
    await graves.look(ALL)
    times.now += 4.0
    await graves.look([known("me", beats=True), known("gone", beats=True)])
    times.now += 4.0
    await graves.look(ALL)
    assert graves.buried == []


async def test_a_host_that_was_not_heard_all_the_time_buries_nobody(times: Times) -> None:
    graves = Graves(times)
    await times.live(TTL_S)
    times.answers = False
    await times.heart.beat()
    times.answers = True
    for _ in range(6):
        await graves.look(ALL)
        await times.live(5.0)
    assert graves.buried == []
    for _ in range(2):
        await graves.look(ALL)
        await times.live(5.0)
    assert graves.buried == ["gone"]


async def test_what_only_a_replica_does_not_know_buries_nobody(times: Times) -> None:
    graves = Graves(times)
    times.silent = False
    await times.live(TTL_S)
    for _ in range(5):
        await graves.look(ALL)
        await times.live(5.0)
    assert graves.buried == []


async def test_hosts_without_teams_are_nobodys_business(times: Times) -> None:
    graves = Graves(times)
    await times.live(TTL_S)
    for _ in range(5):
        await graves.look([known("me", beats=True), known("gone", beats=False, teams=())])
        await times.live(5.0)
    assert graves.buried == []


async def test_the_next_host_in_turn_acts_only_later_and_most_never(times: Times) -> None:
    names = ["me", *(f"h{number}" for number in range(5))]
    hosts = [*(known(name, beats=True) for name in names), known("gone", beats=False)]
    in_turn = sorted(names, key=lambda name: rank(name, names, "gone"))
    acted: dict[str, float] = {}
    await times.live(TTL_S)
    graves = {name: Graves(times, name) for name in names}
    began = times.now
    for _ in range(20):
        for name, each in graves.items():
            await each.look(hosts)
            if each.buried and name not in acted:
                acted[name] = times.now - began
        await times.live(5.0)
    assert list(acted) == in_turn[:3]
    assert list(acted.values()) == [5.0, 15.0, 30.0]


async def test_agents_wait_at_the_door_while_their_host_may_have_been_given_up(
    times: Times, tmp_path: Path
) -> None:
    identities = Identities(tmp_path / "identities.json")
    token, operator = identities.mint(TokenIdentity("crew", "bob")), identities.mint(OPERATOR)
    teams = cast("Teams", SimpleNamespace())
    launches = Launches("me", teams, LaunchTokens(identities), times.heart)
    await times.heart.beat()
    with pytest.raises(Unavailable, match="was disconnected"):
        launches(token)
    await launches.look(set())
    assert launches(token) == TokenIdentity("crew", "bob")
    times.now += TTL_S
    with pytest.raises(Unavailable, match="was disconnected"):
        launches(token)
    assert launches(operator) == OPERATOR
    await times.heart.beat()
    with pytest.raises(Unavailable, match="was disconnected"):
        launches(token)
    await launches.look(set())
    assert launches(token) == TokenIdentity("crew", "bob")


def test_labels_are_asked_for_by_name_or_with_a_value() -> None:
    labels = own_labels(["gpu=a100", "gpu=h100", "quiet"], {"os": ["linux"]})
    assert labels == {"os": ["linux"], "gpu": ["a100", "h100"], "quiet": []}
    for text in ("any", "os=linux", "gpu", "gpu=h100,os=linux,quiet"):
        assert fits(labels, wanted_labels(text)), text
    for text in ("os=darwin", "loud", "gpu=t4", "gpu=h100,loud"):
        assert not fits(labels, wanted_labels(text)), text
    assert pool_of(parse_labels("a=1,b")) == pool_of(parse_labels("b,a=1")) != pool_of({})


@pytest.mark.parametrize("text", ["", ",", "=a100", "gpu,gpu", "a b=1", "gpu=1,"])
def test_what_is_no_list_of_labels_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="not a list of labels"):
        parse_labels(text)


def test_room_is_by_agents_and_memory_and_not_for_who_drains() -> None:
    host = HostRecord.new(name="me", started_ms=0, agents_max=2, memory_mb_min=100)

    def room(agents: int, free: int | None, *, draining: bool = False) -> bool:
        beat = HostBeat.new(
            name="me", beat_ms=0, agents=agents, memory_mb_free=free, draining=draining
        )
        return has_room(host, beat)

    assert room(1, 100)
    assert room(1, None)
    assert not room(2, 100)
    assert not room(1, 99)
    assert not room(0, 100, draining=True)
