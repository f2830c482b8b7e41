"""Opens stores that are not files of this machine, and reaches the machines of their teams."""

from __future__ import annotations

from bullpen.agents.contracts.installed_parts import find_part, installed_parts
from bullpen.agents.contracts.machines import Hosts, OneMachine
from bullpen.agents.supervisor.machines.through_host import ThroughHost
from bullpen.agents.system.processes import host_name
from bullpen.app.server_keys import credentials_for
from bullpen.app.settings import Settings, store_variables
from bullpen.app.stores import SCHEMES, is_nats
from bullpen.errors import BullpenError, Invalid, Unavailable
from bullpen.store.contract import Store
from bullpen.store.hosted.client import HostedStore
from bullpen.store.hosted.socket import operator_token

THROUGH_HOST = "host:"


def open_remote(url: str, settings: Settings) -> Store:
    """Open the store of a host process or of NATS servers. Raises as `open_store`."""
    if url.startswith(THROUGH_HOST) and url != THROUGH_HOST:
        path = url.removeprefix(THROUGH_HOST)
        return HostedStore(path, settings.host_token or operator_token(path))
    if not is_nats(url):
        return _open_package_store(url)
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


def _open_package_store(url: str) -> Store:
    """Open the store of a package, which is named by the scheme of the URL."""
    scheme, colon, _ = url.partition(":")
    part = find_part("store", scheme, SCHEMES) if colon else None
    if part is None:
        known = "".join(f", {each.name}:..." for each in installed_parts("store"))
        raise Invalid(
            f"{url!r} is not a store.",
            remedy=f"Use nats://HOST:4222, tls://HOST:4222, host:SOCKET{known} or files:DIR.",
        )
    make = part.load()
    try:
        opened: Store = make(url)
    except BullpenError:
        raise
    except Exception as error:
        raise part.broken(f"{type(error).__name__}: {error}") from error
    if not callable(getattr(opened, "commit", None)):
        raise part.broken("it is not a store")
    return opened


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
