"""`bullpen server`: the NATS servers that teams across machines are kept on."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bullpen.cli.command import Noun, command
from bullpen.cli.people import refuse_agents
from bullpen.cli.session import Session, directory
from bullpen.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from nats.aio.client import Client

    from bullpen.fleet.servers.alarms import Alarm
    from bullpen.fleet.servers.survey import Round

_ALARM = 1
_STORE = "BULLPEN_STORE"

noun = Noun(
    "Run and watch the NATS servers that teams across machines are kept on.\n\n"
    "`start` is for one machine and for trying things out. For servers on machines of their own,"
    " `config` writes what they need, and `check` tells what is wrong with them.",
    examples=(
        "bullpen server start",
        "bullpen server start --nodes 3",
        "bullpen server status",
        "bullpen server config --hosts a.example.com,b.example.com,c.example.com",
        "bullpen server backup backup-of-today",
    ),
)

Where = Annotated[
    str | None,
    typer.Option(
        "--dir",
        metavar="DIR",
        help="Where the servers keep their data. [default: nats in the home]",
        show_default=False,
    ),
]
Monitors = Annotated[
    list[str] | None,
    typer.Option(
        "--monitor",
        metavar="URL",
        help="The monitoring address of each server, such as http://a:8222; else those of --dir.",
        show_default=False,
    ),
]


@command(
    noun.commands,
    "start",
    examples=("bullpen server start", "bullpen server start --nodes 3 --dir ./nats --port 5222"),
)
def start(
    session: Session,
    *,
    where: Where = None,
    nodes: Annotated[
        int | None, typer.Option(metavar="1|3", help="How many servers. [default: 1]")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            max=65535,
            help="The first server's port; 0 takes free ones. [default: 4222]",
        ),
    ] = None,
    replicas: Annotated[
        int | None,
        typer.Option(metavar="N", help="Copies of each stream. [default: one on each server]"),
    ] = None,
) -> None:
    """Start servers on loopback that go on by themselves, with their streams.

    Whoever has an account on this machine can reach them: they are for development, and for teams
    on one machine. Started again, they go on with their data.
    """
    refuse_agents("start servers")
    import anyio

    from bullpen.fleet.servers import detached

    path = _directory(session, where)

    async def run() -> detached.Servers:
        started = await detached.start(
            detached.wanted(path, nodes=nodes, port=port, replicas=replicas)
        )
        await _prepared(started.url, started.replicas)
        return started

    started = anyio.run(run)
    session.page.result(
        {
            "url": started.url,
            "directory": str(path),
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


@command(
    noun.commands,
    "prepare",
    examples=("bullpen server prepare --replicas 3 --partitions 8",),
)
def prepare(
    session: Session,
    *,
    where: Where = None,
    replicas: Annotated[
        int, typer.Option(metavar="1|3", min=1, max=5, help="Copies of each stream.")
    ] = 1,
    partitions: Annotated[
        int, typer.Option(metavar="N", min=1, max=64, help="Streams that share the teams.")
    ] = 1,
    lost_after: Annotated[
        int,
        typer.Option(metavar="S", min=3, help="A host is lost after so many seconds of silence."),
    ] = 30,
) -> None:
    """Make the streams that teams need on servers that run already.

    Needs the credentials of an administrator where the servers ask for any. Doing it again is fine.
    """
    refuse_agents("prepare servers")

    async def make(nc: Client) -> None:
        from bullpen.store.nats import streams

        await streams.prepare(nc, partitions=partitions, replicas=replicas, beats_ttl_s=lost_after)

    _with_servers(session, where, make)
    session.page.result(
        {"replicas": replicas, "partitions": partitions},
        f"The servers are ready for teams: {partitions} partitions, {replicas} copies of each.",
    )


@command(noun.commands, "stop", examples=("bullpen server stop",))
def stop(session: Session, *, where: Where = None) -> None:
    """Stop the servers that `start` started. Their data stays."""
    refuse_agents("stop servers")
    import anyio

    from bullpen.fleet.servers import detached

    path = _directory(session, where)
    ended = anyio.run(detached.stop, path)
    session.page.result(
        {"directory": str(path), "stopped": sorted(ended.processes)},
        f"Stopped {', '.join(sorted(ended.processes))}. Data stays in {path}."
        if ended.processes
        else f"None of the servers in {path} was running.",
    )


@command(
    noun.commands,
    "status",
    examples=("bullpen server status", "bullpen server status --monitor http://a:8222 --json"),
)
def status(session: Session, *, where: Where = None, monitor: Monitors = None) -> None:
    """Show the servers and their streams; exits with 1 if something is wrong.

    It looks for some seconds: copies that others write to are never the same at one look.
    """
    from bullpen.cli.server_view import show_status

    rounds, found = _looked(session, where, monitor)
    show_status(session.page, rounds[-1], found)
    if found:
        session.page.flush()
        raise typer.Exit(_ALARM)


@command(
    noun.commands,
    "check",
    examples=("bullpen server check --monitor http://a:8222 --monitor http://b:8222",),
)
def check(session: Session, *, where: Where = None, monitor: Monitors = None) -> None:
    """Say what is wrong with the servers; exits with 1 if something is.

    For cron, and for whatever else should wake somebody.
    """
    from bullpen.cli.server_view import show_alarms

    _, found = _looked(session, where, monitor)
    show_alarms(session.page, found)
    if found:
        session.page.flush()
        raise typer.Exit(_ALARM)


@command(
    noun.commands,
    "config",
    examples=(
        "bullpen server config --nodes 3",
        "bullpen server config --hosts nats.example.com --auth ./keys --tls /etc/nats/tls",
    ),
)
def config(
    session: Session,
    *,
    nodes: Annotated[
        int | None,
        typer.Option(metavar="1|3", help="How many servers. [default: as many as --hosts names]"),
    ] = None,
    hosts: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,C", help="The machines they run on. [default: nats-1.example.com, ...]"
        ),
    ] = None,
    auth: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Where `bullpen auth` keeps operator and accounts."),
    ] = None,
    tls: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="Where the servers have their certificates: ca.pem, and HOST.pem and HOST.key.",
        ),
    ] = None,
) -> None:
    """Print configurations for servers on machines of their own."""
    from bullpen.fleet.servers.production import production_configs

    named = [host.strip() for host in (hosts or "").split(",") if host.strip()]
    count = nodes or len(named) or 3
    if named and count != len(named):
        raise typer.BadParameter(f"--nodes says {count}, and --hosts names {len(named)}.")
    made = production_configs(
        named or [f"nats-{number}.example.com" for number in range(1, count + 1)],
        auth=auth,
        tls=tls,
    )
    if session.json:
        session.page.value({"configs": made})
        return
    for host, text in made.items():
        if len(made) > 1:
            session.page.line(f"########## {host} ##########")
        session.page.block(text)


@command(noun.commands, "backup", examples=("bullpen server backup /backups/2026-11-15",))
def backup(
    session: Session,
    target: Annotated[str, typer.Argument(metavar="DIR", help="A directory that is new or empty.")],
    *,
    where: Where = None,
) -> None:
    """Write all teams into a directory, while they go on.

    The servers are those of --store, else those that `start` started. Each stream is as it
    was at one moment.
    """
    refuse_agents("back up servers")
    from pathlib import Path

    from bullpen.cli.server_view import backup_json, backup_lines
    from bullpen.fleet.servers.backup import Backup, back_up

    path = Path(directory(target))

    async def run(nc: Client) -> Backup:
        return await back_up(nc, path)

    made = _with_servers(session, where, run)
    session.page.result(backup_json(made), *backup_lines(made))


@command(
    noun.commands,
    "restore",
    examples=(
        "bullpen server restore /backups/2026-11-15",
        "bullpen server restore /backups/2026-11-15 --replicas 1",
    ),
)
def restore(
    session: Session,
    source: Annotated[str, typer.Argument(metavar="DIR", help="What `backup` wrote.")],
    *,
    where: Where = None,
    replicas: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, max=5, help="Copies of each. [default: as before]"),
    ] = None,
) -> None:
    """Bring the teams of a backup onto servers that hold none.

    Every file is checked before anything is written. The servers are those of BULLPEN_STORE, else
    those that `start` started.
    """
    refuse_agents("restore servers")
    from pathlib import Path

    from bullpen.cli.server_view import backup_json, restored_line
    from bullpen.fleet.servers.backup import Backup, checked
    from bullpen.fleet.servers.backup import restore as put_back

    path = Path(directory(source))

    async def run(nc: Client) -> Backup:
        found = await checked(path)
        await put_back(nc, found, replicas=replicas)
        return found

    found = _with_servers(session, where, run)
    session.page.result(backup_json(found), restored_line(found))


def _directory(session: Session, where: str | None) -> Path:
    from pathlib import Path

    return Path(directory(where)) if where else session.settings.home / "nats"


def _again(session: Session, where: str | None) -> str:
    return f" --dir {shlex.quote(where)}" if where else session.elsewhere


async def _prepared(url: str, replicas: int) -> None:
    from bullpen.fleet.servers.connecting import connected
    from bullpen.store.nats.streams import prepare

    async with connected(url) as nc:
        await prepare(nc, replicas=replicas)


def _looked(
    session: Session, where: str | None, monitors: list[str] | None
) -> tuple[list[Round], list[Alarm]]:
    import anyio

    from bullpen.fleet.servers import detached
    from bullpen.fleet.servers.alarms import alarms
    from bullpen.fleet.servers.survey import survey

    if monitors:
        asked = [(url, url) for url in monitors]
    else:
        known = detached.found(_directory(session, where))
        if known is None:
            raise _no_servers(session, where)
        asked = [(node.name, node.monitor_url) for node in known.nodes]
    rounds = anyio.run(survey, asked)
    return rounds, alarms(rounds)


def _with_servers(
    session: Session, where: str | None, operation: Callable[[Client], Awaitable[Any]]
) -> Any:
    import anyio

    from bullpen.fleet.servers import detached
    from bullpen.fleet.servers.connecting import connected

    settings = session.settings
    if where or not settings.store:
        servers = detached.found(_directory(session, where))
        if servers is None:
            raise _no_servers(session, where)
        url = servers.url
    else:
        url = settings.store

    async def run() -> Any:
        async with connected(url, creds=settings.creds, ca=settings.ca) as nc:
            return await operation(nc)

    return anyio.run(run)


def _no_servers(session: Session, where: str | None) -> NotFound:
    return NotFound(
        f"No servers were started in {_directory(session, where)}.",
        remedy="Start some: bullpen server start. Or name others: --monitor URL for what they"
        " say of themselves, --store URL for what they hold.",
    )
