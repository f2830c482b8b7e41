"""Finds free ports on this machine."""

from __future__ import annotations

import random
import socket

from bullpen.errors import Unavailable
from bullpen.fleet.servers.config import LOOPBACK, Ports

# Below the range that systems use for outgoing connections: a server that is restarted finds its
# port still free.
_FIRST = 15_000
_LAST = 32_000
_TRIES = 1_000


def free_ports(nodes: int) -> list[Ports]:
    """Return ports for that many servers. They are not reserved: another program may be faster."""
    found: list[int] = []
    for _ in range(_TRIES):
        port = random.randrange(_FIRST, _LAST)
        if port not in found and is_free(port):
            found.append(port)
        if len(found) == 3 * nodes:
            return [Ports(*found[start : start + 3]) for start in range(0, len(found), 3)]
    raise Unavailable(
        f"No free ports were found between {_FIRST} and {_LAST} on {LOOPBACK}.",
        remedy="Find out what listens there: ss -ltn",
    )


def is_free(port: int) -> bool:
    """Return whether nobody listens on a port of this machine."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # Closed connections that linger on a port do not block a server.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True
