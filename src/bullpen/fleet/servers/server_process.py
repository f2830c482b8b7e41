"""Servers on this machine as processes: one, or a cluster of three, for tests and development.

A `Cluster` used as a context manager ends with its process, however that ends: all its servers are
in the process group of a watcher, which kills the group when a pipe closes that only this process
holds.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import anyio

from bullpen.errors import Invalid, StartFailed, Unavailable
from bullpen.fleet.servers.config import SYNC, Ports, ServerNode, loopback_config
from bullpen.fleet.servers.monitor import ask, streams_of
from bullpen.fleet.servers.ports import free_ports
from bullpen.fleet.servers.server_binary import find_binary
from bullpen.store.files.disk import Disk, nonce

READY_S = 60.0
"""How long servers may take to become ready on a busy machine."""

_STOP_S = 30.0
_POLL_S = 0.03
_TRIES = 5
_SCREEN_BYTES = 4_000
_PORT_TAKEN = "address already in use"
_KEPT = ("GOMAXPROCS", "GOMEMLIMIT", "HOME", "LANG", "PATH", "TMPDIR", "TZ")
# The system sends SIGHUP to a group with a stopped process when it loses its last parent.
_WATCHER = ("/bin/sh", "-c", "trap '' HUP INT TERM; read -r _; kill -KILL 0")
_READY = b"Server is ready"
_READY_FOR_OTHERS = b"Listening for route connections"


class Cluster:
    """One server, or a cluster of three, all on loopback; data stays in `directory`.

    Without `ports`, free ones are used. `extra` is added to every configuration. Without `binary`,
    the server is the one that `find_binary` finds.
    """

    def __init__(
        self,
        directory: Path,
        nodes: int = 1,
        *,
        sync: str = SYNC,
        ports: Sequence[Ports] | None = None,
        extra: str = "",
        binary: Path | None = None,
    ) -> None:
        if nodes not in (1, 3):
            raise Invalid(f"A cluster cannot have {nodes} servers.", remedy="Use 1 or 3.")
        if ports is not None and len(ports) != nodes:
            raise Invalid(
                f"{nodes} servers need {nodes} sets of ports, not {len(ports)}.",
                remedy="Give each server its ports.",
            )
        self.directory = directory
        self.sync = sync
        self.extra = extra
        self._binaries = {} if binary is None else dict.fromkeys(range(nodes), binary)
        self._chooses_ports = ports is None
        self.nodes = nodes_of(directory, ports or free_ports(nodes))
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._paused: set[int] = set()
        self._log_sizes: dict[int, int] = {}
        self._watcher: subprocess.Popen[bytes] | None = None

    async def __aenter__(self) -> Cluster:
        try:
            await self.start()
            await self.wait_ready()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    @property
    def urls(self) -> list[str]:
        """Return where clients reach the servers, one address each."""
        return [node.url for node in self.nodes]

    @property
    def url(self) -> str:
        """Return the same as one text, in the form of a store setting."""
        addresses = ",".join(url.removeprefix("nats://") for url in self.urls)
        return f"nats://{addresses}"

    def pid(self, index: int) -> int:
        """Return the process id of a started server."""
        return self._process(index).pid

    def runs(self, index: int) -> bool:
        """Return whether the process of a server runs, paused or not."""
        process = self._processes.get(index)
        return process is not None and process.poll() is None

    async def start(self) -> None:
        """Start all servers and wait until each listens. Raises StartFailed."""
        for _ in range(_TRIES):
            for index in range(len(self.nodes)):
                self._launch(index)
            try:
                for index in range(len(self.nodes)):
                    await self._wait_listening(index)
            except StartFailed as error:
                if not (self._chooses_ports and _PORT_TAKEN in error.screen):
                    raise
                # Another program took a port between the check and the server's start.
                await self._end_all()
                self.nodes = nodes_of(self.directory, free_ports(len(self.nodes)))
            else:
                return
        raise Unavailable(
            f"Other programs took the servers' ports {_TRIES} times.", remedy="Try again."
        )

    async def stop(self) -> None:
        """Stop all servers; kill those that do not end."""
        with anyio.CancelScope(shield=True):
            await self._end_all()
            if self._watcher is not None:
                self._watcher.kill()
                self._watcher.wait()
                if self._watcher.stdin is not None:
                    self._watcher.stdin.close()
                self._watcher = None

    async def restart(self, index: int, *, binary: Path | None = None) -> None:
        """Start a server again with its ports and data; stop it first if it runs.

        With `binary`, this server is another program from now on.
        """
        await self.end(index)
        self._launch(index, binary=binary)
        await self._wait_listening(index)

    async def end(self, index: int, number: signal.Signals = signal.SIGTERM) -> None:
        """Stop a server by SIGTERM or, as a lame duck, by SIGUSR2. Wait until it has ended."""
        process = self._processes.pop(index, None)
        if process is None:
            return
        self._paused.discard(index)
        if process.poll() is None:
            process.send_signal(number)
            process.send_signal(signal.SIGCONT)
        await _gone(process)

    def kill(self, index: int) -> None:
        """End a server at once, like a crash (SIGKILL)."""
        process = self._process(index)
        process.kill()
        process.wait()
        self._paused.discard(index)
        del self._processes[index]

    def pause(self, index: int) -> None:
        """Pause a server until `go_on` (SIGSTOP)."""
        self._process(index).send_signal(signal.SIGSTOP)
        self._paused.add(index)

    def go_on(self, index: int) -> None:
        """Continue a paused server (SIGCONT)."""
        self._process(index).send_signal(signal.SIGCONT)
        self._paused.discard(index)

    async def wait_ready(self, deadline_s: float = READY_S) -> None:
        """Wait until every running server is healthy and, of three, until they have a leader."""
        await wait_ready(
            self.nodes, lambda: [self.nodes[index] for index in self._awake()], deadline_s
        )

    async def leader_of(self, stream: str) -> int | None:
        """Return which server leads a stream, according to most running ones; None if none does."""
        votes: dict[str, int] = {}
        for index in self._awake():
            with suppress(Unavailable):
                jsz = await self.monitor(index, "/jsz?accounts=1&streams=1")
                for (_, name), detail in streams_of(jsz).items():
                    leader = (detail.get("cluster") or {}).get("leader")
                    if name == stream and leader:
                        votes[leader] = votes.get(leader, 0) + 1
        names = [node.name for node in self.nodes]
        winner = max(votes, key=lambda name: votes[name], default=None)
        return names.index(winner) if winner in names else None

    async def monitor(self, index: int, path: str, *, timeout_s: float = 5.0) -> dict[str, Any]:
        """Return a server's answer at its monitoring port. Raises Unavailable."""
        return await ask(self.nodes[index].monitor_url, path, timeout_s=timeout_s)

    def _process(self, index: int) -> subprocess.Popen[bytes]:
        process = self._processes.get(index)
        if process is None:
            raise Invalid(f"Server {index} is not running.", remedy="Start it first.")
        return process

    def _awake(self) -> list[int]:
        return [
            index
            for index in range(len(self.nodes))
            if self.runs(index) and index not in self._paused
        ]

    def _launch(self, index: int, *, binary: Path | None = None) -> None:
        node = self.nodes[index]
        program = binary or self._binaries.get(index) or find_binary(os.environ)
        self._binaries[index] = program
        write_config(node, loopback_config(node, self.nodes, sync=self.sync, extra=self.extra))
        if self._watcher is None:
            self._watcher = subprocess.Popen(  # noqa: S603
                _WATCHER,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                process_group=0,
            )
        self._processes[index], self._log_sizes[index] = launch(
            program, node, process_group=self._watcher.pid
        )

    async def _wait_listening(self, index: int) -> None:
        node = self.nodes[index]

        async def listens() -> bool:
            if not self.runs(index):
                raise start_failed(node, "ended right after its start")
            return says_ready(node, self._log_sizes[index], of=len(self.nodes))

        if not await until(listens, READY_S):
            raise start_failed(node, f"does not listen after {READY_S:g} s")

    async def _end_all(self) -> None:
        for process in self._processes.values():
            if process.poll() is None:
                process.terminate()
                process.send_signal(signal.SIGCONT)
        for process in self._processes.values():
            await _gone(process)
        self._processes.clear()
        self._paused.clear()


