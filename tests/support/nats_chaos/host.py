"""One host of a chaos run: a store and eight writers. Run as a program, and killed as one."""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import uuid
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from bullpen.agents.runner.desk import RunnerDesk
from bullpen.agents.system.transcript import Transcript
from bullpen.errors import Refused, Unavailable
from bullpen.fleet.servers.server_process import until
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.changes import Change, PutTeam
from bullpen.protocol.clock import iso, now_ms
from bullpen.protocol.message import Message
from bullpen.protocol.names import LEAD
from bullpen.store.contract import StoreLimits, View
from bullpen.store.nats.client.connection import Endpoint
from bullpen.team.tasks.drafts import Draft
from bullpen.team.team import Team
from support.nats_chaos.diary import (
    POST,
    SHARED,
    Diary,
    NotedStore,
    notes_in,
    own_team,
    portrait,
    reader_of,
    teams_of,
    worker_of,
)

EVENTS_KEPT = 24
SEEN_KEPT = 20
_TASKS_AT_ONCE = 25
_ORPHANED = 3
_PATIENCE_S = 300.0


@dataclass(frozen=True, slots=True)
class Orders:
    """What a host is started with."""

    folder: str
    servers: tuple[str, ...]
    host: int
    hosts: int
    life: int
    pace_s: float


