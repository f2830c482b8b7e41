"""A command goes through the host of its machine if that serves exactly the store it asks for."""

from __future__ import annotations

import asyncio
import shutil
import socket
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import pytest
from anyio import to_thread

from bullpen.app.nearby_host import leave_note, through_host
from bullpen.app.settings import Settings, settings_from
from bullpen.protocol.names import LEAD
from bullpen.store.hosted.client import HostedStore
from bullpen.store.hosted.server import HostServer
from bullpen.store.hosted.socket import socket_in
from bullpen.store.hosted.tokens import OPERATOR, TokenIdentity
from bullpen.store.memory import MemoryStore
from bullpen.testing.sample_records import config

URL = "nats://127.0.0.1:5222"
TOKENS = {"secret": OPERATOR, "ann": TokenIdentity("alpha", "ann")}


@pytest.fixture
def settings() -> Iterator[Settings]:
    """The settings of a home whose path is short enough for a socket."""
    folder = Path(tempfile.mkdtemp(prefix="bp-"))
    key = folder / "key"
    key.write_text("ours", encoding="ascii")
    yield replace(settings_from({}, home=folder, store=URL), creds=str(key))
    shutil.rmtree(folder)


@pytest.fixture
async def host(settings: Settings) -> AsyncIterator[HostServer]:
    """A host that has a team and left its note and its token."""
    store = MemoryStore()
    await store.create("alpha", config(), actor=LEAD)
    async with HostServer(store, str(socket_in(settings.home)), TOKENS.get) as server:
        token(settings, "secret")
        leave_note(settings)
        yield server


def token(settings: Settings, text: str) -> None:
    (settings.home / "host" / "operator.token").write_text(text, encoding="ascii")


async def found(settings: Settings, url: str = URL) -> HostedStore | None:
    return await to_thread.run_sync(through_host, url, settings)


async def test_a_command_reads_the_teams_through_the_host(
    settings: Settings, host: HostServer
) -> None:
    store = await found(settings)
    assert store is not None
    async with aclosing(store):
        assert await store.teams() == ["alpha"]


async def test_another_address_key_or_authority_is_another_store(
    settings: Settings, host: HostServer
) -> None:
    other = settings.home / "other"
    other.write_text("theirs", encoding="ascii")
    assert await found(settings, "nats://127.0.0.1:5223") is None
    assert await found(replace(settings, creds=str(other))) is None
    assert await found(replace(settings, creds=None)) is None
    assert await found(replace(settings, ca=str(other))) is None
    assert await found(replace(settings, creds=str(settings.home / "none"))) is None
    (settings.home / "key").write_text("renewed", encoding="ascii")
    assert await found(settings) is None


async def test_a_host_that_knows_the_token_as_an_agents_or_not_at_all_is_passed_by(
    settings: Settings, host: HostServer
) -> None:
    for text in ("ann", "unknown", ""):
        token(settings, text)
        assert await found(settings) is None


async def test_a_folder_that_others_can_enter_is_not_trusted(
    settings: Settings, host: HostServer
) -> None:
    (settings.home / "host").chmod(0o755)
    assert await found(settings) is None


async def test_a_host_that_is_gone_is_passed_by(settings: Settings, host: HostServer) -> None:
    await host.aclose()
    assert await found(settings) is None


async def test_a_host_that_does_not_greet_is_passed_by(settings: Settings) -> None:
    place = socket_in(settings.home)
    place.parent.mkdir(mode=0o700)
    token(settings, "secret")
    leave_note(settings)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as silent:
        silent.bind(str(place))
        silent.listen()
        assert await found(settings) is None


async def test_the_operator_sees_what_is_stored_and_agents_what_the_host_knows(
    settings: Settings,
) -> None:
    known, stored = MemoryStore(), MemoryStore()
    await stored.create("alpha", config(), actor=LEAD)
    path = str(socket_in(settings.home))
    async with (
        HostServer(known, path, TOKENS.get, exact=stored),
        aclosing(HostedStore(path, "secret")) as operator,
        aclosing(HostedStore(path, "ann")) as agent,
    ):
        assert await operator.teams() == ["alpha"]
        async with asyncio.timeout(10):
            assert await agent.teams() == []
