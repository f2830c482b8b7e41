"""Backup and restore: what comes back is what was there, and damage is named."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import nats
import pytest
from nats.aio.client import Client

from bullpen.errors import Conflict, NotFound, Unavailable
from bullpen.fleet.servers.backup import MANIFEST, back_up, checked, restore
from bullpen.fleet.servers.server_process import until
from bullpen.store.nats.client.api_requests import api
from bullpen.store.nats.client.streams import prepare
from bullpen.testing.nats import running

DEADLINE_S = 60.0
TEAMS = 4
BACKUPS = 20
LOG = "t.00.team{}.u.log"


async def quiet(_: Exception) -> None:
    """The library prints a traceback for every reconnect otherwise."""


@asynccontextmanager
async def server(directory: Path, nodes: int = 1) -> AsyncIterator[Client]:
    async with running(directory, nodes) as cluster:
        nc = await nats.connect(cluster.urls, error_cb=quiet)
        try:
            yield nc
        finally:
            await nc.close()


async def append(nc: Client, team: int, number: int, head: int, *, pad: int = 0) -> int:
    """One event of a team: each 16th replaces all before it, as snapshots do."""
    headers = {"Nats-Expected-Last-Subject-Sequence": str(head)}
    if number and number % 16 == 0:
        headers["Nats-Rollup"] = "sub"
    body = json.dumps({"n": number, "pad": os.urandom(pad).hex()}).encode()
    ack = await nc.jetstream(timeout=20).publish(LOG.format(team), body, headers=headers)
    return ack.seq


async def fill(nc: Client, *, replicas: int = 1) -> None:
    await prepare(nc, replicas=replicas)
    for team in range(TEAMS):
        head = 0
        for number in range(20):
            head = await append(nc, team, number, head)
    js = nc.jetstream()
    await js.publish("$KV.TEAMS.team.team0", b'{"name": "team0"}')
    await js.publish("$KV.HOSTS.host.one", b"{}")
    await js.publish("start.any.x", b"{}")


async def contents(nc: Client, stream: str) -> list[tuple[int, str, str]]:
    """Every message: sequence, subject, and a digest of headers and body."""
    info = await api(nc, f"STREAM.INFO.{stream}", None, timeout_s=10)
    found = []
    for seq in range(info["state"]["first_seq"], info["state"]["last_seq"] + 1):
        answer = await nc.request(
            f"$JS.API.STREAM.MSG.GET.{stream}", json.dumps({"seq": seq}).encode(), timeout=10
        )
        row = json.loads(answer.data).get("message")
        if row is not None:
            kept = f"{row.get('hdrs')}|{row.get('data')}|{row['time']}"
            found.append((seq, row["subject"], hashlib.sha256(kept.encode()).hexdigest()))
    return found


async def test_an_empty_server_gets_back_the_same_messages(tmp_path: Path) -> None:
    names = ("KV_TEAMS", "KV_HOSTS", "STARTS", "TEAM_00")
    async with server(tmp_path / "old") as old, server(tmp_path / "new") as new:
        await fill(old)
        made = await back_up(old, tmp_path / "backup")
        await restore(new, await checked(tmp_path / "backup"))
        before = {name: await contents(old, name) for name in names}
        assert {name: await contents(new, name) for name in names} == before
        counts = {kept.name: kept.messages for kept in made.streams if kept.file}
        assert counts == {name: len(rows) for name, rows in before.items()}
        assert counts["TEAM_00"] == TEAMS * 4
        # Writing goes on where it was: the heads of subjects are the same.
        head = before["TEAM_00"][-1][0]
        assert await append(new, TEAMS - 1, 20, head) == head + 1


async def test_what_lives_in_memory_comes_back_empty_in_its_form(tmp_path: Path) -> None:
    async with server(tmp_path / "old") as old, server(tmp_path / "new") as new:
        await fill(old)
        await old.jetstream().publish("p.team0.u.host.s", b"here")
        await back_up(old, tmp_path / "backup")
        await restore(new, await checked(tmp_path / "backup"))
        info = await api(new, "STREAM.INFO.PRES", None, timeout_s=10)
        assert (info["config"]["storage"], info["state"]["messages"]) == ("memory", 0)


async def test_a_backup_of_three_goes_into_one_and_replaces_what_start_made(
    tmp_path: Path,
) -> None:
    async with server(tmp_path / "old", 3) as old, server(tmp_path / "new") as new:
        await fill(old, replicas=3)
        await back_up(old, tmp_path / "backup")
        await prepare(new)
        found = await checked(tmp_path / "backup")
        with pytest.raises(Unavailable, match="3 copies"):
            await restore(new, found)
        assert await contents(new, "TEAM_00") == []
        await restore(new, found, replicas=1)
        assert await contents(new, "TEAM_00") == await contents(old, "TEAM_00")


async def test_every_backup_under_load_holds_every_team_at_one_moment(tmp_path: Path) -> None:
    """Also if events are replaced by a snapshot of the team while the server copies them."""
    acked = [-1] * TEAMS
    before: list[list[int]] = []
    async with server(tmp_path / "old") as old, server(tmp_path / "new") as new:
        await prepare(old)

        async def write(team: int) -> None:
            head = number = 0
            while True:
                head = await append(old, team, number, head, pad=2_000)
                acked[team] = number
                number += 1

        async with anyio.create_task_group() as writers:
            for team in range(TEAMS):
                writers.start_soon(write, team)

            async def all_past(number: int) -> bool:
                return min(acked) > number

            assert await until(lambda: all_past(40), DEADLINE_S)
            for number in range(BACKUPS):
                before.append(list(acked))
                await back_up(old, tmp_path / f"backup-{number}")
            assert await until(lambda: all_past(max(before[-1]) + 40), DEADLINE_S)
            writers.cancel_scope.cancel()
        # With no stream at all the server removes their folder, perhaps while it makes the next.
        other = {"name": "OTHER", "subjects": ["other"]}
        await api(new, "STREAM.CREATE.OTHER", other, timeout_s=10)
        for number, then in enumerate(before):
            # The count and the sequences that the manifest says are checked in here.
            await restore(new, await checked(tmp_path / f"backup-{number}"))
            for team in range(TEAMS):
                numbers = await numbers_of(new, team)
                assert numbers[0] % 16 == 0
                assert numbers == list(range(numbers[0], numbers[-1] + 1))
                assert then[team] <= numbers[-1] <= acked[team]
            for name in await ours(new):
                await api(new, f"STREAM.DELETE.{name}", None, timeout_s=10)


async def ours(nc: Client) -> list[str]:
    """The names of Bullpen's streams."""
    found: list[str] = (await api(nc, "STREAM.NAMES", {}, timeout_s=10))["streams"]
    return [name for name in found if name != "OTHER"]


