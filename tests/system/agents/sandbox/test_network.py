"""The network of a sandbox: the hosts on its list, by name, and nothing else."""

from __future__ import annotations

import asyncio
import hashlib
import shlex
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from bullpen.protocol.policy import Sandbox
from bullpen.sandbox.network.host_rules import HostList
from bullpen.sandbox.network.proxy import HostProxy, UpstreamProxy

if TYPE_CHECKING:
    from .conftest import MakeClosed

_BODY = bytes(range(256)) * 16_384
_FETCH = """
import hashlib, sys, urllib.request
try:
    with urllib.request.urlopen(sys.argv[1], timeout=20) as answer:
        print(answer.status, hashlib.sha256(answer.read()).hexdigest())
except urllib.error.HTTPError as error:
    print(error.code, error.read().decode())
"""
_DIRECT = """
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2])), 10) as line:
    line.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
    print(line.recv(15).decode())
"""


@pytest.fixture
async def server() -> AsyncIterator[tuple[int, list[bytes]]]:
    """A web server on the loopback address: its port, and what it was asked."""
    asked: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(_BODY)}\r\nConnection: close\r\n\r\n"
        writer.write(head.encode() + _BODY)
        await writer.drain()
        writer.close()

    listening = await asyncio.start_server(answer, "127.0.0.1", 0)
    yield listening.sockets[0].getsockname()[1], asked
    listening.close()


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, list[str]]]:
    """Names and their addresses: each time the next one, as an attacker's server would answer."""
    known: dict[str, list[str]] = {}
    resolve = socket.getaddrinfo

    def lookup(host: Any, port: Any, *args: Any, **more: Any) -> Any:
        if host in known:
            address = known[host].pop(0) if len(known[host]) > 1 else known[host][0]
            return resolve(address, port, *args, **more)
        return resolve(host, port, *args, **more)

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    yield known


def _python(source: str, *words: object) -> str:
    return shlex.join([sys.executable, "-c", source, *map(str, words)])


async def test_a_named_host_is_reached_by_the_proxy_and_directly(
    make_closed: MakeClosed, server: tuple[int, list[bytes]], names: dict[str, list[str]]
) -> None:
    port, asked = server
    names["model.example"] = ["127.0.0.1"]
    closed = make_closed(sandbox=Sandbox.new(hosts=[f"model.example:{port}"]))
    text = await closed.ok(_python(_FETCH, f"http://model.example:{port}/a?b=c"))
    assert text == f"200 {hashlib.sha256(_BODY).hexdigest()}"
    assert asked[0].startswith(b"GET /a?b=c HTTP/1.1\r\nHost: model.example:")
    assert b"proxy" not in asked[0].lower()
    # A program that knows no proxy: the name leads to a listener of the sandbox.
    assert await closed.ok(_python(_DIRECT, "model.example", port)) == "HTTP/1.1 200 OK"


async def test_a_name_that_leads_to_this_machine_is_refused(
    make_closed: MakeClosed, server: tuple[int, list[bytes]], names: dict[str, list[str]]
) -> None:
    """Also if it is on the list without its port, in a pattern, or everything public is allowed."""
    port, asked = server
    names["rebind.example"] = ["127.0.0.1"]
    for allowed in ({"network": True}, {"hosts": [f"*.example:{port}"]}):
        closed = make_closed(sandbox=Sandbox.new(**allowed))
        text = await closed.ok(_python(_FETCH, f"http://rebind.example:{port}/"))
        assert text.startswith("403 bullpen: The sandbox does not allow rebind.example")
        assert "address of this machine" in text
    closed = make_closed(sandbox=Sandbox.new(hosts=["other.example"]))
    text = await closed.ok(_python(_FETCH, f"http://rebind.example:{port}/"))
    assert text.startswith(f"403 bullpen: The sandbox does not allow rebind.example:{port}")
    assert asked == []


async def test_ports_of_the_web_are_listened_on_and_nothing_else_answers(
    make_closed: MakeClosed,
) -> None:
    closed = make_closed(sandbox=Sandbox.new(hosts=["a.example"]))
    text = await closed.ok("cat /etc/hosts; cat /proc/net/tcp | wc -l")
    assert "127.77.0.2 a.example" in text
    # The proxy, 443 and 80, below one line of titles.
    assert text.splitlines()[-1].strip() == "4"


@asynccontextmanager
async def _proxy(hosts: HostList, **more: Any) -> AsyncIterator[int]:
    proxy = HostProxy(hosts, **more)
    listener = socket.create_server(("127.0.0.1", 0))
    await proxy.serve(listener, None)
    try:
        yield listener.getsockname()[1]
    finally:
        await proxy.aclose()