async def wait_ready(
    nodes: Sequence[ServerNode],
    running: Callable[[], Sequence[ServerNode]],
    deadline_s: float = READY_S,
) -> None:
    """Wait until the running ones of these servers are ready. Raises Unavailable."""
    missing = ""

    async def ready() -> bool:
        nonlocal missing
        missing = await _why_not_ready(running(), of=len(nodes))
        return not missing

    if not await until(ready, deadline_s):
        directory, log = nodes[0].directory.parent, nodes[0].log_path
        raise Unavailable(
            f"The servers in {directory} are not ready after {deadline_s:g} s: {missing}.",
            remedy=f"Read their logs: {log}",
        )


async def _why_not_ready(nodes: Sequence[ServerNode], *, of: int) -> str:
    """Return what keeps these servers, of a cluster of that many, from being ready; or empty."""
    if not nodes:
        return "no server runs"
    leaders = set()
    for node in nodes:
        try:
            health = await ask(node.monitor_url, "/healthz")
            jsz = await ask(node.monitor_url, "/jsz")
        except Unavailable as error:
            return error.message.rstrip(".")
        if health.get("status") != "ok":
            return f"{node.name} says {health.get('error') or health.get('status')}"
        meta = jsz.get("meta_cluster") or {}
        if of > 1 and meta.get("cluster_size") != of:
            return f"{node.name} knows {meta.get('cluster_size', 0)} servers of {of}"
        leaders.add(meta.get("leader") or "")
    if of > 1 and (len(leaders) > 1 or "" in leaders):
        return "they do not agree on a leader"
    return ""


