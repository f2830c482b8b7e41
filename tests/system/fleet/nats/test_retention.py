"""Old history on NATS goes when a team's settings say so, and nothing that is needed goes."""

from __future__ import annotations

import gzip
import json
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from bullpen.fleet.servers.server_process import Cluster
from bullpen.protocol.names import LEAD
from bullpen.protocol.team import Retention, Unattended
from bullpen.store.contract import StoreLimits
from bullpen.store.events.checkpoint import BEGIN
from bullpen.store.events.fold import fold
from bullpen.store.nats.client import api_requests
from bullpen.store.nats.client.api_requests import api
from bullpen.store.nats.log.history import LogHistory
from bullpen.store.nats.log.retention import HistoryTrim
from bullpen.store.nats.mail import archived_ids
from bullpen.store.nats.store import NatsStore
from bullpen.team.team import Team, Teams
from support.crews import new_team
from support.store.nats_parts import endpoint_of, servers


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with servers(1) as cluster:
        yield cluster


def open_store(cluster: Cluster) -> NatsStore:
    return NatsStore(endpoint_of(cluster), events_kept=8)


async def keep(team: Team, **rule: object) -> None:
    await team.origins.work_by(Unattended.parse({}), retention=Retention.new(**rule), by=LEAD)


async def blocks(store: NatsStore, team: Team) -> int:
    """How many blocks of history a team has on the server."""
    address = store._logs[team.name].address
    ask = {"subjects_filter": address.history}
    client = await store.link.client()
    found = await api(client, f"STREAM.INFO.{address.stream}", ask, timeout_s=5)
    return sum((found["state"].get("subjects") or {}).values())


async def work(team: Team, count: int) -> None:
    for number in range(count):
        # Blocks are compressed, and this text cannot be.
        text = secrets.token_urlsafe(400)
        task = await team.tasks.add(f"T{number}", description=text, by=LEAD)
        await team.tasks.delete(task.id, by=LEAD)


async def is_whole(cluster: Cluster, team: Team) -> None:
    """A fresh process finds a log that gives the team, and all mail."""
    store = open_store(cluster)
    async with Teams(store) as teams:
        found = teams.open(team.name)
        events = await found.events()
        replayed, state = fold(events), await store.read(team.name)
        assert replayed.tasks == {key: task.raw for key, task in state.tasks.items()}
        assert [event.seq for event in events] == list(range(events[0].seq, state.seq + 1))
        assert await found.events(after=state.seq - 2) == events[-2:]
        (entry,) = (await found.mailbox.read("ann")).entries
        assert entry.message.text == "Keep me"
        assert await store.checkup(team.name, fix=False) == []


