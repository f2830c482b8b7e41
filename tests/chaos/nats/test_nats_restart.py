"""One server that something restarts, a stream without room: nothing but presence is forgotten."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.contracts.driver import TurnInput
from bullpen.agents.supervisor.machines.host_records import HostBeat
from bullpen.agents.supervisor.machines.over_nats import known_hosts
from bullpen.agents.supervisor.roster_view import RosterView
from bullpen.errors import Unavailable
from bullpen.fleet.auth.resolver import push
from bullpen.fleet.auth.roles import Role
from bullpen.fleet.auth.vault import Vault
from bullpen.fleet.host.heartbeat import HostHeartbeat, pace_of
from bullpen.fleet.servers.connect import connected
from bullpen.fleet.servers.server_process import Cluster
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.names import LEAD
from bullpen.store.contract import StoreLimits
from bullpen.store.nats.client.api_requests import api
from bullpen.store.nats.client.connection import Endpoint
from bullpen.store.nats.client.streams import prepare
from bullpen.store.nats.store import NatsStore
from bullpen.team.team import Team, Teams
from support.crews import Crew, new_team
from support.fleet.auth_stage import TENANT, KeyedCluster
from support.store.nats_parts import endpoint_of, servers

DEADLINE_S = 60


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with servers(1) as cluster:
        yield cluster


async def restart(cluster: Cluster) -> None:
    """As something that knows nothing of streams restarts a server."""
    cluster.kill(0)
    await cluster.restart(0)


async def present(team: Team, name: str) -> None:
    """Wait until a heartbeat of a member is known."""
    deadline = time.monotonic() + DEADLINE_S
    while name not in await team.agents.presence():
        assert time.monotonic() < deadline
        await anyio.sleep(0.1)


async def set_limit(team: Team, store: NatsStore, *, room: int | None) -> None:
    """Leave this many bytes in the stream of a team; None for any number."""
    nc = await store.link.client()
    for name in (await api(nc, "STREAM.NAMES", None, timeout_s=5))["streams"]:
        if name.startswith("TEAM_"):
            found = await api(nc, f"STREAM.INFO.{name}", None, timeout_s=5)
            limit = -1 if room is None else max(1, found["state"]["bytes"] + room)
            config = {**found["config"], "max_bytes": limit, "discard": "new"}
            await api(nc, f"STREAM.UPDATE.{name}", config, timeout_s=5)


class TestARestartedServer:
    async def test_presence_goes_on_when_only_the_command_line_was_repeated(
        self, cluster: Cluster, tmp_path: Path
    ) -> None:
        done = anyio.Event()

        async def work(given: TurnInput, desk: Desk) -> str:
            if "WORK" in given.text:
                done.set()
            return "Done."

        async with Teams(NatsStore(endpoint_of(cluster))) as teams:
            team = await new_team(teams, "restarted")
            async with anyio.create_task_group() as group:
                await Crew(team, tmp_path, group).hire("alice", work)
                await restart(cluster)
                with anyio.fail_after(DEADLINE_S):
                    await team.mailbox.send("alice", "WORK please", sender=LEAD)
                    await done.wait()
                await present(team, "alice")
                group.cancel_scope.cancel()
            async with Teams(NatsStore(endpoint_of(cluster))) as fresh:
                _, views = await RosterView(fresh.open(team.name)).look()
                assert [view.name for view in views] == [LEAD, "alice"]

    async def test_a_fresh_process_finds_nobody_present_and_says_no_error(
        self, cluster: Cluster
    ) -> None:
        async with Teams(NatsStore(endpoint_of(cluster))) as teams:
            team = await new_team(teams, "fresh")
            await restart(cluster)
        async with Teams(NatsStore(endpoint_of(cluster))) as teams:
            assert await teams.open(team.name).agents.presence() == {}
            assert (await teams.open(team.name).snapshot()).problems == ()

    async def test_hosts_are_heard_again_and_judge_nobody_for_a_while(
        self, cluster: Cluster
    ) -> None:
        store = NatsStore(endpoint_of(cluster))
        try:
            beat = HostHeartbeat(
                store.link, "one", lambda: HostBeat.new(name="one", beat_ms=1, agents=0)
            )
            beat.pace = await pace_of(store.link)
            assert await beat.beat()
            steady = beat._steady_s
            await restart(cluster)
            for _ in range(DEADLINE_S):
                if await beat.beat():
                    break
                await anyio.sleep(1)
            assert beat._steady_s != steady
            assert (await pace_of(store.link)).ttl_s == beat.pace.ttl_s
            assert [host.record.name for host in await known_hosts(store.link)] == []
        finally:
            await store.aclose()


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Endpoint, Path]]:
    """A server without the streams that were in memory, a person's key and the admin's."""
    directory = tmp_path_factory.mktemp("auth")
    vault = Vault(directory / "keys")
    vault.create()
    admin = vault.add_tenant(TENANT)
    _, ann = vault.mint(TENANT, "ann", Role.HUMAN)
    with (
        anyio.from_thread.start_blocking_portal() as portal,
        portal.wrap_async_context_manager(
            KeyedCluster(directory / "servers", vault.directory)
        ) as cluster,
    ):

        async def begin() -> None:
            async with connected(cluster.url, creds=str(admin)) as nc:
                await prepare(nc)
            await push(vault, cluster.url)
            async with Teams(NatsStore(Endpoint((cluster.url,), ann))) as teams:
                await teams.create("shop", by=LEAD)
            await restart(cluster)

        portal.call(begin)
        yield Endpoint((cluster.url,), ann), admin


class TestAKeyThatMayNotCreateStreams:
    async def test_presence_is_unknown_and_everything_else_works(
        self, keyed: tuple[Endpoint, Path], tmp_path: Path
    ) -> None:
        endpoint, admin = keyed
        done = anyio.Event()

        async def work(given: TurnInput, desk: Desk) -> str:
            if "WORK" in given.text:
                done.set()
            return "Done."

        async with Teams(NatsStore(endpoint)) as teams:
            team = teams.open("shop")
            async with anyio.create_task_group() as group:
                await Crew(team, tmp_path, group).hire("alice", work)
                await team.mailbox.send("alice", "WORK please", sender=LEAD)
                with anyio.fail_after(DEADLINE_S):
                    await done.wait()
                spec = AgentSpec.new(driver="told", backend="subprocess", cwd="/")
                await team.agents.register("bob", spec, by=LEAD, nonce="nonce-of-bob")
                snapshot, views = await RosterView(team).look()
                assert [(each.where, "stream is missing" in each.why)
                        for each in snapshot.problems] == [("who is present", True)]  # fmt: skip
                assert {view.name: view.state for view in views}["bob"] == "unknown"
                with pytest.raises(Unavailable) as error:
                    await team.agents.presence()
                assert "bullpen server prepare" in error.value.remedy
                # What the hint says makes it right, and nobody has to be restarted.
                async with connected(endpoint.servers[0], creds=str(admin)) as nc:
                    await prepare(nc)
                await present(team, "alice")
                group.cancel_scope.cancel()


class TestAStreamWithoutRoom:
    async def test_a_fresh_process_reads_and_says_why_nothing_changes(
        self, cluster: Cluster
    ) -> None:
        store = NatsStore(endpoint_of(cluster), limits=StoreLimits(lock_wait_s=8.0))
        async with Teams(store) as teams:
            team = await new_team(teams, "full")
            await team.tasks.add("One", by=LEAD)
            await set_limit(team, store, room=0)
            async with Teams(NatsStore(endpoint_of(cluster))) as fresh:
                listing = await fresh.open(team.name).tasks.list()
                assert [task.subject for task in listing.tasks] == ["One"]
                assert "has no room" in listing.problems[0].why
                for attempt in (team, fresh.open(team.name)):
                    with pytest.raises(Unavailable, match=r"no room .* Nothing was changed"):
                        await attempt.tasks.add("Two", by=LEAD)
                await set_limit(team, store, room=None)
                await fresh.open(team.name).tasks.add("Two", by=LEAD)
                after = await fresh.open(team.name).tasks.list()
                assert [task.subject for task in after.tasks] == ["One", "Two"]
                assert after.problems == ()
            await team.tasks.add("Three", by=LEAD)


def test_a_server_that_is_restarted_by_its_own_command_line_needs_no_other(tmp_path: Path) -> None:
    """As by a supervisor of processes: `ps` and everything else go on."""
    env = {**os.environ, "BULLPEN_HOME": str(tmp_path / "home")}

    def bullpen(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "bullpen", *words],
            env=env,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    started = json.loads(bullpen("server", "start", "--port", "0", "--json"))
    env["BULLPEN_STORE"] = started["url"]
    again: subprocess.Popen[bytes] | None = None
    try:
        bullpen("team", "create", "shop")
        pid = started["nodes"][0]["pid"]
        argv = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")[:-1]
        cwd = os.readlink(f"/proc/{pid}/cwd")
        os.kill(pid, signal.SIGKILL)
        time.sleep(0.5)
        again = subprocess.Popen(
            argv, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(1)
        assert "No agents in team shop yet" in bullpen("ps")
        bullpen("task", "add", "One")
        assert "One" in bullpen("task", "list")
    finally:
        if again is not None:
            again.kill()
            again.wait()
        subprocess.run([sys.executable, "-m", "bullpen", "server", "stop"], env=env, check=False)


async def test_a_log_that_the_servers_lost_is_not_a_deleted_team(cluster: Cluster) -> None:
    store = NatsStore(endpoint_of(cluster))
    async with Teams(store) as teams:
        team = await new_team(teams, "purged")
        nc = await store.link.client()
        changes = store.watch(team.name, every_s=0.1)
        try:
            await anext(changes)
            for name in ("TEAM_00", "TEAM_01"):
                await api(nc, f"STREAM.PURGE.{name}", None, timeout_s=5)
            with anyio.fail_after(DEADLINE_S), pytest.raises(Unavailable, match="it was lost"):
                while True:
                    await anext(changes)
                    # As the regular check of all logs does.
                    with suppress(Exception):
                        await store._logs[team.name].confirm()
        finally:
            await changes.aclose()
