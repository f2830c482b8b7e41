"""Opens what the settings name: the store, its teams, and the machines that run agents."""

from __future__ import annotations

from pathlib import Path

from bullpen.agents.contracts.machines import Hosts, OneMachine
from bullpen.agents.supervisor.machines.through_host import ThroughHost
from bullpen.agents.system.processes import host_name
from bullpen.app.server_keys import credentials_for
from bullpen.app.settings import TEAM, Settings, home_path, place_of, settings_for, store_variables
from bullpen.errors import Invalid, NotFound, Refused, Unavailable
from bullpen.protocol.clock import Clock, now_ms
from bullpen.store.contract import Store
from bullpen.store.files.store import FileStore
from bullpen.store.hosted.client import HostedStore
from bullpen.store.hosted.socket import operator_token
from bullpen.team.commit import NewId, new_id
from bullpen.team.lookup import listed
from bullpen.team.team import Teams

FILES = "files:"
THROUGH_HOST = "host:"


def open_teams(
    settings: Settings | None = None,
    *,
    home: str | Path | None = None,
    clock: Clock = now_ms,
    new_id: NewId = new_id,
) -> Teams:
    """Open the teams of a home. Nothing is read yet; close them when you are done.

    Without a home or settings, it is the home that the command line would use.
    """
    store = open_store(settings or settings_for(home))
    return Teams(store, clock=clock, new_id=new_id)


def open_store(settings: Settings) -> Store:
    """Open the store of the settings. Nothing is read or connected yet; close it when done.

    Raises:
        Invalid: the settings do not name a store.
        Unavailable: a library for it is not installed.
    """
    return open_store_at(settings.store or f"{FILES}{settings.home}", settings)


def open_store_at(url: str, settings: Settings) -> Store:
    """Open a store by its URL, with the credentials for it. Raises as `open_store`."""
    if url.startswith(FILES) and url != FILES:
        return FileStore(home_path(url.removeprefix(FILES), {}))
    if url.startswith(THROUGH_HOST) and url != THROUGH_HOST:
        path = url.removeprefix(THROUGH_HOST)
        return HostedStore(path, settings.host_token or operator_token(path))
    if not is_nats(url):
        raise Invalid(
            f"{url!r} is not a store.",
            remedy="Use nats://HOST:4222, tls://HOST:4222, host:SOCKET or files:DIR.",
        )
    try:
        from bullpen.store.nats.client.connection import Endpoint
        from bullpen.store.nats.store import NatsStore
    except ImportError as error:
        raise Unavailable(
            f"Teams on NATS need a library that is not installed ({error.name}).",
            remedy="Install it: pip install 'bullpen[nats]'",
        ) from None
    endpoint = Endpoint.parse(url, creds=credentials_for(url, settings), ca=settings.ca)
    return NatsStore(endpoint, host=host_name())


def is_nats(url: str | None) -> bool:
    """Return whether a store is on NATS servers."""
    return (url or "").startswith(("nats://", "tls://"))


async def resolve_team(teams: Teams, settings: Settings) -> str:
    """Return the team that was named, or the only one.

    Raises:
        NotFound: none was named and there is none.
        Refused: none was named and there are several (several_teams).
    """
    if settings.team is not None:
        return settings.team
    names = await teams.names()
    if not names:
        raise NotFound(
            f"There is no team in {place_of(settings)}.",
            remedy="Create one: bullpen team create NAME",
        )
    if len(names) > 1:
        raise Refused(
            f"{place_of(settings)} has several teams: {listed(names)}.",
            reason="several_teams",
            remedy=f"Choose one with --team NAME, or set {TEAM}.",
        )
    return names[0]


def open_hosts(store: Store, settings: Settings) -> Hosts:
    """Return how to reach the machines of the teams in a store."""
    url, variables = settings.store or "", store_variables(settings)
    if url.startswith(THROUGH_HOST):
        assert isinstance(store, HostedStore)
        return ThroughHost(store, variables)
    if is_nats(url):
        from bullpen.agents.supervisor.machines.over_nats import NatsHosts
        from bullpen.store.nats.store import NatsStore

        assert isinstance(store, NatsStore)
        return NatsHosts(store.link, variables, home=settings.home)
    return OneMachine(variables)
