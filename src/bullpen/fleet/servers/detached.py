"""Development servers that outlive the command that started them.

A record beside their data lists them. A pid counts only together with its start time.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from bullpen.agents.system import processes
from bullpen.errors import Conflict, Invalid, NotFound, Unreadable
from bullpen.fleet.servers.config import LOOPBACK, Ports, ServerNode, loopback_config
from bullpen.fleet.servers.ports import free_ports, is_free
from bullpen.fleet.servers.server_binary import find_binary
from bullpen.fleet.servers.server_key import ensure_key
from bullpen.fleet.servers.server_process import (
    READY_S,
    launch,
    nodes_of,
    says_ready,
    start_failed,
    until,
    wait_ready,
    write_config,
)
from bullpen.protocol import json_text
from bullpen.store.files.disk import Disk, nonce

RECORD = "servers.json"
PORT = 4222

_LOCK = "servers.lock"
_ROUTES_AFTER = 2000
_MONITORS_AFTER = 4000
_PORT_MAX = 65535
_GRACE_S = 30.0


@dataclass(frozen=True, slots=True)
class Servers:
    """The servers of a directory; for running ones, pid and start time by name.

    `key` is the public half of the key that they require; older versions required none.
    """

    directory: Path
    nodes: tuple[ServerNode, ...]
    replicas: int
    key: str | None = None
    processes: dict[str, tuple[int, str]] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """Return where clients reach them, in the form of a store setting."""
        return "nats://" + ",".join(f"{LOOPBACK}:{node.ports.client}" for node in self.nodes)

    def runs(self, node: ServerNode) -> bool:
        """Return whether exactly that server still runs."""
        known = self.processes.get(node.name)
        return known is not None and processes.is_alive(*known)


def found(directory: Path) -> Servers | None:
    """Return the servers that were started in a directory, if any. Raises Unreadable."""
    path = directory / RECORD
    try:
        told = json_text.loads(path.read_bytes())
        nodes = nodes_of(directory, [_ports(row) for row in told["nodes"]])
        running = {
            node.name: (int(row["pid"]), str(row["start"]))
            for node, row in zip(nodes, told["nodes"], strict=True)
            if row.get("pid")
        }
        return Servers(directory, nodes, int(told["replicas"]), told.get("key"), running)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise Unreadable(
            str(path), str(error), remedy="Move the file away, then start the servers again."
        ) from error


def wanted(
    directory: Path, *, nodes: int | None, port: int | None, replicas: int | None
) -> Servers:
    """Return the servers that a directory has or should have.

    Raises Conflict if it has others than those asked for, Invalid if they are not possible.
    """
    known = found(directory)
    if known is not None:
        asked = (nodes or len(known.nodes), port or known.nodes[0].ports.client)
        if asked != (len(known.nodes), known.nodes[0].ports.client) or (
            replicas not in (None, known.replicas)
        ):
            raise Conflict(
                f"{directory} has {_said(known)}.",
                remedy="Omit the options to start those, or use another --dir.",
            )
        return known
    count = nodes or 1
    copies = count if replicas is None else replicas
    if count not in (1, 3) or not 1 <= copies <= count:
        raise Invalid(
            f"{count} servers with {copies} replicas of each stream are not possible.",
            remedy="Use 1 server, or 3 servers with 1 or 3 replicas.",
        )
    ports = free_ports(count) if port == 0 else _ports_from(PORT if port is None else port, count)
    return Servers(directory, nodes_of(directory, ports), copies)


async def start(servers: Servers, *, home: Path) -> Servers:
    """Start those that do not run, and wait until all are ready. Their key is in `home`.

    Raises Conflict if another program uses one of their ports or some run with another key,
    Unreadable if the key is damaged, StartFailed with the last output of one that ended, and
    Unavailable if there is no nats-server or they do not become ready.
    """
    binary = find_binary(os.environ)
    with _locked(servers.directory):
        # Another process may have started them while this one waited for the lock.
        servers = found(servers.directory) or servers
        stopped = [node for node in servers.nodes if not servers.runs(node)]
        _refuse_taken(stopped)
        key = ensure_key(home, [node.ports.client for node in servers.nodes])
        if len(stopped) < len(servers.nodes) and servers.key != key.public:
            raise Conflict(
                f"Servers in {servers.directory} run without the key in {home}: another home or an "
                "older version started them.",
                remedy="Run `bullpen server stop` and `bullpen server start` with the same --dir.",
            )
        servers = replace(servers, key=key.public)
        log_sizes = {}
        for node in stopped:
            write_config(node, loopback_config(node, servers.nodes, key=key))
            pid, log_sizes[node.name] = _launch(binary, node)
            known = {**servers.processes, node.name: (pid, processes.start_of(pid) or "")}
            servers = replace(servers, processes=known)
            # Written after each: a server without a record could not be stopped.
            _write(servers)
    for node in stopped:
        await _wait_listening(servers, node, log_sizes[node.name])
    await wait_ready(servers.nodes, lambda: servers.nodes)
    return servers


async def stop(directory: Path) -> Servers:
    """Stop the servers of a directory. Returns them with the processes that ran.

    Raises NotFound if none were ever started there, Unavailable if one does not end.
    """
    known = found(directory)
    if known is None:
        raise NotFound(
            f"No servers were started in {directory}.",
            remedy="Use the same --dir as when you started them.",
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
            f"Servers cannot use the ports from {first} on, because they also need those "
            f"{_ROUTES_AFTER} and {_MONITORS_AFTER} higher.",
            remedy=f"Choose a port from 1 to {_PORT_MAX - _MONITORS_AFTER - count + 1}.",
        )
    return [
        Ports(port, monitor=port + _MONITORS_AFTER, route=port + _ROUTES_AFTER)
        for port in range(first, first + count)
    ]


def _refuse_taken(nodes: Sequence[ServerNode]) -> None:
    for node in nodes:
        for port in (node.ports.client, node.ports.monitor, node.ports.route):
            if not is_free(port):
                raise Conflict(
                    f"Port {port} of {LOOPBACK}, which server {node.name} needs, is in use.",
                    remedy="Choose another --port, or find out who uses it: ss -ltnp",
                )


def _launch(binary: Path, node: ServerNode) -> tuple[int, int]:
    """Start a server. Returns its pid, and the length of its log before."""
    child, log_size = launch(binary, node, cwd=node.directory, start_new_session=True)
    # It outlives this object without a warning.
    child.returncode = 0
    return child.pid, log_size


def _forget(pid: int) -> None:
    """Reap an ended process that this process started."""
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


async def _wait_listening(servers: Servers, node: ServerNode, log_size: int) -> None:
    async def listens() -> bool:
        return not servers.runs(node) or says_ready(node, log_size, of=len(servers.nodes))

    if not await until(listens, READY_S) or not servers.runs(node):
        raise start_failed(node, "did not start")


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    # The mode applies to the last directory only: the home may have to be created as well.
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
        rows.append({"name": node.name, **asdict(node.ports), "pid": pid, "start": start})
    data = json_text.dumps({"replicas": servers.replicas, "key": servers.key, "nodes": rows})
    Disk().replace(str(servers.directory / RECORD), data, nonce=nonce())


def _ports(row: dict[str, Any]) -> Ports:
    return Ports(int(row["client"]), int(row["monitor"]), int(row["route"]))


def _said(servers: Servers) -> str:
    count = len(servers.nodes)
    return (
        f"{count} server{'s' if count > 1 else ''} from port {servers.nodes[0].ports.client} on,"
        f" with {servers.replicas} of each stream"
    )
