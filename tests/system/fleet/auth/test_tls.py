"""Connections that nobody on the way can read, to servers that prove who they are."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bullpen.fleet.auth.resolver import push
from bullpen.fleet.auth.tls import files_of, issue
from bullpen.fleet.auth.vault import Vault
from support.fleet.auth_stage import DEADLINE_S, TENANT, KeyedCluster, Stage, connected

HOST = "localhost"


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    vault = Vault(tmp_path / "keys")
    vault.create()
    vault.add_tenant(TENANT)
    issue(vault.directory, HOST)
    more = tls_text(vault.directory, HOST)
    async with KeyedCluster(tmp_path / "servers", vault.directory, more=more) as cluster:
        assert isinstance(cluster, KeyedCluster)
        yield Stage(cluster.url.replace("nats://", "tls://"), vault, cluster)


def tls_text(directory: Path, host: str) -> str:
    """Return the configuration that makes a server reachable over TLS under that name only."""
    files = files_of(directory, host)
    return f'tls {{\n  cert_file: "{files.certificate}"\n  key_file: "{files.key}"\n}}\n'


def trusting(ca: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=ca)


async def trusts(stage: Stage, context: ssl.SSLContext) -> bool:
    """Whether a client that looks at certificates talks to the server.

    By hand: after a handshake that failed, the client library never ends closing.
    """
    port = stage.cluster.nodes[0].ports.client
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        async with asyncio.timeout(DEADLINE_S):
            assert b'"tls_required":true' in await reader.readline()
            await writer.start_tls(context, server_hostname="127.0.0.1")
            return True
    except ssl.SSLCertVerificationError:
        return False
    finally:
        writer.close()


async def test_a_key_is_taken_over_tls(stage: Stage) -> None:
    context = trusting(files_of(stage.vault.directory, HOST).ca)
    async with connected(stage.url, stage.creds("admin"), name="admin", tls=context) as admin:
        await admin.ask("$JS.API.INFO")


async def test_only_servers_that_the_authority_signed_are_talked_to(
    stage: Stage, tmp_path: Path
) -> None:
    other = issue(tmp_path / "others", HOST)

    assert await trusts(stage, trusting(files_of(stage.vault.directory, HOST).ca))
    assert not await trusts(stage, trusting(other.ca))
    assert not await trusts(stage, ssl.create_default_context())


async def test_a_server_with_the_certificate_of_another_host_is_not_talked_to(
    tmp_path: Path,
) -> None:
    vault = Vault(tmp_path / "keys")
    vault.create()
    vault.add_tenant(TENANT)
    files = issue(vault.directory, "elsewhere.example")
    more = tls_text(vault.directory, "elsewhere.example")
    async with KeyedCluster(tmp_path / "servers", vault.directory, more=more) as cluster:
        assert isinstance(cluster, KeyedCluster)
        stage = Stage(cluster.url.replace("nats://", "tls://"), vault, cluster)
        careless = trusting(files.ca)
        careless.check_hostname = False

        assert not await trusts(stage, trusting(files.ca))
        assert await trusts(stage, careless), "the name alone is why"


async def test_who_does_not_encrypt_is_not_listened_to(stage: Stage) -> None:
    port = stage.cluster.nodes[0].ports.client
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        async with asyncio.timeout(DEADLINE_S):
            assert (await reader.readline()).startswith(b"INFO ")
            writer.write(b'CONNECT {"verbose":false}\r\nPING\r\n')
            rest = await reader.read()
    except ConnectionResetError:
        rest = b""
    finally:
        writer.close()
    assert b"PONG" not in rest


async def test_servers_are_told_about_keys_over_tls(stage: Stage) -> None:
    ca = files_of(stage.vault.directory, HOST).ca

    done = await push(stage.vault, stage.url, ca=str(ca))

    assert len(done.servers) == 1
