"""What each role is refused, with real keys at a real server; beside it, the like that it may do.

A refusal counts if the server says it, nothing changed, and the same key can do what it should.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from support.fleet.auth_stage import FOREIGN, OWN, Act, Caller, Stage, staged, state


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with staged(tmp_path_factory.mktemp("auth")) as made:
        yield made


# What may be done


def asks(subject: str, body: object = b"") -> Act:
    """Ask something, and get an answer that is no error."""

    async def act(caller: Caller) -> None:
        answer = await caller.ask(subject, body)
        assert b'"error"' not in answer.data, answer.data
        assert "Status" not in (answer.headers or {}), answer.headers

    return act


def stores(subject: str) -> Act:
    """Store something."""

    async def act(caller: Caller) -> None:
        await caller.stored(subject)

    return act


def replaces(subject: str) -> Act:
    """Store something in the place of what is there."""

    async def act(caller: Caller) -> None:
        await caller.stored(subject, Nats_Rollup="sub")

    return act


def hears(subject: str) -> Act:
    """Subscribe without a complaint."""

    async def act(caller: Caller) -> None:
        await caller.nc.subscribe(subject)
        await caller.nc.flush()
        assert caller.complaints == []

    return act


def sends(subject: str) -> Act:
    """Publish without a complaint."""

    async def act(caller: Caller) -> None:
        await caller.nc.publish(subject, b"x")
        await caller.nc.flush()
        assert caller.complaints == []

    return act


def reads_batches(subject: str, stream: str = "TEAM_00") -> Act:
    """Read many messages by one request."""

    async def act(caller: Caller) -> None:
        rows = await caller.batch(stream, {"seq": 1, "next_by_subj": subject, "batch": 9})
        assert rows

    return act


def takes_work() -> Act:
    """Take a request to spawn."""

    async def act(caller: Caller) -> None:
        await caller.stored("took.any.n1")

    return act


def consumer(call: str, filtered: str | list[str] | None, **config: object) -> tuple[str, object]:
    """A request for a consumer that delivers to the guest."""
    wanted: dict[str, object] = {
        "deliver_subject": "_INBOX_guest.d",
        "ack_policy": "none",
        "mem_storage": True,
        "inactive_threshold": 600_000_000_000,
        **config,
    }
    if isinstance(filtered, list):
        wanted["filter_subjects"] = filtered
    elif filtered is not None:
        wanted["filter_subject"] = filtered
    return f"$JS.API.CONSUMER.{call}", {"stream_name": "TEAM_00", "config": wanted}


own_batch = reads_batches(f"{OWN}.>", "TEAM_100")
own_last = asks(f"$JS.API.DIRECT.GET.TEAM_100.{OWN}.log")
own_news = hears("w.100.alpha.>")


@dataclass(frozen=True)
class Row:
    """Something that a key may not do, and something like it that it may."""

    who: str
    title: str
    subject: str
    allowed: Act
    body: object = b""
    rollup: bool = False
    listens: bool = False


GUEST = [
    Row("guest", "append to a foreign log", f"{FOREIGN}.log", stores(f"{OWN}.log")),
    Row("guest", "append to its other team's twin", "t.00.beta.u.log",
        stores("t.101._42eta_21.u.log")),
    Row("guest", "roll a foreign log up", f"{FOREIGN}.log", replaces(f"{OWN}.sync"), rollup=True),
    Row("guest", "write foreign history", f"{FOREIGN}.h.2", stores(f"{OWN}.h.2")),
    Row("guest", "write a foreign barrier", f"{FOREIGN}.sync", stores(f"{OWN}.sync")),
    Row("guest", "forge news", "w.00.alpha.u1.log", own_news),
    Row("guest", "read the last of a foreign log", f"$JS.API.DIRECT.GET.TEAM_00.{FOREIGN}.log",
        own_last),
    Row("guest", "read foreign history", f"$JS.API.DIRECT.GET.TEAM_00.{FOREIGN}.h.1",
        asks(f"$JS.API.DIRECT.GET.TEAM_100.{OWN}.h.1")),
    Row("guest", "read whatever log was last", "$JS.API.DIRECT.GET.TEAM_00.t.00.*.*.log", own_last),
    Row("guest", "read batches", "$JS.API.DIRECT.GET.TEAM_00", own_batch,
        {"seq": 1, "next_by_subj": f"{FOREIGN}.>", "batch": 9}),
    Row("guest", "read the last of many", "$JS.API.DIRECT.GET.TEAM_00", own_batch,
        {"multi_last": [f"{FOREIGN}.>"]}),
    Row("guest", "read by sequence", "$JS.API.STREAM.MSG.GET.TEAM_00", own_last, {"seq": 4}),
    Row("guest", "consume a foreign log", consumer(f"CREATE.TEAM_00.c1.{FOREIGN}.log", None)[0],
        own_batch, consumer("", f"{FOREIGN}.log", name="c1")[1]),
    Row("guest", "consume everything", "$JS.API.CONSUMER.CREATE.TEAM_00.c2", own_batch,
        consumer("", None, name="c2")[1]),
    Row("guest", "consume everything without a name", "$JS.API.CONSUMER.CREATE.TEAM_00",
        own_batch, consumer("", None)[1]),
    Row("guest", "consume for good", "$JS.API.CONSUMER.DURABLE.CREATE.TEAM_00.c3", own_batch,
        consumer("", f"{FOREIGN}.log", durable_name="c3")[1]),
    Row("guest", "take what another's consumer has", "$JS.API.CONSUMER.MSG.NEXT.TEAM_00.x",
        own_batch),
    Row("guest", "hear foreign news", "w.00.gamma.>", own_news, listens=True),
    Row("guest", "hear all news", "w.>", own_news, listens=True),
    Row("guest", "hear all news of a partition", "w.00.>", own_news, listens=True),
    Row("guest", "hear what is appended", "t.>", own_news, listens=True),
    Row("guest", "hear everything", ">", own_news, listens=True),
    Row("guest", "hear everybody's answers", "_INBOX.>", hears("_INBOX_guest.x"), listens=True),
    Row("guest", "hear another's answers", "_INBOX_other.>", hears("_INBOX_guest.x"), listens=True),
    Row("guest", "hear requests to spawn", "ws.>", own_news, listens=True),
    Row("guest", "hear orders to another host", "wo.ctl.other.*.*",
        hears("wo.ctl.guest.*.*"), listens=True),
    Row("guest", "hear the system", "$SYS.>", own_news, listens=True),
    Row("guest", "answer in another's name", "_INBOX_other.x", own_last),
    Row("guest", "learn the names of foreign teams", "$JS.API.STREAM.INFO.TEAM_00",
        asks("$JS.API.DIRECT.GET.KV_TEAMS.$KV.TEAMS.cell"), {"subjects_filter": ">"}),
    Row("guest", "list streams", "$JS.API.STREAM.LIST", own_last),
    Row("guest", "read a foreign entry of the directory",
        "$JS.API.DIRECT.GET.KV_TEAMS.$KV.TEAMS.team.gamma",
        asks("$JS.API.DIRECT.GET.KV_TEAMS.$KV.TEAMS.team.alpha")),
    Row("guest", "change a foreign entry of the directory", "$KV.TEAMS.team.gamma",
        stores("$KV.TEAMS.team.alpha")),
    Row("guest", "change the cell", "$KV.TEAMS.cell", stores("$KV.TEAMS.team.alpha")),
    Row("guest", "be present as another host", "q.100.alpha.u.other.s1",
        stores("q.100.alpha.u.guest.s1")),
    Row("guest", "be present in a foreign team", "p.gamma.u.guest.s1",
        stores("q.100.alpha.u.guest.s1")),
    Row("guest", "see who is present elsewhere", "$JS.API.DIRECT.GET.PRES.p.gamma.u.other.s1",
        asks("$JS.API.DIRECT.GET.PRES_100.q.100.alpha.u.other.s1")),
    Row("guest", "speak of another host", "$KV.HOSTS.host.other", stores("$KV.HOSTS.host.guest")),
    Row("guest", "beat for another host", "$KV.BEATS.host.other", stores("$KV.BEATS.host.guest")),
    Row("guest", "ask for an agent", "start.any.x", stores(f"{OWN}.log")),
    Row("guest", "take requests to spawn", "took.any.n1",
        stores("$KV.BEATS.host.guest")),
    Row("guest", "order another host about", "o.ctl.other.guest.s1",
        stores("$KV.BEATS.host.guest")),
    Row("guest", "ask the system", "$SYS.REQ.SERVER.PING", own_last),
    Row("guest", "purge", "$JS.API.STREAM.PURGE.TEAM_00", stores(f"{OWN}.log")),
    Row("guest", "delete a stream", "$JS.API.STREAM.DELETE.TEAM_00", stores(f"{OWN}.log")),
    Row("guest", "make a stream", "$JS.API.STREAM.CREATE.EVIL", stores(f"{OWN}.log"),
        {"name": "EVIL", "subjects": ["evil.>"]}),
    Row("guest", "delete a message", "$JS.API.STREAM.MSG.DELETE.TEAM_00", own_last, {"seq": 1}),
    Row("guest", "copy a stream", "$JS.API.STREAM.SNAPSHOT.TEAM_00", own_last,
        {"deliver_subject": "_INBOX_guest.s"}),
]  # fmt: skip

MACHINE = [
    Row("machine", "purge", "$JS.API.STREAM.PURGE.TEAM_00", stores(f"{FOREIGN}.log")),
    Row("machine", "delete a stream", "$JS.API.STREAM.DELETE.TEAM_00",
        asks("$JS.API.STREAM.INFO.TEAM_00")),
    Row("machine", "change a stream", "$JS.API.STREAM.UPDATE.STARTS",
        asks("$JS.API.STREAM.INFO.STARTS"),
        {"name": "STARTS", "subjects": ["evil.>"]}),
    Row("machine", "make a stream", "$JS.API.STREAM.CREATE.EVIL",
        asks("$JS.API.STREAM.INFO.STARTS"),
        {"name": "EVIL", "subjects": ["evil.>"]}),
    Row("machine", "restore a stream", "$JS.API.STREAM.RESTORE.EVIL", asks("$JS.API.INFO"), {}),
    Row("machine", "copy a stream", "$JS.API.STREAM.SNAPSHOT.TEAM_00",
        reads_batches(f"{FOREIGN}.>"),
        {"deliver_subject": "_INBOX_machine.s"}),
    Row("machine", "delete a message", "$JS.API.STREAM.MSG.DELETE.TEAM_00",
        asks("$JS.API.STREAM.MSG.GET.TEAM_00", {"seq": 1}), {"seq": 1}),
    Row("machine", "consume requests", "$JS.API.CONSUMER.CREATE.STARTS.x.start.x", takes_work()),
    Row("machine", "consume a team", f"$JS.API.CONSUMER.CREATE.TEAM_00.c4.{OWN}.log",
        reads_batches(f"{OWN}.>", "TEAM_100"), consumer("", f"{OWN}.log", name="c4")[1]),
    Row("machine", "speak of another host", "$KV.HOSTS.host.other",
        stores("$KV.HOSTS.host.machine")),
    Row("machine", "beat for another host", "$KV.BEATS.host.other",
        stores("$KV.BEATS.host.machine")),
    Row("machine", "be present as another host", "p.gamma.u.other.s1",
        stores("p.gamma.u.machine.s1")),
    Row("machine", "change the cell", "$KV.TEAMS.cell", stores("$KV.TEAMS.team.delta")),
    Row("machine", "hear orders to another host", "wo.ctl.other.*.*",
        hears("wo.ctl.machine.*.*"), listens=True),
    Row("machine", "hear all orders", "wo.ctl.>", hears("wo.ctl.machine.*.*"), listens=True),
    Row("machine", "hear another's answers", "_INBOX_other.>",
        hears("_INBOX_machine.x"), listens=True),
    Row("machine", "answer in another's name", "_INBOX_ann.x", stores("o.ctl.other.machine.s1")),
    Row("machine", "order a host about as another", "o.ctl.other.ann.s1",
        stores("o.ctl.other.machine.s1")),
    Row("machine", "ask the system", "$SYS.REQ.SERVER.PING", asks("$JS.API.INFO")),
]  # fmt: skip

PEOPLE = [
    Row("ann", "take requests to spawn", "took.any.n1",
        stores("start.any.a1")),
    Row("ann", "consume requests", "$JS.API.CONSUMER.CREATE.STARTS.x.start.x",
        stores("start.any.a1")),
    Row("ann", "say that work is done", "$JS.ACK.STARTS.x.1.1.1.1.1", stores("start.any.a1")),
    Row("ann", "speak of a host", "$KV.HOSTS.host.ann", stores("$KV.TEAMS.team.delta")),
    Row("ann", "beat for a host", "$KV.BEATS.host.machine", stores("p.gamma.u.ann.s1")),
    Row("ann", "hear orders to a host", "wo.ctl.machine.*.*",
        stores("o.ctl.machine.ann.s1"), listens=True),
    Row("ann", "hear orders in her own name", "wo.ctl.ann.*.*",
        stores("o.ctl.machine.ann.s1"), listens=True),
    Row("ann", "hear requests to spawn", "ws.>", hears("w.>"), listens=True),
    Row("ann", "purge", "$JS.API.STREAM.PURGE.TEAM_00", reads_batches(f"{FOREIGN}.>")),
    Row("ann", "hear another's answers", "_INBOX_bob.>", hears("_INBOX_ann.x"), listens=True),
    Row("bob", "append to a foreign log", f"{FOREIGN}.log", stores(f"{OWN}.log")),
    Row("bob", "read a foreign log", f"$JS.API.DIRECT.GET.TEAM_00.{FOREIGN}.log", own_last),
    Row("bob", "hear foreign news", "w.00.gamma.>", own_news, listens=True),
    Row("bob", "ask for an agent", "start.any.x", stores(f"{OWN}.log")),
    Row("bob", "order a host about", "o.ctl.machine.x.s1", stores(f"{OWN}.log")),
    Row("bob", "speak of a host", "$KV.HOSTS.host.bob", stores("q.100.alpha.u.bob.s1")),
]  # fmt: skip

READERS = [
    Row("wall", "append", f"{OWN}.log", own_last),
    Row("wall", "roll up", f"{OWN}.log", own_last, rollup=True),
    Row("wall", "write history", f"{OWN}.h.3", reads_batches(f"{OWN}.>", "TEAM_100")),
    Row("wall", "write a barrier", f"{OWN}.sync", reads_batches(f"{FOREIGN}.>")),
    Row("wall", "change the directory", "$KV.TEAMS.team.alpha",
        asks("$JS.API.DIRECT.GET.KV_TEAMS.$KV.TEAMS.team.alpha")),
    Row("wall", "be present", "p.alpha.u.wall.s1",
        asks("$JS.API.DIRECT.GET.PRES.p.alpha.u.other.s1")),
    Row("wall", "speak of a host", "$KV.HOSTS.host.wall",
        asks("$JS.API.DIRECT.GET.KV_HOSTS.$KV.HOSTS.host.other")),
    Row("wall", "beat for a host", "$KV.BEATS.host.machine", own_last),
    Row("wall", "ask for an agent", "start.any.x", own_last),
    Row("wall", "order a host about", "o.ctl.machine.x.s1", own_last),
    Row("wall", "consume", f"$JS.API.CONSUMER.CREATE.TEAM_00.c5.{OWN}.log", own_last,
        consumer("", f"{OWN}.log", name="c5")[1]),
    Row("wall", "purge", "$JS.API.STREAM.PURGE.TEAM_00", own_last),
    Row("wall", "hear what is appended", "t.>", hears("w.>"), listens=True),
    Row("pane", "append", f"{OWN}.log", own_last),
    Row("pane", "write a barrier", f"{OWN}.sync", own_last),
    Row("pane", "change the directory", "$KV.TEAMS.team.alpha", own_last),
    Row("pane", "be present", "p.alpha.u.pane.s1", own_last),
    Row("pane", "read a foreign log", f"$JS.API.DIRECT.GET.TEAM_00.{FOREIGN}.log", own_last),
    Row("pane", "hear foreign news", "w.00.gamma.>", own_news, listens=True),
]  # fmt: skip

ROWS = [*GUEST, *MACHINE, *PEOPLE, *READERS]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.who} may not {row.title}")
async def test_it_is_refused_and_changes_nothing(stage: Stage, row: Row) -> None:
    async with stage.connected("admin") as admin, stage.connected(row.who) as caller:
        await row.allowed(caller)
        before = await state(admin)

        if row.listens:
            await _hears_nothing(admin, caller, row.subject)
        else:
            await _says_nothing(caller, row)

        assert await state(admin) == before


async def _says_nothing(caller: Caller, row: Row) -> None:
    heard = await caller.nc.subscribe(answers := caller.nc.new_inbox())
    headers = {"Nats-Rollup": "sub"} if row.rollup else None
    body = row.body if isinstance(row.body, bytes) else json.dumps(row.body).encode()
    await caller.nc.publish(row.subject, body, reply=answers, headers=headers)
    await caller.refused("publish", row.subject)
    await caller.nc.flush()
    assert heard.pending_msgs == 0


async def _hears_nothing(admin: Caller, caller: Caller, subject: str) -> None:
    heard = await caller.nc.subscribe(subject)
    await caller.refused("subscription", subject)
    # Not stored, so that nothing changes, and of every kind that one could listen to.
    for said in (
        "w.00.gamma.u2.log",
        "w.100.alpha.u9.log",
        "ws.any.x",
        "_INBOX_other.x",
        "wo.ctl.other.x.y",
    ):
        await admin.nc.publish(said, b"secret")
    await admin.nc.flush()
    await caller.nc.flush()
    assert heard.pending_msgs == 0
