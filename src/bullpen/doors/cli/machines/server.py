"""`bullpen server`: NATS servers for teams on several machines."""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any

import anyio
import typer
from nats.aio.client import Client

from bullpen.app.server_keys import credentials_for, key_file
from bullpen.doors.cli.command import examples
from bullpen.doors.cli.machines.server_view import (
    backup_json,
    backup_lines,
    restored_line,
    show_alarms,
    show_status,
)
from bullpen.doors.cli.options.option import argument, option
from bullpen.doors.cli.session import Session, directory
from bullpen.errors import NotFound
from bullpen.fleet.servers import detached
from bullpen.fleet.servers.alarms import Alarm, alarms
from bullpen.fleet.servers.backup import Backup, back_up, checked
from bullpen.fleet.servers.backup import restore as put_back
from bullpen.fleet.servers.cluster_survey import Round, survey
from bullpen.fleet.servers.connect import connected
from bullpen.fleet.servers.production import production_configs
from bullpen.store.nats.client import streams

_ALARM = 1
_STORE = "BULLPEN_STORE"


Where = Annotated[
    str | None, option("Data directory of the servers [default: nats in the home]", "DIR", "--dir")
]
Monitors = Annotated[
    list[str] | None,
    option(
        "Monitoring URL of a server, such as http://a:8222 [repeatable; "
        "default: the servers of --dir]",
        "URL",
        "--monitor",
    ),
]


@examples("bullpen server start", "bullpen server start --nodes 3 --dir ./nats --port 5222")
def start(
    session: Session,
    *,
    where: Where = None,
    nodes: Annotated[int | None, option("Number of servers [default: 1]", "1|3")] = None,
    port: Annotated[
        int | None,
        option(
            "Port of the first server; 0 for any free port [default: 4222]", "N", min=0, max=65535
        ),
    ] = None,
    replicas: Annotated[
        int | None, option("Copies of each stream [default: one per server]", "N")
    ] = None,
) -> None:
    """Start NATS servers on this machine.

    The servers listen on loopback and keep running. They require a key, a file in the home that
    commands with the same home use on their own. Started again, they use the same data and key.
    Keep --dir where agents cannot read it.
    """
    path = _directory(session, where)

    async def run() -> detached.Servers:
        started = await detached.start(
            detached.wanted(path, nodes=nodes, port=port, replicas=replicas),
            home=session.settings.home,
        )
        async with connected(started.url, creds=_key_of(session, started)) as nc:
            await streams.prepare(nc, replicas=started.replicas)
        return started

    started = anyio.run(run)
    session.page.result(
        "server-started/1",
        {
            "url": started.url,
            "directory": str(path),
            "key": _key_of(session, started),
            "replicas": started.replicas,
            "nodes": [
                {
                    "name": node.name,
                    "url": node.url,
                    "monitor": node.monitor_url,
                    "pid": started.processes[node.name][0],
                }
                for node in started.nodes
            ],
        },
        f"Running at {started.url}; data is in {path}. Try next:",
        f"  export {_STORE}={started.url}",
        "  bullpen team create alpha",
        f"  bullpen server status{_again(session, where)}",
    )


@examples("bullpen server prepare --replicas 3 --partitions 8")
def prepare(
    session: Session,
    *,
    where: Where = None,
    replicas: Annotated[int, option("Copies of each stream", "1|3", min=1, max=5)] = 1,
    partitions: Annotated[
        int, option("Number of streams that teams are spread over", "N", min=1, max=64)
    ] = 1,
    lost_after: Annotated[
        int, option("Seconds of silence after which a host is lost", "S", min=3)
    ] = 30,
) -> None:
    """Create the streams that teams need.

    Needs an administrator's key if the servers require keys. Safe to repeat.
    """

    async def make(nc: Client) -> None:
        await streams.prepare(nc, partitions=partitions, replicas=replicas, beats_ttl_s=lost_after)

    _with_servers(session, where, make)
    session.page.result(
        "server-prepared/1",
        {"replicas": replicas, "partitions": partitions},
        f"The servers are ready: {partitions} partitions, {replicas} copies of each.",
    )


@examples("bullpen server stop")
def stop(session: Session, *, where: Where = None) -> None:
    """Stop the servers that `start` started.

    Their data stays.
    """
    path = _directory(session, where)
    ended = anyio.run(detached.stop, path)
    session.page.result(
        "server-stopped/1",
        {"directory": str(path), "stopped": sorted(ended.processes)},
        f"Stopped {', '.join(sorted(ended.processes))}. Their data stays in {path}."
        if ended.processes
        else f"No server in {path} was running.",
    )


@examples("bullpen server status", "bullpen server status --monitor http://a:8222 --json")
def status(session: Session, *, where: Where = None, monitor: Monitors = None) -> None:
    """Show the servers and their streams.

    Takes a few seconds, because replicas change while it looks. Exits with 1 if something is wrong.
    """
    rounds, found = _looked(session, where, monitor)
    show_status(session.page, rounds[-1], found)
    _end(session, found)


