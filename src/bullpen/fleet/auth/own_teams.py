"""Gives the teams that keys are bound to streams of their own."""

from __future__ import annotations

import tempfile
from pathlib import Path

from bullpen.fleet.auth import private_files
from bullpen.fleet.auth.vault import Vault
from bullpen.fleet.servers.connect import linked
from bullpen.store.nats.client import streams
from bullpen.store.nats.relocate import relocate

_VISIT_S = 600


async def give_own_streams(vault: Vault, url: str, *, ca: str | None = None) -> list[str]:
    """Create what bound keys of all tenants need. Returns the teams that wait for it.

    A team that is in a shared stream is moved, while its members work. Teams wait if the streams of
    their tenant were not prepared yet. Raises Unavailable.
    """
    waiting = []
    for name in vault.tenants():
        own = vault.tenant(name).own
        if not own:
            continue
        with tempfile.TemporaryDirectory(prefix="bullpen-") as folder:
            creds = Path(folder) / "visitor.creds"
            private_files.write(creds, vault.visitor(name, lasts_s=_VISIT_S))
            async with linked(url, creds=str(creds), ca=ca) as link:
                for team, partition in own.items():
                    if await streams.give_own(await link.client(), team, partition):
                        await relocate(link, team, partition)
                    else:
                        waiting.append(team)
    return waiting
