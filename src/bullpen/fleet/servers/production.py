"""Configurations for servers on machines of their own, with the reasons beside each line. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from bullpen.errors import Invalid
from bullpen.fleet.servers.config import CLUSTER_NAME, MAX_PAYLOAD, SYNC, quoted

STORE_DIR = "/var/lib/nats"
AUTH_FILE = "auth.conf"

_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?")
_SIZES = (1, 3)


def production_configs(
    hosts: Sequence[str], *, auth: str | None = None, tls: str | None = None
) -> dict[str, str]:
    """The configuration of the server on each host.

    `auth` is the directory of `bullpen auth`; `tls` the directory that holds the certificates on
    the servers.

    Raises:
        Invalid: such servers cannot be.
    """
    for host in hosts:
        if not _HOST.fullmatch(host):
            raise Invalid(f"{host!r} is no name of a machine.", remedy="Name it as DNS does.")
    if len(hosts) not in _SIZES or len(set(hosts)) != len(hosts):
        raise Invalid(
            f"{len(hosts)} servers were named: {', '.join(hosts)}.",
            remedy="Name one, or three different ones: one of three may fail, and two cannot"
            " outvote each other.",
        )
    return {host: "\n".join(_blocks(host, hosts, auth, tls)) + "\n" for host in hosts}


def _blocks(host: str, hosts: Sequence[str], auth: str | None, tls: str | None) -> list[str]:
    blocks = [
        f"# nats-server 2.15 or later on {host}. Start it: nats-server -c THIS_FILE",
        _identity(host),
        _monitoring(),
        _jetstream(),
        _tls(host, tls),
        _auth(auth),
    ]
    if len(hosts) > 1:
        blocks.append(_cluster(host, hosts, tls))
    return blocks


def _identity(host: str) -> str:
    return f"""
# The others know it by this name. It stays the same for as long as its data does.
server_name: {quoted(host)}

# Where hosts and people reach it.
listen: "0.0.0.0:4222"

# History and snapshots of big teams are longer than the server's own limit of 1 MB.
max_payload: {MAX_PAYLOAD}

# A rolling restart: clients are sent away over this time, after a SIGUSR2.
lame_duck_grace_period: "5s"
lame_duck_duration: "30s\""""


def _monitoring() -> str:
    return """
# What `bullpen server status --monitor` asks. It knows no passwords: keep it on loopback, or on a
# network of which only those who watch are part.
http: "127.0.0.1:8222\""""


def _jetstream() -> str:
    return f"""
jetstream {{
  # A disk of its own, with checksums if it can be (ZFS, Btrfs): a flipped bit in one copy is
  # found late otherwise.
  store_dir: {quoted(STORE_DIR)}

  # Acknowledged means on the disk. The server's own default is two minutes later: a power cut
  # then loses what was acknowledged, and may leave streams without a leader.
  sync_interval: {SYNC}
}}"""


def _tls(host: str, tls: str | None) -> str:
    if tls is None:
        return """
# NO TLS: whoever is on the way can read and change everything. Give --tls DIR, unless all of this
# network is yours."""
    return f"""
# Clients check that this is the server they mean; who they are, they show by their credentials.
tls {{
  cert_file: {quoted(f"{tls}/{host}.pem")}
  key_file: {quoted(f"{tls}/{host}.key")}
  ca_file: {quoted(f"{tls}/ca.pem")}
  timeout: 5
}}"""


def _auth(auth: str | None) -> str:
    if auth is None:
        return """
# NO AUTHORIZATION: whoever reaches the port may do everything. Give --auth DIR."""
    return f"""
# Who may do what: operator, accounts, and where changes of these are kept. Beside this file,
# because its path counts from here. Made by:
#   bullpen auth config --dir {auth} --resolver {STORE_DIR}/accounts > {AUTH_FILE}
include {quoted(AUTH_FILE)}"""


def _cluster(host: str, hosts: Sequence[str], tls: str | None) -> str:
    scheme = "nats" if tls is None else "tls"
    routes = "\n".join(f"    {quoted(f'{scheme}://{each}:6222')}" for each in hosts)
    secure = (
        "  # NO TLS: whoever reaches this port is a server. Let only these three reach it."
        if tls is None
        else _route_tls(host, tls)
    )
    return f"""
# The other servers. Two of the three must see each other for anything to be written.
cluster {{
  name: {CLUSTER_NAME}
  listen: "0.0.0.0:6222"
  routes: [
{routes}
  ]
{secure}
}}"""


def _route_tls(host: str, tls: str) -> str:
    return f"""  # Servers prove who they are, or whoever reaches this port could be one.
  tls {{
    cert_file: {quoted(f"{tls}/{host}.pem")}
    key_file: {quoted(f"{tls}/{host}.key")}
    ca_file: {quoted(f"{tls}/ca.pem")}
    verify: true
    timeout: 5
  }}"""
