"""Servers as processes: they get ready, they can be hurt, and they leave nothing running."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bullpen.agents.system import processes
from bullpen.errors import Invalid, StartFailed
from bullpen.fleet.servers import server_process
from bullpen.fleet.servers.config import Ports
from bullpen.fleet.servers.ports import free_ports
from bullpen.fleet.servers.server_process import Cluster
from bullpen.testing.nats import running

DEADLINE_S = 60.0


async def test_a_paused_server_can_be_ended(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    await cluster.start()
    cluster.pause(0)
    process = cluster._processes[0]
    await cluster.stop()
    assert process.returncode != -signal.SIGKILL, "it was not woken to hear that it shall end"


async def test_servers_listen_on_loopback_and_sync_before_they_acknowledge(tmp_path: Path) -> None:
    async with running(tmp_path) as cluster:
        varz = await cluster.monitor(0, "/varz")
        assert (varz["host"], varz["http_host"]) == ("127.0.0.1", "127.0.0.1")
        assert varz["max_payload"] == 8_000_000 or varz["max_payload"] == 8 * 1024 * 1024
        assert (await cluster.monitor(0, "/jsz"))["config"]["sync_always"] is True


async def test_only_the_owner_can_read_what_servers_keep(tmp_path: Path) -> None:
    async with running(tmp_path / "deep" / "er") as cluster:
        node = cluster.nodes[0]
        assert stat.S_IMODE(node.directory.stat().st_mode) == 0o700
        for path in (node.config_path, node.log_path):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_a_server_gets_nothing_secret_by_its_words_or_its_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "hush-hush-1")
    extra = 'authorization { user: "u", password: "hush-hush-2" }'
    async with running(tmp_path, extra=extra) as cluster:
        about = Path(f"/proc/{cluster.pid(0)}")
        try:
            told = (about / "cmdline").read_bytes() + (about / "environ").read_bytes()
        except FileNotFoundError:
            pytest.skip("this system shows no environment of other processes")
        assert b"hush-hush" not in told


async def test_a_server_that_cannot_start_tells_its_last_words(tmp_path: Path) -> None:
    with pytest.raises(StartFailed) as caught:
        async with running(tmp_path, extra="no_such_setting { x: 1 }"):
            pass
    assert "no_such_setting" in caught.value.screen


async def test_a_port_that_somebody_took_meanwhile_is_left_to_him(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        (free,) = free_ports(1)
        offers = [[Ports(other.getsockname()[1], free.monitor, free.route)], [free]]
        monkeypatch.setattr(server_process, "free_ports", lambda _: offers.pop(0))
        async with running(tmp_path) as cluster:
            assert cluster.nodes[0].ports == free


async def test_a_taken_port_that_was_asked_for_is_an_error(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        (free,) = free_ports(1)
        ports = [Ports(other.getsockname()[1], free.monitor, free.route)]
        with pytest.raises(StartFailed, match="n1"):
            async with Cluster(tmp_path, ports=ports):
                pass


def test_two_servers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="2 servers"):
        Cluster(tmp_path, 2)


HOLDER = """
import anyio, sys
from pathlib import Path
from bullpen.fleet.servers.server_process import Cluster

async def main():
    cluster = Cluster(Path(sys.argv[1]))
    await cluster.start()
    cluster.pause(0)
    print(cluster.pid(0), flush=True)
    await anyio.sleep(600)

anyio.run(main)
"""


def test_servers_end_with_the_process_that_started_them_even_when_it_is_killed(
    tmp_path: Path,
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        pid = int(holder.stdout.readline())
        start = processes.start_of(pid)
        assert start is not None
        os.kill(holder.pid, signal.SIGKILL)
    deadline = time.monotonic() + DEADLINE_S
    while processes.is_alive(pid, start):
        assert time.monotonic() < deadline, "the server outlived the one who started it"
        time.sleep(0.02)
