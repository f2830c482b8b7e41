"""`bullpen host` and `bullpen hosts`: the machines that run agents of teams on NATS."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from bullpen.cli.command import Noun, command
from bullpen.cli.session import Session
from bullpen.errors import Refused

if TYPE_CHECKING:
    from bullpen.agents.hosts.over_nats import KnownHost
    from bullpen.app import Settings

T = TypeVar("T")

noun = Noun(
    "The host process of this machine: it runs agents for teams on NATS.",
    examples=(
        "bullpen host run --label repo=web --agents 8",
        "bullpen spawn alice 'Write the parser' --on repo=web",
        "bullpen hosts",
    ),
)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, "hosts", examples=("bullpen hosts", "bullpen hosts --json"))(hosts)
    command(noun.commands, "run", examples=("bullpen host run --label gpu --agents 4",))(run)
    command(noun.commands, "forget", examples=("bullpen host forget old-laptop",))(forget)


def run(
    session: Session,
    *,
    label: Annotated[
        list[str] | None,
        typer.Option(metavar="K=V", help="What it has, beside os, arch, driver, gpu. [repeatable]"),
    ] = None,
    agents: Annotated[int, typer.Option(metavar="N", min=1, help="So many agents at most.")] = 10,
    memory: Annotated[
        int,
        typer.Option(metavar="MB", min=0, help="Take nobody with less memory than this free."),
    ] = 512,
) -> None:
    """Be the host of this machine, until it is told to end.

    SIGTERM drains it: agents stop, and those that may go on elsewhere do. Ctrl-C ends only this
    process: its agents go on, and the next host process takes them over.
    """
    import anyio

    from bullpen.fleet.host.daemon import Host

    def tell(text: str) -> None:
        # Whoever looks at the log of a service wants to see it now.
        session.page.line(text)
        session.page.flush()

    host = Host(
        _on_nats(session.settings),
        os.environ,
        labels=label or (),
        agents_max=agents,
        memory_mb_min=memory,
        tell=tell,
    )
    ended = anyio.run(lambda: host.run(ready=lambda: tell(f"Host {host.name} is ready.")))
    tell(f"Host {host.name} {ended}.")


def hosts(session: Session) -> None:
    """Show the machines that run agents, how full they are, and who is lost."""
    found = _run(session, _hosts)
    if session.json:
        session.page.value([_as_json(host) for host in found])
        return
    if not found:
        session.page.line("There are no hosts. Start one on each machine: bullpen host run")
        return
    from bullpen.agents.hosts.records import shown_labels
    from bullpen.store.clock import now_ms

    rows = []
    for host in found:
        record, beat = host.record, host.beat
        age = "" if beat is None else f"{max(0, now_ms() - beat.beat_ms) / 1000:.0f} s ago"
        full = f"{0 if beat is None else beat.agents}/{record.agents_max}"
        free = "" if beat is None or beat.memory_mb_free is None else f"{beat.memory_mb_free} MB"
        rows.append((record.name, host.state, full, free, age, shown_labels(record.labels)))
    session.page.table(("HOST", "STATE", "AGENTS", "FREE", "HEARD", "LABELS"), rows)


async def _hosts(settings: Settings) -> list[KnownHost]:
    from bullpen.agents.hosts.over_nats import known_hosts
    from bullpen.fleet.servers.connecting import linked

    settings = _on_nats(settings)
    async with linked(settings.store or "", creds=settings.creds, ca=settings.ca) as link:
        return await known_hosts(link)


def _as_json(host: KnownHost) -> dict[str, object]:
    beat = None if host.beat is None else host.beat.raw
    return {**host.record.raw, "state": host.state, "alive": host.beat is not None, "beat": beat}


def forget(
    session: Session,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The host.", show_default=False)],
) -> None:
    """Forget a host that will not come back."""

    async def gone(settings: Settings) -> None:
        from bullpen.fleet.host.forgetting import forget_host

        await forget_host(_on_nats(settings), name)

    _run(session, gone)
    session.page.line(f"Host {name} is forgotten.")


def _run(session: Session, operation: Callable[[Settings], Awaitable[T]]) -> T:
    import anyio

    return anyio.run(operation, session.settings)


def _on_nats(settings: Settings) -> Settings:
    from bullpen.app import is_nats, place_of

    if not is_nats(settings.store):
        raise Refused(
            f"Hosts are for teams on NATS; these teams are in {place_of(settings)}.",
            reason="one_machine",
            remedy="Set BULLPEN_STORE=nats://HOST:4222, or use --store.",
        )
    return settings