async def numbers_of(nc: Client, team: int) -> list[int]:
    """The numbers of a team's events, in order."""
    found: list[int] = []
    seq = 1
    while True:
        body = json.dumps({"seq": seq, "next_by_subj": LOG.format(team)}).encode()
        answer = await nc.request("$JS.API.DIRECT.GET.TEAM_00", body, timeout=10)
        headers = answer.headers or {}
        if headers.get("Status") == "404":
            return found
        found.append(int(json.loads(answer.data)["n"]))
        seq = int(headers["Nats-Sequence"]) + 1


async def test_big_streams_come_in_many_chunks(tmp_path: Path) -> None:
    async with server(tmp_path / "old") as old, server(tmp_path / "new") as new:
        await prepare(old)
        for number in range(40):
            await old.jetstream().publish(f"t.00.a.u.h.{number}", os.urandom(500_000))
        made = await back_up(old, tmp_path / "backup")
        (team,) = [kept for kept in made.streams if kept.name == "TEAM_00"]
        assert team.size > 16 * 1024 * 1024
        await restore(new, await checked(tmp_path / "backup"))
        assert await contents(new, "TEAM_00") == await contents(old, "TEAM_00")


async def test_servers_that_hold_teams_are_not_restored_into(tmp_path: Path) -> None:
    async with server(tmp_path / "old") as old:
        await fill(old)
        await back_up(old, tmp_path / "backup")
        before = await contents(old, "TEAM_00")
        with pytest.raises(Conflict, match="already have"):
            await restore(old, await checked(tmp_path / "backup"))
        assert await contents(old, "TEAM_00") == before


async def test_a_stream_that_comes_back_short_is_refused_and_nothing_is_left(
    tmp_path: Path,
) -> None:
    async with server(tmp_path / "old") as old, server(tmp_path / "new") as new:
        await fill(old)
        await back_up(old, tmp_path / "backup")
        path = tmp_path / "backup" / MANIFEST
        told = json.loads(path.read_bytes())
        (row,) = [row for row in told["streams"] if row["name"] == "TEAM_00"]
        row["state"]["messages"] += 1
        path.write_text(json.dumps(told), encoding="utf-8")
        with pytest.raises(Unavailable, match="TEAM_00"):
            await restore(new, await checked(tmp_path / "backup"))
        assert (await api(new, "STREAM.NAMES", {}, timeout_s=10)).get("total") == 0


async def test_servers_without_teams_and_used_directories_are_refused(tmp_path: Path) -> None:
    async with server(tmp_path / "old") as old:
        with pytest.raises(NotFound, match="no streams of Bullpen"):
            await back_up(old, tmp_path / "backup")
        await prepare(old)
        (tmp_path / "used").mkdir()
        (tmp_path / "used" / "letter").touch()
        with pytest.raises(Conflict, match="used"):
            await back_up(old, tmp_path / "used")
