"""Configurations of NATS servers as text. Reads and writes nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bullpen.fleet.servers.server_key import ServerKey

LOOPBACK = "127.0.0.1"
CLUSTER_NAME = "bullpen"
MAX_PAYLOAD = "8MB"
SYNC = "always"

_ROUTE_USER = "route"


@dataclass(frozen=True, slots=True)
class Ports:
    """Where one server listens: for clients, for monitoring, for the other servers."""

    client: int
    monitor: int
    route: int


@dataclass(frozen=True, slots=True)
class ServerNode:
    """One server on this machine: its name, its ports and its directory."""

    name: str
    ports: Ports
    directory: Path

    @property
    def url(self) -> str:
        """Return where clients reach it."""
        return f"nats://{LOOPBACK}:{self.ports.client}"

    @property
    def monitor_url(self) -> str:
        """Return its monitoring address."""
        return f"http://{LOOPBACK}:{self.ports.monitor}"

    @property
    def config_path(self) -> Path:
        """Return its configuration file."""
        return self.directory / "nats-server.conf"

    @property
    def log_path(self) -> Path:
        """Return its log file."""
        return self.directory / "nats-server.log"

    @property
    def store_path(self) -> Path:
        """Return the directory with its streams."""
        return self.directory / "store"


def loopback_config(
    node: ServerNode,
    nodes: Sequence[ServerNode],
    *,
    key: ServerKey | None = None,
    sync: str = SYNC,
    extra: str = "",
) -> str:
    """Return the configuration of one of `nodes`, which only this machine can reach.

    With `key`, it refuses clients and servers without it. `extra` is added as it is.
    """
    blocks = [
        f"server_name: {quoted(node.name)}",
        # Without it, a server listens on every address of the machine.
        f"listen: {quoted(f'{LOOPBACK}:{node.ports.client}')}",
        f"http: {quoted(f'{LOOPBACK}:{node.ports.monitor}')}",
        f"max_payload: {MAX_PAYLOAD}",
        jetstream_block(node.store_path, sync=sync),
    ]
    if key is not None:
        blocks.append(f"authorization {{ users: [ {{ nkey: {key.public} }} ] }}")
    if len(nodes) > 1:
        password = None if key is None else key.route_password
        login = "" if password is None else f"{_ROUTE_USER}:{password}@"
        blocks.append(
            cluster_block(
                listen=f"{LOOPBACK}:{node.ports.route}",
                routes=[f"nats://{login}{LOOPBACK}:{each.ports.route}" for each in nodes],
                password=password,
            )
        )
    if extra:
        blocks.append(extra.strip())
    return "\n".join(blocks) + "\n"


def jetstream_block(store: Path, *, sync: str = SYNC) -> str:
    """Return where streams are stored, and when written data is on disk."""
    return "\n".join(
        (
            "jetstream {",
            f"  store_dir: {quoted(str(store))}",
            f"  sync_interval: {sync}",
            "}",
        )
    )


def cluster_block(*, listen: str, routes: Sequence[str], password: str | None = None) -> str:
    """Return how a server reaches the others of its cluster, and what it asks of them."""
    lines = [
        "cluster {",
        f"  name: {CLUSTER_NAME}",
        f"  listen: {quoted(listen)}",
        f"  routes: [{', '.join(map(quoted, routes))}]",
    ]
    if password is not None:
        # Otherwise whoever reaches this port is a server, which no key binds.
        login = f"user: {quoted(_ROUTE_USER)}, password: {quoted(password)}"
        lines.append(f"  authorization {{ {login} }}")
    return "\n".join((*lines, "}"))


def quoted(text: str) -> str:
    """Return a text quoted for the configuration language."""
    return json.dumps(text, ensure_ascii=False)
