"""A host that does what it is told line by line: for a network where its teller is not."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from bullpen.errors import BullpenError
from bullpen.protocol.changes import PutTask
from bullpen.protocol.names import LEAD
from bullpen.store.contract import StoreLimits
from bullpen.store.nats.client.connection import Endpoint
from bullpen.store.nats.client.streams import prepare
from bullpen.store.nats.store import NatsStore
from bullpen.testing.sample_records import config, message, put, task
from support.nats_chaos.diary import portrait

TEAM = "alpha"
DEADLINE_S = 8.0

Answer = dict[str, Any]


class Outpost:
    """The store of one host, and what can be asked of it."""

    def __init__(self, servers: tuple[str, ...]) -> None:
        limits = StoreLimits(lock_wait_s=DEADLINE_S)
        self._store = NatsStore(Endpoint(servers), limits=limits, events_kept=8)

    async def prepare(self, what: str) -> Answer:
        await prepare(await self._store.link.client(), partitions=1, replicas=3)
        await self._store.create(TEAM, config(TEAM), actor=LEAD)
        return {}

    async def commit(self, what: str) -> Answer:
        committed = await put(self._store, PutTask(task(what)), team=TEAM, op=f"put.{what}")
        return {"seq": committed.seq}

    async def send(self, what: str) -> Answer:
        stored = await self._store.append(TEAM, "ann", message(what), actor=LEAD, fresh=True)
        return {"seq": stored.seq}

    async def read(self, what: str) -> Answer:
        state = await self._store.read(TEAM)
        said = [f"{problem.where}: {problem.why}" for problem in state.problems]
        return {"seq": state.seq, "tasks": list(state.tasks), "problems": said}

    async def leader(self, what: str) -> Answer:
        client = await self._store.link.client()
        answer = await client.request("$JS.API.STREAM.INFO.TEAM_00", b"", timeout=5)
        return {"leader": json.loads(answer.data)["cluster"].get("leader")}

    async def portray(self, what: str) -> Answer:
        events = await self._store.events(TEAM)
        return {"portrait": await portrait(self._store, TEAM), "ops": [each.op for each in events]}

    async def serve(self) -> None:
        acts: dict[str, Callable[[str], Awaitable[Answer]]] = {
            name: getattr(self, name)
            for name in ("prepare", "commit", "send", "read", "leader", "portray")
        }
        loop = asyncio.get_running_loop()
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            name, what = json.loads(line)
            began = time.monotonic()
            try:
                answer = await acts[name](what)
            except BullpenError as error:
                answer = {"error": type(error).__name__, "why": error.message}
            took = time.monotonic() - began
            print(json.dumps({**answer, "took": took, "at": began}), flush=True)
        await self._store.aclose()


if __name__ == "__main__":
    asyncio.run(Outpost(tuple(sys.argv[1:])).serve())
