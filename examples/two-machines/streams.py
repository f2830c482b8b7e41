"""Make what teams need on new NATS servers.

    python streams.py [COPIES [LOST_AFTER_S]]

The servers are those of BULLPEN_STORE; BULLPEN_CREDS names the credentials of an administrator.
A host is lost when nobody has heard of it for LOST_AFTER_S seconds.
"""

from __future__ import annotations

import asyncio
import os
import sys

from bullpen.fleet.servers.connecting import connected
from bullpen.store.nats.streams import prepare


async def main(copies: int = 1, lost_after_s: int = 30) -> None:
    """Make the streams, each in so many copies."""
    env = os.environ
    store, creds, ca = (env.get(f"BULLPEN_{name}") for name in ("STORE", "CREDS", "CA"))
    async with connected(store or "nats://127.0.0.1:4222", creds=creds, ca=ca) as client:
        await prepare(client, replicas=copies, beats_ttl_s=lost_after_s)


if __name__ == "__main__":
    asyncio.run(main(*map(int, sys.argv[1:3])))
