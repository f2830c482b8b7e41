"""Development servers that outlive the command that starts them, and how they are found again.

A record beside their data says which there are; a pid counts only together with its start.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bullpen.agents import processes
from bullpen.errors import Conflict, Invalid, NotFound, StartFailed, Unavailable, Unreadable
from bullpen.fleet.servers.binary import find_binary
from bullpen.fleet.servers.config import LOOPBACK, Node, Ports, loopback_config
from bullpen.fleet.servers.ports import free_ports, is_free
from bullpen.fleet.servers.process import (
    READY_S,
    last_words,
    nodes_of,
    open_log,
    says_ready,
    server_environment,
    until,
    why_not_ready,
    write_config,
)
from bullpen.protocol import jsontext

RECORD = "servers.json"
PORT = 4222

_LOCK = "servers.lock"
_ROUTES_AFTER = 2000
_MONITORS_AFTER = 4000
_PORT_MAX = 65535
_GRACE_S = 30.0


@dataclass(frozen=True, slots=True)
class Servers:
    """The servers of a directory, those that run with their processes: pid and start by name."""

    directory: Path
    nodes: tuple[Node, ...]
    replicas: int
    processes: dict[str, tuple[int, str]] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """Where clients reach them, as the setting of a store is written."""
        return "nats://" + ",".join(f"{LOOPBACK}:{node.ports.client}" for node in self.nodes)

    def runs(self, node: Node) -> bool:
        """Whether that very server still runs."""
        known = self.processes.get(node.name)
        return known is not None and processes.is_alive(*known)


def found(directory: Path) -> Servers | None:
    """The servers that were started in a directory, if any ever were.

    Raises:
        Unreadable: the record of them is damaged.
    """
    path = directory / RECORD
    try:
        told = jsontext.loads(path.read_bytes())
        nodes = nodes_of(directory, [_ports(row) for row in told["nodes"]])
        running = {
            node.name: (int(row["pid"]), str(row["start"]))
            for node, row in zip(nodes, told["nodes"], strict=True)
            if row.get("pid")
        }
        return Servers(directory, nodes, int(told["replicas"]), running)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise Unreadable(
            str(path), str(error), remedy="Move it away, and start the servers again."
        ) from error


def wanted(
    directory: Path, *, nodes: int | None, port: int | None, replicas: int | None
) -> Servers:
    """The servers that a directory holds or shall hold.

    Raises:
        Conflict: it holds others than those asked for.
        Invalid: such servers cannot be.
    """
    known = found(directory)
    if known is not None:
        asked = (nodes or len(known.nodes), port or known.nodes[0].ports.client)
        if asked != (len(known.nodes), known.nodes[0].ports.client) or (
            replicas not in (None, known.replicas)
        ):
            raise Conflict(
                f"{directory} holds {_said(known)}.",
                remedy="Leave the options out to start those, or name another --dir.",
            )
        return known
    count = nodes or 1
    copies = count if replicas is None else replicas
    if count not in (1, 3) or not 1 <= copies <= count:
        raise Invalid(
            f"{count} servers with {copies} replicas of each stream cannot be.",
            remedy="Have 1 server, or 3 with 1 or 3 replicas.",
        )
    ports = free_ports(count) if port == 0 else _ports_from(PORT if port is None else port, count)
    return Servers(directory, nodes_of(directory, ports), copies)


async def start(servers: Servers) -> Servers:
    """Start those that do not run, and wait until all are ready.

    Raises:
        Conflict: somebody else has one of their ports.
        StartFailed: one ended at once; its last words are told.
        Unavailable: there is no nats-server, or they do not get ready.
    """
    binary = find_binary(os.environ)
    with _locked(servers.directory):
        # Somebody may have started them while this one waited for the lock.
        servers = found(servers.directory) or servers
        stopped = [node for node in servers.nodes if not servers.runs(node)]
        _refuse_taken(stopped)
        log_sizes = {}
        for node in stopped:
            write_config(node, loopback_config(node, servers.nodes))
            pid, log_sizes[node.name] = _launch(binary, node)
            known = {**servers.processes, node.name: (pid, processes.start_of(pid) or "")}
            servers = replace(servers, processes=known)
            # Written after each: a server that no record names could not be stopped.
            _write(servers)
    for node in stopped:
        await _wait_listening(servers, node, log_sizes[node.name])
    missing = ""

    async def ready() -> bool:
        nonlocal missing
        missing = await why_not_ready(servers.nodes, of=len(servers.nodes))
        return not missing

    if not await until(ready, READY_S):
        raise Unavailable(
            f"The servers in {servers.directory} are not ready after {READY_S:g} s: {missing}.",
            remedy=f"Read their logs: {servers.nodes[0].log_path}",
        )
    return servers


async def stop(directory: Path) -> Servers:
    """End the servers of a directory; the processes in what is returned are those that ran.

    Raises:
        NotFound: none were ever started there.
        Unavailable: one does not end.
    """
    known = found(directory)
    if known is None:
        raise NotFound(
            f"No servers were started in {directory}.",
            remedy="Name the directory with --dir, as when they were started.",
        )
    with _locked(directory):
        known = found(directory) or known
        running = {
            node.name: known.processes[node.name] for node in known.nodes if known.runs(node)
        }
        await processes.end_each(running.values(), grace_s=_GRACE_S)
        for pid, _ in running.values():
            _forget(pid)
        _write(replace(known, processes={}))
    return replace(known, processes=running)


def _ports_from(first: int, count: int) -> list[Ports]:
    if not 1 <= first <= _PORT_MAX - _MONITORS_AFTER - count + 1:
        raise Invalid(
            f"Servers cannot have their ports from {first} on: they also take those"
            f" {_ROUTES_AFTER} and {_MONITORS_AFTER} after.",
            remedy=f"Choose one from 1 to {_PORT_MAX - _MONITORS_AFTER - count + 1}.",
        )
    return [
        Ports(port, monitor=port + _MONITORS_AFTER, route=port + _ROUTES_AFTER)
        for port in range(first, first + count)
    ]


def _refuse_taken(nodes: Sequence[Node]) -> None:
    for node in nodes:
        for port in (node.ports.client, node.ports.monitor, node.ports.route):
            if not is_free(port):
                raise Conflict(
                    f"Port {port} of {LOOPBACK}, which server {node.name} needs, is taken.",
                    remedy="Choose another --port, or see who has it: ss -ltnp",
                )


def _launch(binary: Path, node: Node) -> tuple[int, int]:
    """Start a server; its pid, and how long its log was before."""
    with open_log(node) as log:
        log_size = log.tell()
        child = subprocess.Popen(  # noqa: S603
            [os.fspath(binary), "-c", os.fspath(node.config_path)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=node.directory,
            env=server_environment(os.environ),
            start_new_session=True,
        )
    # It outlives this object without a warning.
    child.returncode = 0
    return child.pid, log_size


def _forget(pid: int) -> None:
    """Let the system forget an ended process, if this one started it: nobody else can."""
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


async def _wait_listening(servers: Servers, node: Node, log_size: int) -> None:
    async def listens() -> bool:
        return not servers.runs(node) or says_ready(node, log_size, of=len(servers.nodes))

    if not await until(listens, READY_S) or not servers.runs(node):
        raise StartFailed(
            f"Server {node.name} did not start.",
            screen=last_words(node),
            remedy=f"Read its log: {node.log_path}",
        )


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    # The mode is that of the last directory only: the home may have to be made as well.
    for each in (directory.parent, directory):
        each.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _write(servers: Servers) -> None:
    rows = []
    for node in servers.nodes:
        pid, start = servers.processes.get(node.name, (None, None))
        ports = node.ports
        rows.append(
            {
                "name": node.name,
                "client": ports.client,
                "monitor": ports.monitor,
                "route": ports.route,
                "pid": pid,
                "start": start,
            }
        )
    path = servers.directory / RECORD
    beside = path.with_suffix(".new")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as file:
        file.write(jsontext.dumps({"replicas": servers.replicas, "nodes": rows}))
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def _ports(row: dict[str, Any]) -> Ports:
    return Ports(int(row["client"]), int(row["monitor"]), int(row["route"]))


def _said(servers: Servers) -> str:
    count = len(servers.nodes)
    return (
        f"{count} server{'s' if count > 1 else ''} from port {servers.nodes[0].ports.client} on,"
        f" with {servers.replicas} of each stream"
    )
