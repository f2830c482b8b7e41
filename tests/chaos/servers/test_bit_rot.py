"""One flipped bit on the disk of one server: told, and mended by a fresh copy."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import nats
import pytest

from bullpen.fleet.servers.alarms import alarms
from bullpen.fleet.servers.cluster_survey import Round, survey
from bullpen.fleet.servers.server_process import Cluster, until
from bullpen.testing.nats import running

STREAM = "TEAM_00"
MESSAGES = 30_000
"""With fewer, the server still has them all in another log and heals itself."""

AT_ONCE = 100
DEADLINE_S = 120.0


async def quiet(_: Exception) -> None:
    """The library prints a traceback for every reconnect otherwise."""


async def looked(cluster: Cluster) -> list[Round]:
    return await survey([(node.name, node.monitor_url) for node in cluster.nodes], pause_s=0.3)


def flip_one_bit(store: Path) -> None:
    block = max(store.rglob(f"{STREAM}/msgs/*.blk"), key=lambda path: path.stat().st_size)
    at = block.stat().st_size // 3
    with block.open("r+b") as file:
        file.seek(at)
        (byte,) = file.read(1)
        file.seek(at)
        file.write(bytes([byte ^ 4]))


@pytest.mark.nightly
@pytest.mark.slow
async def test_a_copy_that_lost_messages_to_a_flipped_bit_is_told_and_mended(
    tmp_path: Path,
) -> None:
    # Late syncs make this quicker, and are no part of what is tested.
    async with running(tmp_path, 3, sync="2m") as cluster:
        nc = await nats.connect(cluster.urls, error_cb=quiet, max_reconnect_attempts=-1)
        js = nc.jetstream(timeout=30)
        await js.add_stream(name=STREAM, subjects=["t.>"], num_replicas=3)
        for _ in range(MESSAGES // AT_ONCE):
            async with anyio.create_task_group() as group:
                for _ in range(AT_ONCE):
                    group.start_soon(js.publish, "t.a", os.urandom(300))

        async def copies_differ() -> bool:
            return "replicas_differ" in [each.kind for each in alarms(await looked(cluster))]

        async def copies_are_whole() -> bool:
            told = (await looked(cluster))[-1]
            copies = [each.replicas.get(("$G", STREAM)) for each in told]
            return all(copy is not None and copy.messages == MESSAGES for copy in copies)

        assert await until(copies_are_whole, DEADLINE_S)
        leader = await cluster.leader_of(STREAM)
        assert leader is not None
        victim = (leader + 1) % 3
        store = cluster.nodes[victim].store_path
        # The log among the servers is compacted every few seconds; before, it heals the copy.
        await anyio.sleep(5)
        cluster.kill(victim)
        flip_one_bit(store)
        await cluster.restart(victim)
        await cluster.wait_ready()
        assert await until(copies_differ, DEADLINE_S)

        # What the alarm says to do.
        await cluster.end(victim)
        store.rename(tmp_path / "moved")
        await cluster.restart(victim)
        await cluster.wait_ready()
        assert await until(copies_are_whole, DEADLINE_S)
        assert not await copies_differ()
        await nc.close()