@examples("bullpen server check --monitor http://a:8222 --monitor http://b:8222")
def check(session: Session, *, where: Where = None, monitor: Monitors = None) -> None:
    """Report what is wrong with the servers.

    Made for cron and monitoring. Exits with 1 if something is wrong.
    """
    _, found = _looked(session, where, monitor)
    show_alarms(session.page, found)
    _end(session, found)


@examples(
    "bullpen server config --nodes 3",
    "bullpen server config --hosts nats.example.com --auth ./keys --tls /tls",
)
def config(
    session: Session,
    *,
    nodes: Annotated[
        int | None, option("Number of servers [default: the number of --hosts]", "1|3")
    ] = None,
    hosts: Annotated[
        str | None, option("Machines they run on [default: nats-1.example.com and so on]", "A,B,C")
    ] = None,
    auth: Annotated[
        str | None, option("Folder of `bullpen auth` with operator and accounts", "DIR")
    ] = None,
    tls: Annotated[
        str | None, option("Folder with ca.pem, HOST.pem and HOST.key on each server", "DIR")
    ] = None,
) -> None:
    """Print configuration files for production servers."""
    named = [host.strip() for host in (hosts or "").split(",") if host.strip()]
    count = nodes or len(named) or 3
    if named and count != len(named):
        raise typer.BadParameter(f"--nodes is {count}, but --hosts names {len(named)} machines.")
    made = production_configs(
        named or [f"nats-{number}.example.com" for number in range(1, count + 1)],
        auth=auth,
        tls=tls,
    )
    if session.json:
        session.page.value("server-configs/1", {"configs": made})
        return
    for host, text in made.items():
        if len(made) > 1:
            session.page.line(f"########## {host} ##########")
        session.page.block(text)


@examples("bullpen server backup /backups/2026-11-15")
def backup(
    session: Session,
    target: Annotated[str, argument("A new or empty directory", "DIR")],
    *,
    where: Where = None,
) -> None:
    """Back up all teams to a directory.

    Teams keep working during the backup. Reads the servers of --store, or those that `start`
    started. Each stream is saved as it was at one moment.
    """
    path = Path(directory(target))

    async def run(nc: Client) -> Backup:
        return await back_up(nc, path)

    made = _with_servers(session, where, run)
    session.page.result("server-backup/1", backup_json(made), *backup_lines(made))


@examples(
    "bullpen server restore /backups/2026-11-15",
    "bullpen server restore /backups/2026-11-15 --replicas 1",
)
def restore(
    session: Session,
    source: Annotated[str, argument("The directory of a backup", "DIR")],
    *,
    where: Where = None,
    replicas: Annotated[
        int | None, option("Copies of each stream [default: as in the backup]", "N", min=1, max=5)
    ] = None,
) -> None:
    """Restore a backup onto empty servers.

    Checks every file before it writes anything. Uses the servers of BULLPEN_STORE, or those that
    `start` started.
    """
    path = Path(directory(source))

    async def run(nc: Client) -> Backup:
        found = await checked(path)
        await put_back(nc, found, replicas=replicas)
        return found

    found = _with_servers(session, where, run)
    session.page.result("server-backup/1", backup_json(found), restored_line(found))


def _directory(session: Session, where: str | None) -> Path:
    return Path(directory(where)) if where else session.settings.home / "nats"


def _key_of(session: Session, servers: detached.Servers) -> str:
    return str(key_file(session.settings.home, servers.nodes[0].ports.client))


def _again(session: Session, where: str | None) -> str:
    return f" --dir {shlex.quote(where)}" if where else session.elsewhere


def _looked(
    session: Session, where: str | None, monitors: list[str] | None
) -> tuple[list[Round], list[Alarm]]:
    if monitors:
        asked = [(url, url) for url in monitors]
    else:
        asked = [(node.name, node.monitor_url) for node in _started(session, where).nodes]
    rounds = anyio.run(survey, asked)
    return rounds, alarms(rounds)


def _with_servers(
    session: Session, where: str | None, operation: Callable[[Client], Awaitable[Any]]
) -> Any:
    settings = session.settings
    url = settings.store if settings.store and not where else _started(session, where).url

    async def run() -> Any:
        async with connected(url, creds=credentials_for(url, settings), ca=settings.ca) as nc:
            return await operation(nc)

    return anyio.run(run)


def _end(session: Session, found: list[Alarm]) -> None:
    if found:
        session.page.flush()
        raise typer.Exit(_ALARM)


def _started(session: Session, where: str | None) -> detached.Servers:
    path = _directory(session, where)
    servers = detached.found(path)
    if servers is None:
        raise NotFound(
            f"No servers were started in {path}.",
            remedy="Run bullpen server start, or name running servers with --monitor or --store",
        )
    return servers
