"""The house of the MCP tests with the servers in this process."""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from bullpen.app.app import open_app
from bullpen.app.settings import Settings, settings_from
from bullpen.app.stores import open_teams
from bullpen.doors.http_server import HttpServer, http_config
from bullpen.doors.mcp.http import PATH, mcp_app
from bullpen.doors.mcp.members import ConnectedMembers
from bullpen.doors.mcp.server import team_server
from bullpen.protocol.names import LEAD
from support.connections import running

from .mcp_house import House, Mode

IN_PROCESS_PORT = 8700
_WORDS = argparse.ArgumentParser()
_WORDS.add_argument("--team")
_WORDS.add_argument("--as", dest="member", default=LEAD)
_WORDS.add_argument("--tools", default="all")


class InProcessHouse(House):
    """A house whose servers are what `bullpen mcp` runs, without a process around it."""

    @asynccontextmanager
    async def program(  # type: ignore[override]
        self, *words: str, mode: Mode = "auto", handler: Any = None
    ) -> AsyncIterator[Client]:
        """A program that speaks to a server of its own."""
        given = _WORDS.parse_args(words)
        async with self._members(given.tools) as members:
            member = members.named(given.member, given.team)
            await member.check()
            server = team_server(lambda _: member, lambda: members.group)
            async with Client(server, mode=mode, message_handler=handler) as client:
                yield client

    @asynccontextmanager
    async def served(self, *words: str) -> AsyncIterator[str]:
        """A server over HTTP, by its address."""
        async with self._members(_WORDS.parse_args(words).tools) as members:
            config = http_config(mcp_app(members, "127.0.0.1", IN_PROCESS_PORT), lifespan="on")
            async with running(HttpServer(config), "127.0.0.1"):
                yield f"http://127.0.0.1:{IN_PROCESS_PORT}{PATH}"

    @asynccontextmanager
    async def _members(self, tools: Any) -> AsyncIterator[ConnectedMembers]:
        async with (
            open_app(settings_from(self.env, home=self.home)) as app,
            ConnectedMembers(app, cwd=str(self.home), tool_set=tools, warn=pytest.fail) as members,
        ):
            yield members


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[InProcessHouse]:
    home = tmp_path / "home"
    env = {"HOME": str(tmp_path), "BULLPEN_HOME": str(home)}
    async with open_teams(Settings(home, None, LEAD)) as teams:
        await teams.create("alpha")
        for name in ("ann", "bob"):
            await teams.open("alpha").roster.join(name, by=LEAD)
        yield InProcessHouse(home, teams, env)
