"""`bullpen host` and `bullpen hosts`: the machines that run agents of teams on NATS."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar

import anyio

from bullpen.agents.supervisor.machines.host_records import shown_labels
from bullpen.agents.supervisor.machines.over_nats import KnownHost, known_hosts
from bullpen.app.server_keys import credentials_for
from bullpen.app.settings import Settings, place_of
from bullpen.app.stores import is_nats
from bullpen.doors.cli.command import examples
from bullpen.doors.cli.options.option import argument, option
from bullpen.doors.cli.session import Session
from bullpen.errors import Refused
from bullpen.fleet.host.daemon import Host
from bullpen.fleet.host.forget import forget_host
from bullpen.fleet.servers.connect import linked
from bullpen.protocol.clock import now_ms

T = TypeVar("T")


@examples("bullpen host run --label gpu --agents 4")
def run(
    session: Session,
    *,
    label: Annotated[
        list[str] | None, option("Label beside os, arch, driver and gpu [repeatable]", "K=V")
    ] = None,
    agents: Annotated[int, option("The most agents to run at once", "N", min=1)] = 10,
    memory: Annotated[
        int, option("Start no agent with less free memory than this", "MB", min=0)
    ] = 512,
) -> None:
    """Run agents on this machine until stopped.

    SIGTERM drains the host: its agents stop, and those that may run elsewhere do. Ctrl-C ends only
    this process: its agents keep running, and the next host process takes them over.
    """

    session.goes_on("`host run`")

    def tell(text: str) -> None:
        # The log of a service must show it at once.
        if session.json:
            session.page.json_line("host-news/1", {"text": text})
            return
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


@examples("bullpen hosts", "bullpen hosts --json")
def hosts(session: Session) -> None:
    """List the machines that run agents."""
    found = _run(session, _hosts)
    rows = []
    for host in found:
        record, beat = host.record, host.beat
        age = "" if beat is None else f"{max(0, now_ms() - beat.beat_ms) / 1000:.0f} s ago"
        full = f"{0 if beat is None else beat.agents}/{record.agents_max}"
        free = "" if beat is None or beat.memory_mb_free is None else f"{beat.memory_mb_free} MB"
        rows.append((record.name, host.state, full, free, age, shown_labels(record.labels)))
    session.page.listing(
        "hosts/1",
        {"hosts": [_as_json(host) for host in found]},
        ("host", "state", "agents", "free", "heard", "labels"),
        rows,
        nothing="No hosts. Start one on each machine: bullpen host run",
    )


async def _hosts(settings: Settings) -> list[KnownHost]:
    settings = _on_nats(settings)
    url = settings.store or ""
    async with linked(url, creds=credentials_for(url, settings), ca=settings.ca) as link:
        return await known_hosts(link)


def _as_json(host: KnownHost) -> dict[str, object]:
    beat = None if host.beat is None else host.beat.raw
    return {**host.record.raw, "state": host.state, "alive": host.beat is not None, "beat": beat}


@examples("bullpen host forget old-laptop")
def forget(
    session: Session,
    name: Annotated[str, argument("Name of the host", "NAME")],
) -> None:
    """Forget a host that will not come back."""

    async def gone(settings: Settings) -> None:
        await forget_host(_on_nats(settings), name)

    _run(session, gone)
    session.page.result("host-forgotten/1", {"host": name}, f"Forgot host {name}.")


def _run(session: Session, operation: Callable[[Settings], Awaitable[T]]) -> T:
    return anyio.run(operation, session.settings)


def _on_nats(settings: Settings) -> Settings:
    if not is_nats(settings.store):
        raise Refused(
            f"Hosts work only for teams on NATS; these teams are in {place_of(settings)}.",
            reason="one_machine",
            remedy="Pass --store nats://HOST:4222 or set BULLPEN_STORE.",
        )
    return settings