class Host:
    """The writers of one process, and what they share."""

    def __init__(self, orders: Orders) -> None:
        self.orders = orders
        self.folder = Path(orders.folder)
        self.name = f"{orders.host}.{orders.life}"
        self.diary = Diary(self.folder / f"{self.name}.diary")
        self.store = NotedStore(
            Endpoint(orders.servers),
            limits=StoreLimits(seen_kept=SEEN_KEPT),
            host=f"host-{orders.host}",
            events_kept=EVENTS_KEPT,
        )
        self.store.diary = self.diary
        self.chance = random.Random(self.name)
        self._parent = os.getppid()

    def told_to(self, ending: str) -> bool:
        if os.getppid() != self._parent:
            os._exit(_ORPHANED)
        return (self.folder / ending).exists()

    async def _settles(self) -> bool:
        return self.told_to("settle")

    def report(self, ending: str) -> None:
        (self.folder / f"{self.orders.host}.{ending}").touch()

    async def again(self, act: Callable[[], Awaitable[None]]) -> None:
        """Do something over and over until the end; what the store cannot do now, later."""
        while not self.told_to("stop"):
            try:
                await act()
            except Unavailable as error:
                self.diary.note("unavailable", why=error.message)
            await asyncio.sleep(self.orders.pace_s * self.chance.uniform(0.5, 1.5))

    # What the writers do

    def claimer(self, number: int) -> Callable[[], Awaitable[None]]:
        me, tasks = worker_of(self.orders.host, number), Team(self.store, SHARED).tasks

        async def act() -> None:
            mine = [
                task
                for task in (await tasks.list()).tasks
                if task.owner == me and task.status == "in_progress"
            ]
            # Of an earlier life, or of a claim whose answer never came.
            for task in mine:
                await tasks.done(task.id, by=me, attempt=task.facts.attempt)
                await tasks.delete(task.id, by=me)
            try:
                claimed = await tasks.claim_next(by=me)
            except Refused as refused:
                self.diary.note("refused", reason=refused.reason)
                return
            if claimed is None:
                drafts = [Draft(subject=f"of {me}") for _ in range(_TASKS_AT_ONCE)]
                await tasks.add_many(drafts, by=me)
                return
            attempt = claimed.facts.attempt
            self.diary.note("claimed", team=SHARED, task=claimed.id, by=me, attempt=attempt)
            await tasks.done(claimed.id, by=me, attempt=attempt)
            await tasks.delete(claimed.id, by=me)

        return act

    def sender(
        self, number: int, places: Sequence[tuple[str, str]]
    ) -> Callable[[], Awaitable[None]]:
        me, count = f"{self.name}.{number}", 0

        async def act() -> None:
            nonlocal count
            count += 1
            team, to = places[count % len(places)]
            message = Message.new(
                sender=worker_of(self.orders.host, number % 2),
                text=f"{me} {count}",
                timestamp=iso(now_ms()),
                msg_v=1,
                msg_id=str(uuid.uuid4()),
                type="message",
                read=False,
            )
            await self._send(team, to, message)

        return act

    async def _send(self, team: str, to: str, message: Message) -> None:
        """Send until it is known to be stored: with its id, as often as that takes."""
        fresh = True
        while True:
            try:
                await self.store.append(team, to, message, actor=message.sender, fresh=fresh)
            except Unavailable as error:
                self.diary.note("unavailable", why=error.message)
                fresh = False
                await asyncio.sleep(0.1)
                continue
            self.diary.note("sent", team=team, to=to, id=message.id, text=message.text)
            return

    def committer(self) -> Callable[[], Awaitable[None]]:
        count = 0

        async def act() -> None:
            nonlocal count
            count += 1
            team = SHARED if count % 4 == 0 else own_team(self.orders.host)

            def add_one(view: View) -> Sequence[Change]:
                return [PutTeam({"count": int(view.team.header.get("count", 0)) + 1})]

            await self.store.commit(team, add_one, actor=LEAD, op=f"count.{self.name}.{count}")

        return act

    # The reader

    def desk(self, team: str, given: set[str]) -> RunnerDesk:
        name = reader_of(self.orders.host)
        folder = self.folder / f"{name}-{team}"
        folder.mkdir(exist_ok=True)
        return RunnerDesk(
            Team(self.store, team),
            name,
            AgentSpec.new(driver="scripted", backend="in-process", cwd=str(folder)),
            nonce="",
            folder=folder,
            env={"BULLPEN_HOME": str(folder)},
            transcript=Transcript(folder),
            colleagues=None,
            now=now_ms,
            remembers=given.__contains__,
        )

    async def read(self, team: str) -> None:
        """Take mail as a runner does, with what an earlier life was given as memory."""
        name = reader_of(self.orders.host)
        earlier = notes_in(self.folder, f"{self.orders.host}.*.diary")
        given = {
            key
            for note in earlier
            if note["kind"] == "injected" and note["team"] == team
            for key in note["ids"]
        }
        desk = self.desk(team, given)
        while True:
            try:
                async with aclosing(self.store.watch(team, agent=name, every_s=0.5)) as changes:
                    async for _ in changes:
                        took = await self._take(desk, team, given)
                        if not took and self.told_to("drain"):
                            return
            except Unavailable as error:
                self.diary.note("unavailable", why=error.message)
                # As after a turn that failed: what was given and not seen comes again.
                desk.turn_over()
                await asyncio.sleep(0.1)

    async def _take(self, desk: RunnerDesk, team: str, given: set[str]) -> bool:
        mail = await desk.inject(await desk.unread())
        if mail is None:
            return bool((await self.store.mailbox(team, desk.agent)).problems)
        self.diary.note("injected", team=team, agent=desk.agent, ids=list(mail.ids))
        given.update(mail.ids)
        await desk.seen(mail.ids)
        return True

    # From start to end

    async def run(self) -> None:
        here, hosts = self.orders.host, self.orders.hosts
        near = [(own_team(each % hosts), reader_of(each % hosts)) for each in (here, here + 1)]
        far = [(POST, reader_of(each)) for each in range(hosts)]
        writers = [
            self.claimer(0),
            self.claimer(1),
            self.sender(2, near),
            self.sender(3, near),
            self.sender(4, far),
            self.committer(),
        ]
        readers = [asyncio.create_task(self.read(team)) for team in (own_team(here), POST)]
        await asyncio.gather(*map(self.again, writers))
        self.report("stop")
        await asyncio.gather(*readers)
        self.report("drain")
        assert await until(self._settles, _PATIENCE_S)
        state = {team: await portrait(self.store, team) for team in teams_of(hosts)}
        (self.folder / f"{here}.state").write_text(json.dumps(state), encoding="utf-8")
        self.report("settle")
        await self.store.aclose()


if __name__ == "__main__":
    raw = json.loads(sys.argv[1])
    asyncio.run(Host(Orders(**{**raw, "servers": tuple(raw["servers"])})).run())
