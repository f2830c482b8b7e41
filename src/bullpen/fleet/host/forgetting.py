"""Forgetting a host that will not come back."""

from __future__ import annotations

from bullpen.agents.hosts.over_nats import known_hosts, record_key
from bullpen.app import Settings
from bullpen.errors import NotFound, Refused, Unavailable
from bullpen.fleet.servers.connecting import linked
from bullpen.store.nats import wire
from bullpen.store.nats.wire import ApiError, NoAnswer


async def forget_host(settings: Settings, name: str) -> None:
    """Remove what a host said of itself.

    Raises:
        NotFound: there is no such host.
        Refused: it is there (host_alive).
    """
    async with linked(settings.store or "", creds=settings.creds, ca=settings.ca) as link:
        hosts = await known_hosts(link)
        found = next((host for host in hosts if host.record.name == name), None)
        if found is None:
            names = ", ".join(host.record.name for host in hosts) or "none"
            raise NotFound(f"There is no host {name!r}.", remedy=f"There are: {names}.")
        if found.beat is not None:
            raise Refused(
                f"Host {name!r} is alive.", reason="host_alive", remedy="Stop it there first."
            )
        try:
            await wire.replace(await link.client(), record_key(name), b"", timeout_s=5.0)
        except (NoAnswer, ApiError) as error:
            raise Unavailable(
                f"Host {name!r} could not be forgotten ({error}).",
                remedy="See `bullpen server status`.",
            ) from None
