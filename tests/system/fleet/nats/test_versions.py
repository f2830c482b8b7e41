"""What a newer version wrote on a server: a newer minor is kept, a newer major only read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from bullpen.errors import Unavailable
from bullpen.fleet.servers.server_process import Cluster
from bullpen.protocol.format_version import FORMAT
from bullpen.protocol.names import LEAD
from bullpen.store.nats.client import api_requests
from bullpen.store.nats.store import NatsStore
from bullpen.team.team import Team, Teams
from support.crews import new_team
from support.store.nats_parts import endpoint_of, servers

UNKNOWN = {"put": "weather", "says": "rain"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with servers(1) as cluster:
        yield cluster


async def rows(store: NatsStore, team: Team) -> list[dict[str, Any]]:
    """The messages of a team's log, as they are stored."""
    address = store._logs[team.name].address
    reader = await store.link.reader()
    found = await reader.rows(address.stream, address.log, 1, timeout_s=5)
    return [json.loads(row.data) for row in found]


async def write_as(store: NatsStore, team: Team, version: str) -> None:
    """Add an event as a version with that format would."""
    log = store._logs[team.name]
    raw = {"v": 1, "eid": "e", "prev": log.head, "seq": log.kept.seq + 1, "format": version}
    raw |= {"time": "2030-01-01T00:00:00.000Z", "actor": LEAD, "op": "weather"}
    data = json.dumps({**raw, "changes": [UNKNOWN]}).encode()
    client = await store.link.client()
    await api_requests.append(client, log.address.log, data, expect=log.head, timeout_s=5)


async def test_the_first_event_and_snapshots_say_their_format(cluster: Cluster) -> None:
    store = NatsStore(endpoint_of(cluster), events_kept=4)
    async with Teams(store) as teams:
        team = await new_team(teams, "said")
        first, *rest = await rows(store, team)
        assert first["format"] == FORMAT
        assert not any("format" in row for row in rest)
        for number in range(20):
            await team.tasks.add(f"T{number}", by=LEAD)
        snapshots = [row["snapshot"] for row in await rows(store, team) if "snapshot" in row]
        assert [each["format"] for each in snapshots] == [FORMAT]


async def test_a_newer_major_is_read_and_not_written(cluster: Cluster) -> None:
    store = NatsStore(endpoint_of(cluster))
    async with Teams(store) as teams:
        team = await new_team(teams, "major")
        await team.tasks.add("One", by=LEAD)
        await write_as(store, team, "2.0")
        async with Teams(NatsStore(endpoint_of(cluster))) as fresh:
            for one in (team, fresh.open(team.name)):
                assert [task.subject for task in (await one.tasks.list()).tasks] == ["One"]
                with pytest.raises(Unavailable, match=r"format 2\.0") as error:
                    await one.tasks.add("Two", by=LEAD)
                assert "Upgrade Bullpen" in error.value.remedy
        with pytest.raises(Unavailable, match=r"format 2\.0"):
            await store.delete(team.name, actor=LEAD)


async def test_a_newer_minor_is_kept_as_it_is(cluster: Cluster) -> None:
    store = NatsStore(endpoint_of(cluster), events_kept=4)
    async with Teams(store) as teams:
        team = await new_team(teams, "minor")
        await write_as(store, team, "1.99")
        for number in range(20):
            await team.tasks.add(f"T{number}", by=LEAD)
        # A snapshot of this version would leave out what it does not know.
        stored = await rows(store, team)
        assert not any("snapshot" in row for row in stored)
        assert [row["changes"] for row in stored if row.get("op") == "weather"] == [[UNKNOWN]]
        assert len((await team.tasks.list()).tasks) == 20
