"""Hostile requests from each kind of key: they change nothing of others, and tell nothing of them.

BULLPEN_FORGED_REQUESTS=10000 sends that many with each run.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import random
from collections.abc import Iterator

import pytest
from nats.aio.msg import Msg

from bullpen.fleet.auth.roles import Role
from support.fleet.auth_stage import (
    FOREIGN,
    FORGETS,
    KEYS,
    OWN,
    RIVAL,
    Caller,
    Stage,
    messages,
    staged,
    state,
)

REQUESTS = int(os.environ.get("BULLPEN_FORGED_REQUESTS", "700"))

_FOREIGN_TEXT = b"only the team gamma knows this"
_RIVAL_TEXT = b"only the other tenant knows this"
_OWN_TEXT = b"the team alpha knows this"
_STREAMS = ("TEAM_00", "TEAM_01", "TEAM_100", "TEAM_101", "KV_TEAMS", "KV_HOSTS", "STARTS", "PRES")
_CALLS = (
    "STREAM.DELETE", "STREAM.PURGE", "STREAM.UPDATE", "STREAM.CREATE", "STREAM.MSG.DELETE",
    "STREAM.SNAPSHOT", "STREAM.RESTORE", "STREAM.LEADER.STEPDOWN", "STREAM.PEER.REMOVE",
    "CONSUMER.CREATE", "CONSUMER.DURABLE.CREATE", "CONSUMER.DELETE", "DIRECT.GET",
)  # fmt: skip
_PLACES = (
    f"{FOREIGN}.log", f"{FOREIGN}.sync", f"{OWN}.log", "$KV.TEAMS.team.gamma", "$KV.TEAMS.cell",
    "$KV.TEAMS.place.alpha", "$KV.HOSTS.host.third", "p.gamma.u.third.s1", "start.any.n1",
    "took.any.n1", "o.ctl.other.ann.s", "o.answer.ann.s", "w.00.gamma.u2.log", "ws.any.x",
    "wo.ctl.other.ann.s", "$JS.ACK.STARTS.x.1.1.1.1.1", "_INBOX.x", "$SYS.REQ.SERVER.PING",
    "$JS.API.META.LEADER.STEPDOWN",
)  # fmt: skip
_READS = (
    "$JS.API.DIRECT.GET.TEAM_100", f"$JS.API.DIRECT.GET.TEAM_100.{OWN}.log",
    f"$JS.API.DIRECT.GET.TEAM_100.{OWN}.nothing", "$JS.API.DIRECT.GET.PRES_100",
    "$JS.API.DIRECT.GET.KV_TEAMS.$KV.TEAMS.cell", "$JS.API.DIRECT.GET.TEAM_00",
    f"$JS.API.DIRECT.GET.TEAM_00.{FOREIGN}.log", "$JS.API.STREAM.MSG.GET.TEAM_00",
    "$JS.API.STREAM.INFO.TEAM_00", "$JS.API.INFO", "$JS.API.DIRECT.GET.PRES",
    "$JS.API.DIRECT.GET.KV_TEAMS.$KV.TEAMS.team.gamma", "$JS.API.DIRECT.GET.KV_TEAMS",
)  # fmt: skip
_BODIES: tuple[object, ...] = (
    b"", b"{}", b"+ACK", b"+TERM", {"seq": 1}, {"seq": 1, "batch": 50, "next_by_subj": ">"},
    {"multi_last": [">"]}, {"filter": f"{FOREIGN}.>"}, {"last_by_subj": f"{FOREIGN}.log"},
    {"name": "EVIL", "subjects": ["evil.>"]}, {"deliver_subject": "$JS.API.STREAM.DELETE.TEAM_00"},
)  # fmt: skip
_HEADERS: tuple[dict[str, str] | None, ...] = (
    None,
    {"Nats-Rollup": "all"},
    {"Nats-Rollup": "sub"},
    {"Nats-TTL": "1s"},
    {"Nats-Trace-Dest": "$JS.API.STREAM.DELETE.TEAM_00"},
    {"Nats-Expected-Last-Subject-Sequence": "0"},
    {"Nats-Request-Info": '{"acc":"$SYS","svc":"$SYS"}'},
)


Messages = dict[tuple[str, int], tuple[str, bytes]]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with staged(tmp_path_factory.mktemp("auth")) as made:
        yield made


def target(chance: random.Random) -> str:
    """Where an answer could do harm."""
    if chance.random() < 0.5:
        return chance.choice(_PLACES)
    call = f"$JS.API.{chance.choice(_CALLS)}.{chance.choice(_STREAMS)}"
    return call if chance.random() < 0.7 else f"{call}.x.{FOREIGN}.log"


async def try_each(caller: Caller) -> None:
    """Read everything; write to every place of others, and have an answer written there."""
    for subject in _READS:
        for body in _BODIES:
            await caller.nc.publish(subject, data_of(body), reply=caller.nc.new_inbox())
    calls = [f"$JS.API.{call}.{stream}" for call in _CALLS for stream in _STREAMS]
    for place in (*_PLACES, *calls):
        await caller.nc.publish(f"$JS.API.DIRECT.GET.TEAM_100.{OWN}.log", reply=place)
        if not place.startswith(own_subjects(_name(caller))):
            await caller.nc.publish(place, b"", reply=caller.nc.new_inbox())
    await caller.nc.flush(10)


def data_of(body: object) -> bytes:
    return body if isinstance(body, bytes) else json.dumps(body).encode()


async def forge(caller: Caller, chance: random.Random) -> None:
    """Send one request: a read with an answer elsewhere, or the harm itself."""
    data, headers = data_of(chance.choice(_BODIES)), chance.choice(_HEADERS)
    reply = caller.nc.new_inbox() if chance.random() < 0.3 else target(chance)
    if chance.random() < 0.75:
        await caller.nc.publish(chance.choice(_READS), data, reply=reply, headers=headers)
    else:
        subject = target(chance)
        if not subject.startswith(own_subjects(_name(caller))):
            await caller.nc.publish(subject, data, reply=reply, headers=headers)


def own_subjects(name: str) -> tuple[str, ...]:
    """What a key has the right to write, so that it would be no forgery."""
    role, teams = KEYS[name]
    if role is Role.READ_ONLY:
        return ()
    host = (f"$KV.HOSTS.host.{name}", f"$KV.BEATS.host.{name}", "o.answer.")
    mine = host if role is Role.HOST else ()
    if teams:
        return (
            *mine,
            *("t.100.alpha.", "q.100.alpha.", "$KV.TEAMS.team.alpha"),
            *(("t.101._42eta.", "q.101._42eta.", "$KV.TEAMS.team._42eta") if teams[1:] else ()),
        )
    return (*mine, "t.", "$KV.TEAMS.team.", "start.", "took.", f"o.ctl.other.{name}.")


def _name(caller: Caller) -> str:
    return caller.nc._inbox_prefix.decode().removeprefix("_INBOX_")


async def put_texts(stage: Stage) -> None:
    """Put bodies that a read gives back where each key may read them, and texts of teams."""
    async with stage.connected("admin") as admin, stage.connected("admin", RIVAL) as rival:
        for body in _BODIES:
            await admin.stored(f"{OWN}.log", data_of(body))
            await admin.stored(f"{FOREIGN}.log", data_of(body))
        await admin.stored(f"{OWN}.log", _OWN_TEXT)
        for kind in ("log", "sync", "h.1"):
            await admin.stored(f"{FOREIGN}.{kind}", _FOREIGN_TEXT)
            for place in (OWN, FOREIGN):
                await rival.stored(f"{place}.{kind}", _RIVAL_TEXT)
        entry = {"name": "gamma", "p": 0, "uid": "u2", "note": _FOREIGN_TEXT.decode()}
        await admin.stored("$KV.TEAMS.team.gamma", entry)
        await admin.stored("p.gamma.u.other.s1", _FOREIGN_TEXT)


async def hear(caller: Caller, into: list[bytes]) -> None:
    """Collect every answer, and all news that the key is given."""

    async def take(message: Msg) -> None:
        into.append(message.data)

    for subject in (f"_INBOX_{_name(caller)}.>", "w.>", "w.00.gamma.>", "w.100.alpha.>", "wo.>"):
        await caller.nc.subscribe(subject, cb=take)


def knows(heard: list[bytes], text: bytes) -> bool:
    # A leader's answer has the message in base64, at one of three offsets.
    shapes = [text, *(base64.b64encode(b"x" * pad + text)[4:-4] for pad in range(3))]
    return any(shape in data for data in heard for shape in shapes)


@pytest.mark.parametrize("who", [*KEYS])
async def test_no_forged_request_changes_or_tells_anything(stage: Stage, who: str) -> None:
    chance = random.Random(f"forged {who}")
    role, teams = KEYS[who]
    await put_texts(stage)
    async with stage.connected("admin") as admin:
        orders = await admin.nc.subscribe("wo.>")
        await admin.nc.flush()
        before, kept = await state(admin), await messages(admin)
        answers: list[bytes] = []
        async with stage.connected(who) as caller:
            await hear(caller, answers)
            await try_each(caller)
            for count in range(REQUESTS // len(KEYS)):
                await forge(caller, chance)
                if count % 100 == 99:
                    await caller.nc.flush(10)
            await caller.nc.flush(10)
            assert not caller.nc.is_closed
            await asyncio.sleep(0.3)
        after, left = await state(admin), await messages(admin)
        assert knows(answers, _OWN_TEXT)
        assert knows(answers, _FOREIGN_TEXT) is not bool(teams)
        assert not knows(answers, _RIVAL_TEXT)
        own = own_subjects(who)
        assert not changed(kept, left, own)
        # Answers on its own subjects are what it may write.
        for name in own_streams(role, teams):
            before[name], after[name] = before[name][0], after[name][0]
        assert after == before
        assert orders.pending_msgs == 0 or role is not Role.READ_ONLY


def changed(before: Messages, after: Messages, own: tuple[str, ...]) -> list[object]:
    """What was added, altered or lost on subjects that are not a key's own."""
    return [
        (place, before.get(place), after.get(place))
        for place in {*before, *after}
        if before.get(place) != after.get(place)
        # What a stream forgets by itself, it may forget meanwhile.
        and not (place[0] in FORGETS and place not in after)
        and not (before.get(place) or after[place])[0].startswith(own)
    ]


def own_streams(role: Role, teams: tuple[str, ...]) -> tuple[str, ...]:
    if role is Role.READ_ONLY:
        return ()
    if teams:
        return ("TEAM_100", "TEAM_101", "ORDERS")
    return ("TEAM_00", "TEAM_01", "TEAM_100", "TEAM_101", "KV_TEAMS", "STARTS", "ORDERS")
