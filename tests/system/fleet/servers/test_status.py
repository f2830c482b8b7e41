"""What real servers say of themselves, and what the alarms make of it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import anyio
import nats
from nats.js.errors import NoStreamResponseError

from bullpen.fleet.servers.alarms import Alarm, alarms
from bullpen.fleet.servers.cluster_survey import Round, survey
from bullpen.fleet.servers.server_process import Cluster, until
from bullpen.testing.nats import running

DEADLINE_S = 60.0


async def looked(cluster: Cluster, *, pause_s: float = 0.2) -> tuple[list[Round], list[Alarm]]:
    monitors = [(node.name, node.monitor_url) for node in cluster.nodes]
    rounds = await survey(monitors, pause_s=pause_s)
    return rounds, alarms(rounds)


async def found_at_last(cluster: Cluster, kind: str) -> Alarm:
    """The first alarm of a kind, as soon as there is one."""
    with anyio.fail_after(DEADLINE_S):
        while True:
            _, found = await looked(cluster)
            for alarm in found:
                if alarm.kind == kind:
                    return alarm


async def quiet(_: Exception) -> None:
    """The library prints a traceback for every reconnect otherwise."""


async def test_copies_that_are_written_to_wake_nobody_and_a_dead_majority_does(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, 3) as cluster:
        nc = await nats.connect(cluster.urls, error_cb=quiet, reconnect_time_wait=0.1)
        js = nc.jetstream(timeout=10)
        await js.add_stream(
            name="TEAM_00", subjects=["t.>"], num_replicas=3, allow_rollup_hdrs=True
        )

        async def write(writer: int) -> None:
            number = 0
            while True:
                number += 1
                rollup = {"Nats-Rollup": "sub"} if number % 16 == 0 else {}
                with suppress(NoStreamResponseError):
                    # The servers, on a busy machine, may be electing a leader.
                    await js.publish(f"t.{writer}.log", b"x", headers=rollup)

        async with anyio.create_task_group() as writers:
            for writer in range(4):
                writers.start_soon(write, writer)

            async def written() -> bool:
                return (await js.stream_info("TEAM_00")).state.last_seq > 200

            assert await until(written, DEADLINE_S)
            # Seconds between the looks, as the command has: these servers share two cores.
            rounds, found = await looked(cluster, pause_s=1.0)
            writers.cancel_scope.cancel()
        # Under load a copy may be late. That one is lost would be a lie.
        assert [alarm for alarm in found if alarm.kind != "replica_behind"] == []
        assert all(("$G", "TEAM_00") in told.replicas for told in rounds[-1])
        await nc.close()

        leader = await cluster.leader_of("TEAM_00")
        assert leader is not None
        cluster.kill(leader)
        # Seen before the others have elected another.
        assert "TEAM_00" in (await found_at_last(cluster, "leaderless")).text
        for index in range(3):
            if index != leader:
                cluster.kill(index)
        await cluster.restart(0)
        assert "n2" in (await found_at_last(cluster, "node_down")).text
        assert (await found_at_last(cluster, "no_meta_leader")).remedy


async def test_servers_that_sync_late_are_told(tmp_path: Path) -> None:
    async with running(tmp_path, sync="2m") as cluster:
        _, found = await looked(cluster, pause_s=0)
        assert [alarm.kind for alarm in found] == ["sync"]
