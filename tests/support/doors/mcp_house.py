"""A home, `bullpen mcp` in processes of its own, and the SDK's own client in front of it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import anyio
import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from typer.testing import CliRunner, Result

from bullpen.agents.supervisor.doctor import launches
from bullpen.agents.system import processes
from bullpen.app.settings import Settings
from bullpen.app.stores import open_teams
from bullpen.doors.cli.main import app
from bullpen.doors.mcp.tokens import Tokens
from bullpen.protocol.names import LEAD
from bullpen.team.team import Team, Teams
from support.doors.json_shapes import fitting

START_S = 120
BULLPEN = [sys.executable, "-m", "bullpen"]

Mode = Literal["auto", "legacy"]


@dataclass
class House:
    """One home with the team `alpha`, of which `ann` and `bob` are members."""

    home: Path
    teams: Teams
    env: dict[str, str] = field(default_factory=dict)

    @property
    def team(self) -> Team:
        return self.teams.open("alpha")

    def words(self, *words: str) -> list[str]:
        return [*BULLPEN, *words]

    async def run(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        """Run a command in a process of its own, with nothing on its standard input."""
        with anyio.fail_after(START_S):
            return await anyio.run_process(
                self.words(*words), input=b"", env=self.env, cwd=self.home, check=False
            )

    def program(self, *words: str, mode: Mode = "auto", handler: Any = None) -> Client:
        """A program that starts `bullpen mcp` and speaks to it."""
        command, *args = self.words("mcp", *words)
        given = StdioServerParameters(command=command, args=args, env=self.env, cwd=self.home)
        return Client(given, mode=mode, message_handler=handler)

    async def type(self, *words: str) -> Result:
        """Type a command that ends at once. It runs in this process, which is quicker."""
        env: dict[str, str | None] = {name: None for name in os.environ if "BULLPEN" in name}
        runner = CliRunner(env={**env, **self.env})
        return await anyio.to_thread.run_sync(lambda: runner.invoke(app, list(words)))

    def token(self, name: str, team: str = "alpha") -> str:
        return Tokens(self.home).mint(team, name, now_ms=0)[0]

    @asynccontextmanager
    async def served(self, *words: str) -> AsyncIterator[str]:
        """A server over HTTP, by its address."""
        process = await anyio.open_process(
            self.words("mcp", "--http", "--json", *words),
            env=self.env,
            cwd=self.home,
            stderr=None,
            start_new_session=True,
        )
        assert process.stdout is not None
        try:
            with anyio.fail_after(START_S):
                said = b""
                while not said.rstrip().endswith(b"}"):
                    said += await process.stdout.receive()
            yield fitting(said.decode())["url"]
        finally:
            with anyio.CancelScope(shield=True):
                with suppress(ProcessLookupError):
                    process.terminate()
                with anyio.fail_after(30):
                    await process.wait()
                await process.aclose()

    @asynccontextmanager
    async def visitor(
        self, url: str, token: str, *, mode: Mode = "auto", handler: Any = None
    ) -> AsyncIterator[Client]:
        """A program that connects to a server over HTTP."""
        headers = {"Authorization": f"Bearer {token}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=START_S) as http,
            Client(
                streamable_http_client(url, http_client=http), mode=mode, message_handler=handler
            ) as client,
        ):
            yield client

    async def mail_of(self, name: str) -> list[tuple[str, str, str]]:
        """Sender, text and state of everything in a mailbox."""
        box = await self.team.mailbox.read(name, history=True)
        return [(each.message.sender, each.message.text, each.state) for each in box.entries]


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    home = tmp_path / "home"
    env = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "BULLPEN_HOME": str(home),
        "LANG": "C.UTF-8",
    }
    async with open_teams(Settings(home, None, LEAD)) as teams:
        await teams.create("alpha")
        for name in ("ann", "bob"):
            await teams.open("alpha").roster.join(name, by=LEAD)
        house = House(home, teams, env)
        yield house
        for name in await teams.names():
            for nonce in await launches(teams.open(name)):
                await processes.end(None, None, None, nonce, 0)
