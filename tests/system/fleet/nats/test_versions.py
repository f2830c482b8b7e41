"""What a newer version wrote on a server: a newer minor is kept, a newer major only read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import anyio
import pytest

from bullpen.errors import Unavailable
from bullpen.fleet.servers.server_process import Cluster
from bullpen.protocol.format_version import FORMAT
from bullpen.protocol.names import LEAD
from bullpen.store.nats.client import api_requests
from bullpen.store.nats.client.connection import NatsConnection
from bullpen.store.nats.client.streams import prepare
from bullpen.store.nats.client.subjects import CELL_KEY
from bullpen.store.nats.log.packing import PACKED_FORMAT
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
        assert first["format"] == PACKED_FORMAT
        assert not any("format" in row for row in rest)
        for number in range(20):
            await team.tasks.add(f"T{number}", by=LEAD)
        snapshots = [row["snapshot"] for row in await rows(store, team) if "snapshot" in row]
        assert [(each["format"], each["v"]) for each in snapshots] == [(PACKED_FORMAT, 2)]


async def test_a_newer_major_is_read_and_not_written(cluster: Cluster) -> None:
    store = NatsStore(endpoint_of(cluster))
    async with Teams(store) as teams:
        team = await new_team(teams, "major")
        await team.tasks.add("One", by=LEAD)
        await write_as(store, team, "3.0")
        async with Teams(NatsStore(endpoint_of(cluster))) as fresh:
            for one in (team, fresh.open(team.name)):
                assert [task.subject for task in (await one.tasks.list()).tasks] == ["One"]
                with pytest.raises(Unavailable, match=r"format 3\.0") as error:
                    await one.tasks.add("Two", by=LEAD)
                assert "Upgrade Bullpen" in error.value.remedy
        with pytest.raises(Unavailable, match=r"format 3\.0"):
            await store.delete(team.name, actor=LEAD)


@pytest.mark.parametrize("version", ["1.99", "2.99"])
async def test_a_newer_minor_is_kept_as_it_is(cluster: Cluster, version: str) -> None:
    store = NatsStore(endpoint_of(cluster), events_kept=4)
    async with Teams(store) as teams:
        team = await new_team(teams, f"minor-{version[0]}")
        await write_as(store, team, version)
        for number in range(20):
            await team.tasks.add(f"T{number}", by=LEAD)
        # A snapshot of this version would leave out what it does not know.
        stored = await rows(store, team)
        assert not any("snapshot" in row for row in stored)
        assert [row["changes"] for row in stored if row.get("op") == "weather"] == [[UNKNOWN]]
        assert len((await team.tasks.list()).tasks) == 20


async def prepared_by_an_earlier_version(store: NatsStore) -> None:
    """Leave the format out of the record of the cell, as versions before format 2 do."""
    cell = json.dumps({"v": 1, "partitions": 2, "replicas": 1}).encode()
    client = await store.link.client()
    await api_requests.replace(client, CELL_KEY, cell, timeout_s=5)


async def test_teams_of_a_cell_that_earlier_versions_use_stay_readable_for_them(
    cluster: Cluster,
) -> None:
    store = NatsStore(endpoint_of(cluster), events_kept=4)
    try:
        await prepared_by_an_earlier_version(store)
        async with Teams(store) as teams:
            team = await new_team(teams, "plain")
            # All at once: in format 2 they would share messages.
            async with anyio.create_task_group() as group:
                for number in range(20):
                    group.start_soon(partial(team.tasks.add, f"T{number}", by=LEAD))
            stored = await rows(store, team)
            (kept,) = [row["snapshot"] for row in stored if "snapshot" in row]
            assert (kept["format"], kept["v"]) == (FORMAT, 1)
            assert {row["v"] for row in stored} == {1}
            history = [await block(store, team, seq) for _, seq in kept["parts"]]
            lines = [json.loads(line) for data in history for line in data.split(b"\n")]
            assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
            assert lines[0]["format"] == FORMAT
    finally:
        link = NatsConnection(endpoint_of(cluster))
        await prepare(await link.client(), partitions=2)
        await link.aclose()


async def block(store: NatsStore, team: Team, seq: int) -> bytes:
    """A message of the history, as it is stored."""
    address = store._logs[team.name].address
    reader = await store.link.reader()
    (row,) = await reader.rows(address.stream, address.history, seq, timeout_s=5, limit=1)
    return row.data


async def test_a_version_that_knows_only_format_1_cannot_misread_format_2(
    cluster: Cluster,
) -> None:
    store = NatsStore(endpoint_of(cluster), events_kept=12)
    async with Teams(store) as teams:
        team = await new_team(teams, "packed")
        async with anyio.create_task_group() as group:
            for number in range(40):
                group.start_soon(partial(team.tasks.add, f"T{number}", by=LEAD))
        address = store._logs[team.name].address
        reader = await store.link.reader()
        messages = await reader.rows(address.stream, address.log, 1, timeout_s=5)
        parts = store._logs[team.name].kept.parts
        assert parts
        assert len(messages) < 40
        together = [row.data for row in messages if b"\n" in row.data]
        for data in (*together, *[await block(store, team, part.seq) for part in parts]):
            # It reads a message as one JSON text, and a block as lines of them.
            with pytest.raises(ValueError, match=r"JSON|Extra data|codec"):
                json.loads(data)
            with pytest.raises(ValueError, match=r"version|JSON|codec"):
                old_parse(data.split(b"\n")[0])


def old_parse(line: bytes) -> None:
    raw = json.loads(line)
    if raw.get("v") != 1:
        raise ValueError("its version is unknown")
