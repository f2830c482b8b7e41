"""Configurations for servers on separate machines, with a reason for each line. Pure."""

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
    """Return the configuration of the server on each host. Raises Invalid.

    `auth` is the directory of `bullpen auth`; `tls` is the directory with the certificates on the
    servers.
    """
    for host in hosts:
        if not _HOST.fullmatch(host):
            raise Invalid(f"{host!r} is not the name of a machine.", remedy="Use its DNS name.")
    if len(hosts) not in _SIZES or len(set(hosts)) != len(hosts):
        raise Invalid(
            f"A cluster cannot have these {len(hosts)} servers: {', '.join(hosts)}.",
            remedy="Name one server, or three different ones: one of three may fail, but two "
            "cannot outvote each other.",
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
# The other servers know it by this name. Keep it as long as you keep its data.
server_name: {quoted(host)}

# Where hosts and people connect.
listen: "0.0.0.0:4222"

# History and snapshots of large teams exceed the server's default limit of 1 MB.
max_payload: {MAX_PAYLOAD}

# For rolling restarts: after a SIGUSR2, clients are disconnected over this time.
lame_duck_grace_period: "5s"
lame_duck_duration: "30s\""""


def _monitoring() -> str:
    return """
# What `bullpen server status --monitor` asks. It has no passwords: keep it on loopback, or on a
# network that only administrators can reach.
http: "127.0.0.1:8222\""""


def _jetstream() -> str:
    return f"""
jetstream {{
  # A separate disk, with checksums if possible (ZFS, Btrfs): otherwise a flipped bit in one
  # copy is noticed late.
  store_dir: {quoted(STORE_DIR)}

  # Acknowledged means on disk. By default the server syncs up to two minutes later: a power cut
  # then loses acknowledged data, and may leave streams without a leader.
  sync_interval: {SYNC}
}}"""


def _tls(host: str, tls: str | None) -> str:
    if tls is None:
        return """
# NO TLS: anybody on the network path can read and change everything. Use --tls DIR, unless the
# whole network is yours."""
    return f"""
# Clients check the server's certificate, and identify themselves by their credentials.
tls {{
  cert_file: {quoted(f"{tls}/{host}.pem")}
  key_file: {quoted(f"{tls}/{host}.key")}
  ca_file: {quoted(f"{tls}/ca.pem")}
  timeout: 5
}}"""


def _auth(auth: str | None) -> str:
    if auth is None:
        return """
# NO AUTHORIZATION: anybody who reaches the port may do everything. Use --auth DIR."""
    return f"""
# Who may do what: the operator, the accounts, and where changes to them are kept. Its path is
# relative to this file. Create it with:
#   bullpen auth config --dir {auth} --resolver {STORE_DIR}/accounts > {AUTH_FILE}
include {quoted(AUTH_FILE)}"""


def _cluster(host: str, hosts: Sequence[str], tls: str | None) -> str:
    scheme = "nats" if tls is None else "tls"
    routes = "\n".join(f"    {quoted(f'{scheme}://{each}:6222')}" for each in hosts)
    secure = (
        "  # NO TLS: anybody who reaches this port is a server. Let only these three reach it."
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
    return f"""  # Servers prove who they are; otherwise anybody who reaches this port could be one.
  tls {{
    cert_file: {quoted(f"{tls}/{host}.pem")}
    key_file: {quoted(f"{tls}/{host}.key")}
    ca_file: {quoted(f"{tls}/ca.pem")}
    verify: true
    timeout: 5
  }}"""