def nodes_of(directory: Path, ports: Sequence[Ports]) -> tuple[ServerNode, ...]:
    """Return the servers of a directory, in order."""
    return tuple(
        ServerNode(f"n{number}", each, directory / f"n{number}")
        for number, each in enumerate(ports, 1)
    )


def write_config(node: ServerNode, text: str) -> None:
    """Write the configuration of a server so that only its owner can read it."""
    node.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    node.directory.chmod(0o700)
    Disk(fsync=False).replace(str(node.config_path), text.encode(), nonce=nonce())


def launch(binary: Path, node: ServerNode, **options: Any) -> tuple[subprocess.Popen[bytes], int]:
    """Start a server. Returns its process, and the length of its log before."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    with open(os.open(node.log_path, flags, 0o600), "ab") as log:
        log_size = log.tell()
        process = subprocess.Popen(  # noqa: S603
            [os.fspath(binary), "-c", os.fspath(node.config_path)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            # No secrets, and nothing that marks an agent.
            env={name: os.environ[name] for name in _KEPT if name in os.environ},
            **options,
        )
    return process, log_size


def start_failed(node: ServerNode, what: str) -> StartFailed:
    """Return the error for a server that did not start, with the end of its log."""
    screen = ""
    with suppress(FileNotFoundError):
        screen = node.log_path.read_bytes()[-_SCREEN_BYTES:].decode("utf-8", "replace")
    remedy = f"Read its log: {node.log_path}"
    return StartFailed(f"Server {node.name} {what}.", screen=screen, remedy=remedy)


def says_ready(node: ServerNode, log_size: int, *, of: int) -> bool:
    """Return whether a server listens, according to its log since the start.

    Another program could answer on its port if the server could not get it.
    """
    with node.log_path.open("rb") as log:
        log.seek(log_size)
        said = log.read()
    return _READY in said and (of == 1 or _READY_FOR_OTHERS in said)


async def until(holds: Callable[[], Awaitable[bool]], deadline_s: float) -> bool:
    """Wait until something is true, at most until the deadline. Returns whether it is."""
    deadline = time.monotonic() + deadline_s
    while True:
        if await holds():
            return True
        if time.monotonic() > deadline:
            return False
        await anyio.sleep(_POLL_S)


async def _gone(process: subprocess.Popen[bytes]) -> None:
    async def gone() -> bool:
        return process.poll() is not None

    if not await until(gone, _STOP_S):
        process.kill()
        await anyio.to_thread.run_sync(process.wait)