@pytest.mark.parametrize("rule", [{"keep_mb": 0.02}, {"keep_days": 1e-6}])
async def test_the_log_begins_later_and_still_gives_the_team(
    cluster: Cluster, tmp_path: Path, rule: dict[str, float]
) -> None:
    store = open_store(cluster)
    async with Teams(store) as teams:
        team = await new_team(teams, f"cut-{next(iter(rule)).replace('_', '-')}")
        await team.roster.join("ann", by=LEAD)
        await team.mailbox.send("ann", "Keep me", sender=LEAD)
        await team.tasks.add("Stays", by=LEAD)
        await work(team, 60)
        before, everything = await blocks(store, team), await team.events()
        assert everything[0].seq == 1
        await keep(team, **rule, export=str(tmp_path / "old"))
        await work(team, 60)
        events = await team.events()
        assert events[0].op == BEGIN
        assert events[0].seq > everything[len(everything) // 2].seq
        assert await blocks(store, team) < before
        await is_whole(cluster, team)
        # What was removed is in the files, without a gap up to where the log begins.
        lines = [
            json.loads(line)
            for path in sorted((tmp_path / "old").iterdir())
            for line in gzip.decompress(path.read_bytes()).splitlines()
        ]
        exported = [line["seq"] for line in lines if line["op"] != BEGIN]
        assert exported == list(range(1, events[0].seq + 1))
        # Ids of removed tasks are not used again.
        task = await team.tasks.add("Next", by=LEAD)
        assert int(task.id) > 120
        await team.tasks.delete(task.id, by=LEAD)


class Killed(Exception):
    """The process ends here."""


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(
    "step", ["the beginning", "the snapshot", "the blocks", "earlier beginnings"]
)
async def test_whoever_is_killed_at_any_step_leaves_a_whole_log(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, step: str, after: bool
) -> None:
    steps = ["the beginning", "the snapshot", "the blocks", "earlier beginnings"]
    asked: list[str] = []
    begun: list[bool] = []
    really_ask, really_store = api_requests.request, HistoryTrim._store

    async def ask(nc: Client, subject: str, *args: Any, **options: Any) -> Msg:
        if not begun:
            return await really_ask(nc, subject, *args, **options)
        asked.append(subject)
        dies = len(asked) == steps.index(step) + 1
        if dies and not after:
            raise Killed
        answer = await really_ask(nc, subject, *args, **options)
        if dies:
            raise Killed
        return answer

    async def store_beginning(self: HistoryTrim, *args: Any) -> int:
        begun.append(True)
        return await really_store(self, *args)

    store = open_store(cluster)
    async with Teams(store) as teams:
        name = f"killed-{steps.index(step)}-{'after' if after else 'before'}"
        team = await new_team(teams, name)
        await team.roster.join("ann", by=LEAD)
        await team.mailbox.send("ann", "Keep me", sender=LEAD)
        await work(team, 40)
        await keep(team, keep_mb=0.005)
        with monkeypatch.context() as patch:
            patch.setattr(api_requests, "request", ask)
            patch.setattr(HistoryTrim, "_store", store_beginning)
            with pytest.raises(Killed):
                await work(team, 40)
        assert ("PURGE" in asked[-1]) == (steps.index(step) >= 2)
        await is_whole(cluster, team)
    async with Teams(open_store(cluster)) as teams:
        again = teams.open(name)
        await work(again, 40)
        assert (await again.events())[0].op == BEGIN
        await is_whole(cluster, again)


async def test_without_settings_everything_is_kept(cluster: Cluster) -> None:
    async with Teams(open_store(cluster)) as teams:
        team = await new_team(teams, "whole")
        await work(team, 40)
        assert [event.seq for event in await team.events()][:2] == [1, 2]


async def test_what_cannot_be_exported_is_not_removed(cluster: Cluster, tmp_path: Path) -> None:
    store = open_store(cluster)
    (tmp_path / "file").write_text("in the way")
    async with Teams(store) as teams:
        team = await new_team(teams, "unexported")
        await keep(team, keep_mb=0.001, export=str(tmp_path / "file" / "old"))
        await work(team, 40)
        assert (await team.events())[0].seq == 1


async def test_a_log_that_begins_later_can_be_restored(cluster: Cluster) -> None:
    store = open_store(cluster)
    async with Teams(store) as teams:
        team = await new_team(teams, "origin")
        await team.roster.join("ann", by=LEAD)
        await team.mailbox.send("ann", "Keep me", sender=LEAD)
        await keep(team, keep_mb=0.01)
        await work(team, 60)
        events = await team.events()
        assert events[0].op == BEGIN
        await store.delete(team.name, actor=LEAD)
        await store.restore(team.name, events)
        assert await team.events() == events
        await work(team, 2)
        await is_whole(cluster, team)


async def test_archived_mail_goes_with_the_events_that_brought_it(cluster: Cluster) -> None:
    limits = StoreLimits(seen_kept=2)
    store = NatsStore(endpoint_of(cluster), events_kept=8, limits=limits)
    async with Teams(store) as teams:
        team = await new_team(teams, "archive")
        await team.roster.join("ann", by=LEAD)
        await keep(team, keep_mb=0.004)
        for number in range(60):
            sent = await team.mailbox.send("ann", f"{number} {'x' * 400}", sender=LEAD)
            await store.acknowledge(team.name, "ann", [sent.id], "seen", actor="ann")
        assert (await team.events())[0].op == BEGIN
        log = store._logs[team.name]
        known = await archived_ids(log, "ann")
        assert log.kept.archived["ann"] == len(known) < 55
        inbox = (await team.mailbox.read("ann")).entries
        assert inbox[-1].message.text.startswith("59 ")
        whole = await store.mailbox(team.name, "ann", history=True)
        assert [entry.message.text.split()[0] for entry in whole.entries] == [
            str(number) for number in range(60 - len(whole.entries), 60)
        ]
        assert len(whole.entries) == len(known) + len(inbox)


async def test_a_screen_does_not_read_a_long_history(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bullpen.store.nats.store.RECENT_EVENTS", 20)
    store = open_store(cluster)
    async with Teams(store) as teams:
        team = await new_team(teams, "long")
        await team.roster.join("ann", by=LEAD)
        await team.mailbox.send("ann", "Keep me", sender=LEAD)
        await work(team, 60)
        whole, read = await team.events(), list[int]()
        rows = LogHistory._rows

        async def counted(self: LogHistory, wanted: Any, subject: str) -> Any:
            read.append(len(wanted))
            return await rows(self, wanted, subject)

        monkeypatch.setattr(LogHistory, "_rows", counted)
        events = await team.recent_events()
        assert len(events) == 21 and events[0].op == BEGIN and sum(read) < await blocks(store, team)
        assert fold(events).tasks == fold(whole).tasks and fold(events).mail == fold(whole).mail
        assert fold(events).members == fold(whole).members
