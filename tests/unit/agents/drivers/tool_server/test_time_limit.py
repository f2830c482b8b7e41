"""Whoever connects to a private socket and says nothing is hung up on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from mcp.server.lowlevel import Server

from bullpen.agents.drivers.claude_code.hooks import HookSocket
from bullpen.agents.drivers.tool_server.relay import KEY
from bullpen.agents.drivers.tool_server.tool_socket import ToolSocket
from bullpen.agents.system.private_socket import PrivateSocket

LIMIT_S = 0.2
HELLO = (
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",'
    b'"capabilities":{},"clientInfo":{"name":"test","version":"1"}}}\n'
)


async def _answer(_: dict[str, Any]) -> dict[str, Any]:
    return {}


def _tools() -> PrivateSocket:
    return ToolSocket(Server("test"))


def _hooks() -> PrivateSocket:
    return HookSocket(_answer)


@pytest.mark.parametrize("first", [b"", b"bpt_"])
@pytest.mark.parametrize("make", [_tools, _hooks])
async def test_idle_visitors_are_hung_up_on(
    make: Callable[[], PrivateSocket], first: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PrivateSocket, "wait_s", LIMIT_S)
    door = make()
    await door.open()
    try:
        lines = [await asyncio.open_unix_connection(door.path) for _ in range(50)]
        for _, writer in lines:
            writer.write(first)
        with anyio.fail_after(5 * LIMIT_S):
            for reader, _ in lines:
                assert await reader.read() == b""
        for _, writer in lines:
            writer.close()
    finally:
        await door.aclose()


async def test_a_program_with_the_key_may_be_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PrivateSocket, "wait_s", LIMIT_S)
    door = ToolSocket(Server("test"))
    await door.open()
    try:
        reader, writer = await asyncio.open_unix_connection(door.path)
        writer.write(door.env[KEY].encode() + b"\n")
        await anyio.sleep(2 * LIMIT_S)
        writer.write(HELLO)
        with anyio.fail_after(5):
            assert b'"serverInfo"' in await reader.readline()
        writer.close()
    finally:
        await door.aclose()


def test_the_limit_is_ten_seconds() -> None:
    assert PrivateSocket.wait_s == 10
