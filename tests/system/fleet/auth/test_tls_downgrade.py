"""A server in the middle that says it has no TLS learns nothing, and gets no session."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from bullpen.errors import Unavailable
from bullpen.fleet.auth.tls import files_of, issue
from bullpen.fleet.auth.vault import Vault
from bullpen.store.nats.client.connection import Endpoint, NatsConnection
from support.fleet.auth_stage import TENANT, KeyedCluster

INFO = {
    "server_id": "A",
    "version": "2.15.1",
    "max_payload": 1_048_576,
    "proto": 1,
    "headers": True,
    "jetstream": True,
    "nonce": "abcdefghijklmno",
}

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def listening(serve: Serve) -> AsyncIterator[int]:
    """A server in the way, on a port of its own."""

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            await serve(reader, writer)
        writer.close()

    server = await asyncio.start_server(take, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    made = Vault(tmp_path / "keys")
    made.create()
    made.add_tenant(TENANT)
    issue(made.directory, "localhost")
    return made


def key_of(vault: Vault) -> str:
    return str(vault.directory / "tenants" / TENANT / "creds" / "admin.creds")


async def refused(port: int, vault: Vault, scheme: str, *, ca: bool) -> None:
    certificate = str(files_of(vault.directory, "localhost").ca) if ca else None
    url = f"{scheme}://localhost:{port}"
    link = NatsConnection(Endpoint.parse(url, creds=key_of(vault), ca=certificate), connect_s=3)
    try:
        with pytest.raises(Unavailable):
            await link.client()
    finally:
        await link.aclose()


@pytest.mark.parametrize(
    ("scheme", "ca"),
    [("tls", True), ("tls", False), ("nats", True)],
    ids=["tls with a CA", "tls without a CA", "nats with a CA"],
)
@pytest.mark.parametrize(
    "said",
    [{}, {"tls_available": True}, {"tls_required": False}, {"connect_urls": ["127.0.0.1:1"]}],
    ids=str,
)
async def test_a_server_without_tls_receives_not_one_byte(
    vault: Vault, said: dict[str, Any], scheme: str, *, ca: bool
) -> None:
    received = bytearray()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"INFO " + json.dumps({**INFO, **said}).encode() + b"\r\n")
        with suppress(TimeoutError):
            async with asyncio.timeout(2):
                while data := await reader.read(4096):
                    received.extend(data)

    async with listening(serve) as port:
        await refused(port, vault, scheme, ca=ca)

    assert bytes(received) == b""


async def test_a_relay_to_the_real_server_gets_no_session(vault: Vault, tmp_path: Path) -> None:
    files = files_of(vault.directory, "localhost")
    more = f'tls {{\n  cert_file: "{files.certificate}"\n  key_file: "{files.key}"\n}}\n'
    relayed: list[bytes] = []
    async with KeyedCluster(tmp_path / "servers", vault.directory, more=more) as cluster:
        real = cluster.nodes[0].ports.client

        async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            there, back = await asyncio.open_connection("127.0.0.1", real)
            told = json.loads((await there.readline()).removeprefix(b"INFO "))
            careless = ssl.create_default_context()
            careless.check_hostname, careless.verify_mode = False, ssl.CERT_NONE
            await back.start_tls(careless)
            for name in ("tls_required", "tls_available", "tls_verify"):
                told.pop(name, None)
            writer.write(b"INFO " + json.dumps(told).encode() + b"\r\n")
            try:
                async with asyncio.timeout(2):
                    line = await reader.readline()
                    if line:
                        back.write(line + b"PING\r\n")
                        relayed.append(await there.readline())
            except TimeoutError:
                pass
            finally:
                back.close()

        async with listening(relay) as port:
            await refused(port, vault, "tls", ca=True)

    assert relayed == []
