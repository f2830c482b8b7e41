"""What `server config` prints, run for real: three servers, TLS among them, keys for clients."""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import nats
import pytest
from nats import errors as nats_errors

from bullpen.fleet.auth.resolver import include_text
from bullpen.fleet.auth.tls import issue
from bullpen.fleet.auth.vault import Vault
from bullpen.fleet.servers.alarms import alarms
from bullpen.fleet.servers.backup import back_up, checked
from bullpen.fleet.servers.cluster_survey import survey
from bullpen.fleet.servers.config import Ports
from bullpen.fleet.servers.connect import connected
from bullpen.fleet.servers.ports import free_ports
from bullpen.fleet.servers.production import AUTH_FILE, STORE_DIR, production_configs
from bullpen.fleet.servers.server_binary import find_binary
from bullpen.fleet.servers.server_process import until
from bullpen.store.nats.client.streams import prepare

HOSTS = ("127.0.0.1", "127.0.0.2", "127.0.0.3")
DEADLINE_S = 90.0


async def quiet(_: Exception) -> None:
    """The library prints a traceback otherwise."""


def need_addresses() -> None:
    for host in HOSTS:
        with socket.socket() as probe:
            try:
                probe.bind((host, 0))
            except OSError:
                pytest.skip(f"this system has no address {host}")


def moved(text: str, host: str, ports: Ports, store: Path) -> str:
    """A configuration with other ports and another directory, so that a test can have them."""
    return (
        text.replace("0.0.0.0:", f"{host}:")
        .replace("127.0.0.1:8222", f"{host}:{ports.monitor}")
        .replace(":4222", f":{ports.client}")
        .replace(":6222", f":{ports.route}")
        .replace(STORE_DIR, str(store))
    )


@contextmanager
def started(directory: Path, keys: Path, ports: Ports) -> Iterator[None]:
    texts = production_configs(HOSTS, auth=str(keys), tls=str(keys / "tls"))
    with ExitStack() as stack:
        for host, text in texts.items():
            folder = directory / host
            folder.mkdir(parents=True)
            path = folder / "nats-server.conf"
            path.write_text(moved(text, host, ports, folder / "store"), encoding="utf-8")
            auth = include_text(keys, resolver=folder / "accounts")
            (folder / AUTH_FILE).write_text(auth, encoding="utf-8")
            log = stack.enter_context((folder / "log").open("wb"))
            process = subprocess.Popen(
                [str(find_binary(os.environ)), "-c", str(path)], stdout=log, stderr=log
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
        yield


async def test_three_servers_run_as_printed_and_only_those_with_keys_get_in(
    tmp_path: Path,
) -> None:
    need_addresses()
    keys = tmp_path / "keys"
    vault = Vault(keys)
    vault.create()
    creds = vault.add_tenant("acme")
    for host in HOSTS:
        issue(keys, host)
    (ports,) = free_ports(1)
    url = "tls://" + ",".join(f"{host}:{ports.client}" for host in HOSTS)
    monitors = [(host, f"http://{host}:{ports.monitor}") for host in HOSTS]
    ca = str(keys / "tls" / "ca.pem")
    with started(tmp_path / "servers", keys, ports):

        async def well() -> bool:
            told = (await survey(monitors, rounds=1))[-1]
            return all(each.up and each.meta_leader and each.cluster_size == 3 for each in told)

        assert await until(well, DEADLINE_S)
        async with connected(url, creds=str(creds), ca=ca) as nc:
            await prepare(nc, replicas=3)
            await nc.jetstream(timeout=10).publish("t.00.alpha.u.log", b"{}")
            await back_up(nc, tmp_path / "backup")

        async def nothing_is_wrong() -> bool:
            return not alarms(await survey(monitors, pause_s=0.2))

        assert await until(nothing_is_wrong, DEADLINE_S)
        # One try, and no other after it.
        with pytest.raises(nats_errors.Error, match="Authorization"):
            await nats.connect(
                f"tls://{HOSTS[0]}:{ports.client}",
                tls=ssl.create_default_context(cafile=ca),
                allow_reconnect=False,
                error_cb=quiet,
            )
    found = await checked(tmp_path / "backup")
    assert {kept.name: kept.messages for kept in found.streams}["TEAM_00"] == 1