async def _asked(port: int, request: str) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request.encode())
        async with asyncio.timeout(10):
            return await reader.readuntil(b"\r\n")
    except asyncio.IncompleteReadError as error:
        return error.partial
    finally:
        writer.close()


async def test_a_name_is_looked_up_once_and_the_address_that_was_checked_is_used(
    server: tuple[int, list[bytes]], names: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    port, asked = server
    # Public when it is checked, this machine when it is connected to.
    names["twice.example"] = ["192.88.99.1", "127.0.0.1"]
    tried: list[str] = []

    async def connect(host: str, port: int) -> Any:
        tried.append(host)
        raise ConnectionRefusedError(111, "refused")

    async with _proxy(HostList(any_public=True)) as at:
        real, asyncio.open_connection = asyncio.open_connection, connect  # type: ignore[assignment]
        try:
            reader, writer = await real("127.0.0.1", at)
            writer.write(f"CONNECT twice.example:{port} HTTP/1.1\r\n\r\n".encode())
            assert b" 502 " in await reader.readuntil(b"\r\n")
            writer.close()
        finally:
            asyncio.open_connection = real
    assert tried == ["192.88.99.1"]
    assert asked == []


@pytest.mark.parametrize(
    "request_line",
    [
        "CONNECT 127.0.0.1:1",
        "CONNECT localhost:22",
        "CONNECT [::1]:22",
        "CONNECT 169.254.169.254:80",
        "GET https://127.0.0.1/",
        "GET http://10.0.0.1/",
        "GET ftp://127.0.0.1/",
        "GET /",
    ],
)
async def test_what_is_not_public_is_refused_by_the_proxy(request_line: str) -> None:
    told: list[str] = []
    async with _proxy(HostList(any_public=True), refused=told.append) as port:
        answer = await _asked(port, f"{request_line} HTTP/1.1\r\nHost: a.org\r\n\r\n")
    assert answer == b"HTTP/1.1 403 Forbidden\r\n"
    assert len(told) == 1


@pytest.mark.parametrize("noise", ["", "\r\n\r\n", "x\r\n\r\n", "CONNECT a:b HTTP/1.1\r\n\r\n"])
async def test_noise_closes_the_connection_and_the_proxy_goes_on(noise: str) -> None:
    async with _proxy(HostList(any_public=True)) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(noise.encode())
        writer.write_eof()
        assert await reader.read() == b""
        writer.close()
        assert b" 403 " in await _asked(port, "CONNECT localhost:1 HTTP/1.1\r\n\r\n")


async def test_the_proxy_of_the_machine_is_used_but_not_for_private_addresses() -> None:
    heard: list[bytes] = []

    async def upstream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 Fine\r\n\r\n")
        writer.close()

    listening = await asyncio.start_server(upstream, "127.0.0.1", 0)
    place = listening.sockets[0].getsockname()[1]
    found = UpstreamProxy.of({"HTTPS_PROXY": f"http://me:pass%20word@127.0.0.1:{place}"})
    assert found is not None
    async with _proxy(HostList(any_public=True), upstream=found) as port:
        assert b" 200 " in await _asked(port, "CONNECT a.example:443 HTTP/1.1\r\n\r\n")
        assert b" 403 " in await _asked(port, "CONNECT 10.0.0.1:443 HTTP/1.1\r\n\r\n")
    assert len(heard) == 1
    assert heard[0].startswith(b"CONNECT a.example:443 HTTP/1.1\r\n")
    assert b"Proxy-Authorization: Basic bWU6cGFzcyB3b3Jk\r\n" in heard[0]
    listening.close()


async def test_a_path_entry_in_the_tree_is_read_only(make_closed: MakeClosed) -> None:
    """A program on the PATH in the working directory is run by others outside too."""
    closed = make_closed()
    bin_folder = closed.project / "bin"
    bin_folder.mkdir()
    (bin_folder / "tool").write_text("#!/bin/sh\n")
    closed = make_closed(env={"PATH": f"{bin_folder}:/usr/bin:/bin"})
    assert "Read-only" in await closed.fails(f"echo evil > {bin_folder}/git")
    # A link there shows nothing of what it leads to.
    (bin_folder / "tool").unlink()
    bin_folder.rmdir()
    bin_folder.symlink_to(closed.secret.parent)
    assert "No such file" in await closed.fails(f"cat {bin_folder}/id")
