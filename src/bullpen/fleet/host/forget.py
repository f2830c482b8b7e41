"""Removes the record of a host that will not come back."""

from __future__ import annotations

from bullpen.agents.supervisor.machines.over_nats import known_hosts, record_key
from bullpen.app.server_keys import credentials_for
from bullpen.app.settings import Settings
from bullpen.errors import NotFound, Refused
from bullpen.fleet.servers.connect import linked
from bullpen.store.nats.client import api_requests
from bullpen.store.nats.client.api_requests import unavailable_if_unanswered


async def forget_host(settings: Settings, name: str) -> None:
    """Remove the record of a host. Raises NotFound, or Refused if it is running (host_alive)."""
    url = settings.store or ""
    async with linked(url, creds=credentials_for(url, settings), ca=settings.ca) as link:
        hosts = await known_hosts(link)
        found = next((host for host in hosts if host.record.name == name), None)
        if found is None:
            names = ", ".join(host.record.name for host in hosts) or "none"
            raise NotFound(f"There is no host {name!r}.", remedy=f"Available hosts: {names}.")
        if found.beat is not None:
            raise Refused(
                f"Host {name!r} is running.", reason="host_alive", remedy="Stop it first."
            )
        with unavailable_if_unanswered(f"The record of host {name!r} could not be removed"):
            await api_requests.replace(await link.client(), record_key(name), b"", timeout_s=5.0)
