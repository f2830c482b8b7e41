"""The place around a probed sandbox: a tree, a home with a key, servers, sockets, a process."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from bullpen import errors
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.policy import Policy, Sandbox

_NAMESPACES = ("user", "pid", "net", "ipc", "uts", "mnt")
_SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"


@dataclass(slots=True)
class Scratch:
    """What lies around the sandbox, and what probes are told about it."""

    root: Path
    mark: str
    listener: socket.socket
    allowed: socket.socket
    witness: int

    @property
    def tree(self) -> Path:
        """The directory in which the agent works."""
        return self.root / "tree"

    @property
    def env(self) -> dict[str, str]:
        """The environment of the agent, with every variable that leads to a socket."""
        return {
            "PATH": _SYSTEM_PATH,
            "HOME": str(self.root / "home"),
            "BULLPEN_HOME": str(self.root / "teams"),
            "TMPDIR": str(self.root / "sockets" / "TMPDIR"),
            "TMUX_TMPDIR": str(self.root / "sockets" / "TMUX_TMPDIR"),
            "XDG_RUNTIME_DIR": str(self.root / "sockets" / "XDG_RUNTIME_DIR"),
            "SSH_AUTH_SOCK": str(self.root / "sockets" / "SSH_AUTH_SOCK" / "s"),
            "DBUS_SESSION_BUS_ADDRESS": f"unix:path={self.root}/sockets/DBUS/s,guid=1",
        }

    def spec(self, driver: str, *, hosts: bool) -> AgentSpec:
        """An agent of one driver in the tree, in a sandbox."""
        named = [f"127.0.0.1:{self.allowed.getsockname()[1]}"] if hosts else []
        # Without more, sockets would lie where nothing is visible at all.
        read = [str(self.root / "sockets")]
        sandbox = Sandbox.new(network=hosts, hosts=named, read=read)
        return AgentSpec.new(
            driver=driver,
            backend="in-process",
            cwd=str(self.tree),
            policy=Policy.new(sandbox=sandbox.raw).raw,
        )

    def facts(self, door: str) -> dict[str, Any]:
        """What the probes try. `door` is the socket of the runner."""
        return {
            "tree": str(self.tree),
            "home": str(self.root / "home"),
            "key": str(self.root / "home" / ".ssh" / "id"),
            "team_file": str(self.root / "teams" / "config.json"),
            "temporary": str(self.root / "temporary"),
            "outside": str(self.root / "outside"),
            "package": os.path.realpath(errors.__file__),
            "port": self.listener.getsockname()[1],
            "allowed": self.allowed.getsockname()[1],
            "links": ["lo"],
            "sockets": {path.parent.name: str(path) for path in self.sockets},
            "abstract": f"bullpen-probe-{self.mark}",
            "door": door,
            "mark": self.mark,
            "witness": self.witness,
            "namespaces": {name: os.readlink(f"/proc/self/ns/{name}") for name in _NAMESPACES},
        }

    @property
    def sockets(self) -> list[Path]:
        """The sockets of programs outside."""
        named = ("TMPDIR", "TMUX_TMPDIR", "XDG_RUNTIME_DIR", "SSH_AUTH_SOCK", "DBUS", "elsewhere")
        around = [self.root / "sockets" / name / "s" for name in named]
        return [*around, self.tree / "in the tree" / "s"]


@contextmanager
def scratch() -> Iterator[Scratch]:
    """Make the place, owned by this user, and remove it."""
    mark = secrets.token_hex(8)
    with tempfile.TemporaryDirectory(prefix="bullpen-probe-", dir="/var/tmp") as folder:
        root = Path(folder)
        for name in ("home/.ssh", "teams", "outside", "tree/.git/hooks"):
            (root / name).mkdir(parents=True)
        for name in ("home/.ssh/id", "teams/config.json", "temporary", "tree/.git/config"):
            (root / name).write_text(f"secret {mark}\n")
        # Its command line has the mark.
        words = ["/bin/sh", "-c", f"read x # {mark}"]
        witness = subprocess.Popen(words, stdin=subprocess.PIPE)  # noqa: S603 - our own words
        try:
            with (
                socket.create_server(("127.0.0.1", 0)) as listener,
                socket.create_server(("127.0.0.1", 0)) as allowed,
            ):
                yield Scratch(root, mark, listener, allowed, witness.pid)
        finally:
            witness.kill()
            # Closes its input too.
            witness.communicate()


class Servers:
    """The servers and sockets of a scratch place, while the context is open."""

    def __init__(self, place: Scratch) -> None:
        self._place = place
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        for listener in (self._place.listener, self._place.allowed):
            listener.setblocking(False)
            await self._serve(await asyncio.start_server(_greet, sock=listener.dup()))
        for path in self._place.sockets:
            path.parent.mkdir(parents=True, exist_ok=True)
            await self._serve(await asyncio.start_unix_server(_greet, path))
        name = f"\0bullpen-probe-{self._place.mark}"
        await self._serve(await asyncio.start_unix_server(_greet, name))
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()

    async def _serve(self, server: asyncio.Server) -> None:
        self._stack.callback(server.close)


async def _greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"hello")
    writer.close()
