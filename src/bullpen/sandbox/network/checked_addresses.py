"""Resolve a name once, and refuse what is not on the list or not on the internet.

Connect to an address that is returned here, never to the name: it could mean another address by
then.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress

from bullpen.sandbox.network.host_rules import HostList, is_public

LookUp = Callable[[str, int], Awaitable[list[str]]]
"""Finds the addresses of a host."""


class HostRefused(Exception):
    """The list does not allow this host."""


class PrivateHost(HostRefused):
    """The host has an address of this machine or of a private network."""


async def look_up(host: str, port: int) -> list[str]:
    """The addresses of a host, as this machine resolves it. Raises OSError."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(each[4][0]) for each in found))


async def checked_addresses(
    hosts: HostList, host: str, port: int, find: LookUp = look_up
) -> list[str]:
    """The addresses of a host that may be reached. Raises HostRefused or OSError.

    If one of them is private, none may be reached, unless a rule names exactly this host and port.
    """
    refuse_unlisted(hosts, host, port)
    addresses = await find(host, port)
    if not hosts.names_exactly(host, port):
        for address in addresses:
            if not is_public(address) or _is_of_this_machine(address):
                raise PrivateHost(
                    f"The sandbox does not allow {host}:{port}: {address} is an address of"
                    " this machine or of a private network. Name the host with its port"
                    " to allow it."
                )
    return addresses


def refuse_unlisted(hosts: HostList, host: str, port: int) -> None:
    """Refuse a host that is not on the list. Raises HostRefused."""
    if not hosts.allows(host, port):
        raise HostRefused(f"The sandbox does not allow {host}:{port}.")


def _is_of_this_machine(address: str) -> bool:
    """Whether a public address is one of this machine's own."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.bind((address, 0))
        return True
    return False
