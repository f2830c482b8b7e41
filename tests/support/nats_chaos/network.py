"""Three machines that are network namespaces, joined by a bridge: a server and a host in each."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bullpen.fleet.servers.config import cluster_block, jetstream_block
from bullpen.fleet.servers.server_binary import find_binary

from . import outpost as chaos_nats_outpost

MACHINES = 3
_PORT = 4222
_ROUTE = 6222


def why_not() -> str | None:
    """Why there can be no such network here, if so."""
    if sys.platform != "linux" or shutil.which("ip") is None:
        return "needs Linux and the command `ip`"
    name = f"bp{secrets.token_hex(3)}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False)
    if made.returncode != 0:
        return f"needs the right to make network namespaces: {made.stderr.decode().strip()}"
    subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
    return None


class Network:
    """The machines, numbered from 0. Any of them can be cut off from the others."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._tag = f"bp{secrets.token_hex(3)}"
        self._processes: list[asyncio.subprocess.Process] = []
        self._outposts: dict[int, asyncio.subprocess.Process] = {}

    def _ip(self, *words: str) -> None:
        subprocess.run(["ip", *words], check=True, capture_output=True)

    def _space(self, number: int) -> str:
        return f"{self._tag}-{number}"

    @property
    def _hub(self) -> str:
        return f"{self._tag}-hub"

    @staticmethod
    def address(number: int) -> str:
        return f"10.213.7.{number + 1}"

    def build(self) -> None:
        self._ip("netns", "add", self._hub)
        self._ip("-n", self._hub, "link", "add", "hub", "type", "bridge")
        self._ip("-n", self._hub, "link", "set", "hub", "up")
        for number in range(MACHINES):
            space = self._space(number)
            self._ip("netns", "add", space)
            self._ip("-n", space, "link", "set", "lo", "up")
            end = ["peer", "name", f"port{number}", "netns", self._hub]
            self._ip("-n", space, "link", "add", "net", "type", "veth", *end)
            self._ip("-n", space, "addr", "add", f"{self.address(number)}/24", "dev", "net")
            self._ip("-n", space, "link", "set", "net", "up")
            self._ip("-n", self._hub, "link", "set", f"port{number}", "master", "hub")
            self._ip("-n", self._hub, "link", "set", f"port{number}", "up")

    def cut(self, number: int) -> None:
        """Part a machine from the others: nothing goes in or out, and nobody is told."""
        self._ip("-n", self._hub, "link", "set", f"port{number}", "nomaster")

    def heal(self, number: int) -> None:
        self._ip("-n", self._hub, "link", "set", f"port{number}", "master", "hub")

    async def start_servers(self) -> None:
        routes = [f"nats://{self.address(number)}:{_ROUTE}" for number in range(MACHINES)]
        for number in range(MACHINES):
            folder = self._folder / str(number)
            folder.mkdir()
            config = folder / "nats-server.conf"
            blocks = [
                f"server_name: m{number}",
                f'listen: "{self.address(number)}:{_PORT}"',
                "max_payload: 8MB",
                jetstream_block(folder / "store"),
                cluster_block(listen=f"{self.address(number)}:{_ROUTE}", routes=routes),
            ]
            config.write_text("\n".join(blocks) + "\n", encoding="utf-8")
            binary = os.fspath(find_binary(os.environ))
            with (folder / "log").open("wb") as log:
                await self._launch(number, [binary, "-c", os.fspath(config)], stderr=log)

    async def _launch(
        self, number: int, words: list[str], **options: Any
    ) -> asyncio.subprocess.Process:
        within = ["ip", "netns", "exec", self._space(number)]
        process = await asyncio.create_subprocess_exec(*within, *words, **options)
        self._processes.append(process)
        return process

    async def start_outposts(self) -> None:
        for number in range(MACHINES):
            program = [sys.executable, chaos_nats_outpost.__file__]
            self._outposts[number] = await self._launch(
                number,
                [*program, f"nats://{self.address(number)}:{_PORT}"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                limit=1 << 24,
            )

    async def ask(self, number: int, name: str, what: str = "") -> dict[str, Any]:
        """Have the host of a machine do something, and say what came of it."""
        outpost = self._outposts[number]
        assert outpost.stdin is not None and outpost.stdout is not None
        outpost.stdin.write(json.dumps([name, what]).encode() + b"\n")
        async with asyncio.timeout(90):
            answer: dict[str, Any] = json.loads(await outpost.stdout.readline())
        return answer

    async def remove(self) -> None:
        for process in self._processes:
            if process.returncode is None:
                process.kill()
            await process.wait()
        self._tear_down()

    def _tear_down(self) -> None:
        for space in (*map(self._space, range(MACHINES)), self._hub):
            subprocess.run(["ip", "netns", "del", space], check=False, capture_output=True)


@asynccontextmanager
async def network(folder: Path) -> AsyncIterator[Network]:
    net = Network(folder)
    try:
        net.build()
        await net.start_servers()
        await net.start_outposts()
        yield net
    finally:
        await net.remove()
