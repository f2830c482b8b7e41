"""The proxy outside a sandbox: it connects to the hosts on the list, and to nothing else.

It takes connections from listeners inside the sandbox. Names are resolved here, once, and the
connection goes to the address that was checked. What is sent is passed on unread, so TLS is
between the program and the host.
"""

from __future__ import annotations

import asyncio
import base64
import errno
import os
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from bullpen.sandbox.network.checked_addresses import (
    HostRefused,
    checked_addresses,
    refuse_unlisted,
)
from bullpen.sandbox.network.host_rules import HostList, host_name, is_public

_HEAD_BYTES_MAX = 64 * 1024
_HEAD_S = 20.0
_CONNECT_S = 30.0
_CHUNK = 65_536
_AT_ONCE = 256

Refusal = Callable[[str], None]
"""Is told which host was refused, and why."""


@dataclass(frozen=True, slots=True)
class UpstreamProxy:
    """The proxy through which this machine itself reaches the internet."""

    host: str
    port: int
    authorization: str = ""

    @classmethod
    def of(cls, env: Mapping[str, str]) -> UpstreamProxy | None:
        """The proxy in an environment, if there is one that speaks HTTP."""
        for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
            parts = urlsplit(env.get(name, ""))
            if parts.scheme == "http" and parts.hostname:
                user = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
                coded = base64.b64encode(user.encode()).decode() if parts.username else ""
                return cls(parts.hostname, parts.port or 80, coded)
        return None


class HostProxy:
    """Serves the listeners of one sandbox from `serve` to `aclose`."""

    def __init__(
        self,
        hosts: HostList,
        *,
        upstream: UpstreamProxy | None = None,
        refused: Refusal | None = None,
    ) -> None:
        self._hosts = hosts
        self._upstream = upstream
        self._refused = refused
        self._told: set[str] = set()
        self._servers: list[asyncio.Server] = []
        self._visits: set[asyncio.Task[None]] = set()
        self._places = asyncio.Semaphore(_AT_ONCE)

    async def serve(self, listener: socket.socket, place: tuple[str, int] | None) -> None:
        """Take connections: for one host and port, or for a client of a proxy, which names them."""

        async def visit(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._visits.add(task)
            task.add_done_callback(self._visits.discard)
            try:
                async with self._places:
                    if place is None:
                        await self._proxy(reader, writer)
                    else:
                        await self._pass_on(reader, writer, *place)
            except (OSError, EOFError, ValueError, asyncio.LimitOverrunError):
                # One of the two ends broke off, or did not speak HTTP.
                pass
            except asyncio.CancelledError:
                # The sandbox ended. Python 3.11 would report this as an error.
                pass
            finally:
                writer.close()

        listener.setblocking(False)
        self._servers.append(
            await asyncio.start_server(visit, sock=listener, limit=_HEAD_BYTES_MAX)
        )

    async def aclose(self) -> None:
        """Close the listeners and all connections."""
        for server in self._servers:
            server.close()
        for visit in list(self._visits):
            visit.cancel()
        await asyncio.gather(*self._visits, return_exceptions=True)

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, port: int
    ) -> None:
        try:
            far_reader, far_writer = await self._connect(host, port)
        except HostRefused as error:
            self._tell(str(error))
            return
        await _splice(reader, writer, far_reader, far_writer)

    async def _proxy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(_HEAD_S):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        request, *fields = head.rstrip("\r\n").split("\r\n")
        method, target, version = request.split(" ")
        tunnel = method == "CONNECT"
        parts = urlsplit(f"//{target}" if tunnel else target)
        host = host_name(parts.hostname or "")
        port = parts.port or (443 if tunnel else 80)
        try:
            if not tunnel and parts.scheme != "http":
                raise HostRefused(f"{target[:200]} is not a URL for a proxy.")
            far_reader, far_writer = await self._connect(host, port)
        except HostRefused as error:
            self._tell(str(error))
            await _answer(writer, "403 Forbidden", str(error))
            return
        except (OSError, TimeoutError) as error:
            await _answer(writer, "502 Bad Gateway", f"Cannot reach {host}:{port}: {error}")
            return
        if tunnel:
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            path = parts._replace(scheme="", netloc="").geturl() or "/"
            own = [line for line in fields if not _is_for_proxy(line)]
            lines = [f"{method} {path} {version}", f"Host: {parts.netloc.rpartition('@')[2]}", *own]
            # One request: the next one on this connection may be for another host.
            far_writer.write("\r\n".join([*lines, "Connection: close", "", ""]).encode("latin-1"))
        await _splice(reader, writer, far_reader, far_writer)

    def _tell(self, why: str) -> None:
        if self._refused is not None and why not in self._told:
            self._told.add(why)
            self._refused(why)

    async def _connect(
        self, host: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to a host on the list. Raises HostRefused or OSError."""
        exactly = self._hosts.names_exactly(host, port)
        async with asyncio.timeout(_CONNECT_S):
            if self._upstream is not None and not exactly:
                refuse_unlisted(self._hosts, host, port)
                return await self._connect_upstream(self._upstream, host, port)
            return await _first_of(await checked_addresses(self._hosts, host, port), port)

    async def _connect_upstream(
        self, upstream: UpstreamProxy, host: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect through the machine's own proxy, which resolves the name."""
        with suppress(ValueError):
            if not is_public(host):
                raise HostRefused(f"The sandbox does not allow {host}:{port}.")
        reader, writer = await asyncio.open_connection(upstream.host, upstream.port)
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        said = f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n"
        if upstream.authorization:
            said += f"Proxy-Authorization: Basic {upstream.authorization}\r\n"
        writer.write(f"{said}\r\n".encode("latin-1"))
        head = await reader.readuntil(b"\r\n\r\n")
        if head.split(b" ", 2)[1] != b"200":
            writer.close()
            raise ConnectionRefusedError(errno.ECONNREFUSED, "the machine's proxy refused")
        return reader, writer


async def _first_of(
    addresses: list[str], port: int
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection to the first address that answers. Raises OSError."""
    last: OSError = OSError(errno.EHOSTUNREACH, os.strerror(errno.EHOSTUNREACH))
    for address in addresses:
        try:
            return await asyncio.open_connection(address, port)
        except OSError as error:
            last = error
    raise last


def _is_for_proxy(line: str) -> bool:
    name = line.partition(":")[0].strip().lower()
    return name in ("host", "connection", "keep-alive") or name.startswith("proxy-")


async def _answer(writer: asyncio.StreamWriter, status: str, text: str) -> None:
    body = f"bullpen: {text}\n".encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\n"
    writer.write(f"{head}Connection: close\r\n\r\n".encode() + body)
    await writer.drain()


async def _splice(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    far_reader: asyncio.StreamReader,
    far_writer: asyncio.StreamWriter,
) -> None:
    """Pass bytes in both directions until both have ended."""
    try:
        await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))
    finally:
        far_writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_CHUNK):
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
