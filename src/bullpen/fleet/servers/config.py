"""Configurations of NATS servers as text. Nothing here reads or writes anything."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

LOOPBACK = "127.0.0.1"
CLUSTER_NAME = "bullpen"
MAX_PAYLOAD = "8MB"
SYNC = "always"


@dataclass(frozen=True, slots=True)
class Ports:
    """Where one server listens: for clients, for questions about itself, for the other servers."""

    client: int
    monitor: int
    route: int


@dataclass(frozen=True, slots=True)
class Node:
    """One server on this machine: its name, its ports, and the directory that it keeps."""

    name: str
    ports: Ports
    directory: Path

    @property
    def url(self) -> str:
        """Where clients reach it."""
        return f"nats://{LOOPBACK}:{self.ports.client}"

    @property
    def monitor_url(self) -> str:
        """Where it answers questions about itself."""
        return f"http://{LOOPBACK}:{self.ports.monitor}"

    @property
    def config_path(self) -> Path:
        """The file with its configuration."""
        return self.directory / "nats-server.conf"

    @property
    def log_path(self) -> Path:
        """The file with what it says."""
        return self.directory / "nats-server.log"

    @property
    def store_path(self) -> Path:
        """The directory with its streams."""
        return self.directory / "store"


def loopback_config(node: Node, nodes: Sequence[Node], *, sync: str = SYNC, extra: str = "") -> str:
    """The configuration of a server that only this machine reaches, one of `nodes`.

    `extra` is added as it is.
    """
    blocks = [
        f"server_name: {quoted(node.name)}",
        # Without it a server listens on every address of the machine.
        f"listen: {quoted(f'{LOOPBACK}:{node.ports.client}')}",
        f"http: {quoted(f'{LOOPBACK}:{node.ports.monitor}')}",
        f"max_payload: {MAX_PAYLOAD}",
        jetstream_block(node.store_path, sync=sync),
    ]
    if len(nodes) > 1:
        blocks.append(
            cluster_block(
                listen=f"{LOOPBACK}:{node.ports.route}",
                routes=[f"nats://{LOOPBACK}:{each.ports.route}" for each in nodes],
            )
        )
    if extra:
        blocks.append(extra.strip())
    return "\n".join(blocks) + "\n"


def jetstream_block(store: Path | str, *, sync: str = SYNC) -> str:
    """Where streams are kept, and when what was written is on the disk."""
    return "\n".join(
        (
            "jetstream {",
            f"  store_dir: {quoted(str(store))}",
            f"  sync_interval: {sync}",
            "}",
        )
    )


def cluster_block(*, listen: str, routes: Sequence[str], extra: Sequence[str] = ()) -> str:
    """How a server reaches the others of its cluster."""
    return "\n".join(
        (
            "cluster {",
            f"  name: {CLUSTER_NAME}",
            f"  listen: {quoted(listen)}",
            f"  routes: [{', '.join(map(quoted, routes))}]",
            *(f"  {line}" for line in extra),
            "}",
        )
    )


def quoted(text: str) -> str:
    """A text as the configuration language writes it."""
    return json.dumps(text, ensure_ascii=False)
