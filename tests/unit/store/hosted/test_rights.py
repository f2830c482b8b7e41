"""Who may do what through the socket: an agent reads its team and writes no record itself."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from typing import Any

import pytest

from bullpen.errors import Refused
from bullpen.protocol.changes import Change, Deliver, PutMember, PutRequest, PutTask, RemoveMember
from bullpen.protocol.message import Message
from bullpen.protocol.names import LEAD
from bullpen.protocol.payloads import IdleNotification, PermissionResponse
from bullpen.protocol.request import Request
from bullpen.protocol.team import Member
from bullpen.store.contract import Store
from bullpen.store.hosted.client import HostedStore
from bullpen.store.hosted.rights import WITHHELD
from bullpen.store.hosted.tokens import TokenIdentity
from bullpen.store.memory import MemoryStore
from bullpen.testing.sample_records import (
    config,
    heartbeat,
    member,
    message,
    put,
    request,
    task,
)
from support.store.hosting import hosting

NOW = 1_000
ANN, BOB, BOSS = (
    TokenIdentity("alpha", "ann"),
    TokenIdentity("alpha", "bob"),
    TokenIdentity("alpha", LEAD),
)
TIME = "2026-01-01T00:00:00.000Z"


@dataclass
class Stores:
    """One store by way of several identities, and itself."""

    inner: Store
    operator: Store
    lead: Store
    ann: Store
    bob: Store
    zoe: Store


@pytest.fixture
async def by() -> AsyncIterator[Stores]:
    inner = MemoryStore()
    await inner.create("alpha", config("alpha"), actor=LEAD)
    await inner.create("beta", config("beta"), actor=LEAD)
    async with AsyncExitStack() as stack:
        path = await stack.enter_async_context(hosting(inner, clock=lambda: NOW))
        doors = [
            await stack.enter_async_context(aclosing(HostedStore(path, name)))
            for name in ("operator", "lead", "ann", "bob", "zoe")
        ]
        yield Stores(inner, *doors)


Call = Callable[[Store], Awaitable[object]]

OTHER_TEAM: dict[str, Call] = {
    "create": lambda s: s.create("gamma", config("gamma"), actor="zoe"),
    "create its name": lambda s: s.create("alpha", config("alpha"), actor="zoe"),
    "delete": lambda s: s.delete("alpha", actor="zoe"),
    "config": lambda s: s.config("alpha"),
    "read": lambda s: s.read("alpha"),
    "commit": lambda s: put(s, PutTask(task("1"))),
    "commit nothing": lambda s: put(s),
    "append": lambda s: s.append("alpha", "ann", message("m", sender="zoe"), actor="zoe"),
    "mailbox": lambda s: s.mailbox("alpha", "ann"),
    "mailbox of its name": lambda s: s.mailbox("alpha", "zoe"),
    "acknowledge": lambda s: s.acknowledge("alpha", "zoe", ["m"], "seen", actor="zoe"),
    "events": lambda s: s.events("alpha"),
    "watch": lambda s: anext(s.watch("alpha")),
    "watch its name": lambda s: anext(s.watch("alpha", agent="zoe")),
    "beat": lambda s: s.beat("alpha", heartbeat("zoe")),
    "presence": lambda s: s.presence("alpha"),
    "checkup": lambda s: s.checkup("alpha", fix=False),
    "a team that is not there": lambda s: s.read("gamma"),
    "restore a team": lambda s: s.restore("gamma", []),
}


@pytest.mark.parametrize("call", OTHER_TEAM.values(), ids=OTHER_TEAM.keys())
async def test_an_agent_cannot_reach_another_team(by: Stores, call: Call) -> None:
    with pytest.raises(Refused) as refused:
        await call(by.zoe)
    assert refused.value.reason == "other_team"
    assert await by.inner.teams() == ["alpha", "beta"]
    assert (await by.inner.read("alpha")).seq == 1


OTHER_IDENTITY: dict[str, Call] = {
    "send as the lead": lambda s: s.append("alpha", "bob", message("m"), actor="ann"),
    "send as bob": lambda s: s.append("alpha", "bob", message("m", sender="bob"), actor="bob"),
    "send to itself as bob": lambda s: s.append(
        "alpha", "ann", message("m", sender="bob"), actor="ann"
    ),
    "deliver as bob": lambda s: put(
        s, PutTask(task("1")), Deliver("bob", message("m", sender="bob"))
    ),
    "read for bob": lambda s: s.acknowledge("alpha", "bob", ["m"], "seen", actor="bob"),
    "inject for bob": lambda s: s.acknowledge("alpha", "bob", ["m"], "injected", actor="ann"),
    "beat for bob": lambda s: s.beat("alpha", heartbeat("bob")),
    "say that bob stopped": lambda s: s.beat("alpha", heartbeat("bob", state="stopped")),
    "make its team": lambda s: s.create("alpha", config("alpha"), actor=LEAD),
    "delete its team": lambda s: s.delete("alpha", actor=LEAD),
    "mend its team": lambda s: s.checkup("alpha", fix=True),
    "look after the store": lambda s: s.checkup(None, fix=False),
    "restore its team": lambda s: s.restore("alpha", []),
    "write a message of its own": lambda s: s.append(
        "alpha", "bob", message("m", sender="ann"), actor="ann"
    ),
    "mark its own mail": lambda s: s.acknowledge("alpha", "ann", ["m"], "seen", actor="ann"),
    "beat for itself": lambda s: s.beat("alpha", heartbeat("ann")),
    "commit nothing": lambda s: put(s),
}


@pytest.mark.parametrize("call", OTHER_IDENTITY.values(), ids=OTHER_IDENTITY.keys())
async def test_an_agent_writes_no_record_itself(by: Stores, call: Call) -> None:
    with pytest.raises(Refused) as refused:
        await call(by.ann)
    assert refused.value.reason == "other_identity"
    assert (await by.inner.read("alpha")).seq == 1
    assert await by.inner.presence("alpha") == {}


async def test_the_operator_acts_in_any_name(by: Stores) -> None:
    await by.operator.append("alpha", "ann", message("m", sender="bob"), actor="bob")
    await by.operator.acknowledge("alpha", "ann", ["m"], "seen", actor="ann")
    assert [event.actor for event in await by.inner.events("alpha", after=1)] == ["bob", "ann"]
    assert await by.operator.teams() == ["alpha", "beta"]


async def test_an_agent_sees_its_own_team_only(by: Stores) -> None:
    assert await by.zoe.teams() == ["beta"]
    await by.operator.delete("beta", actor=LEAD)
    assert await by.zoe.teams() == []


async def test_not_even_a_lead_makes_deletes_restores_or_mends_its_team(by: Stores) -> None:
    calls: list[Call] = [
        lambda s: s.delete("alpha", actor=LEAD),
        lambda s: s.create("alpha", config("alpha"), actor=LEAD),
        lambda s: s.restore("alpha", []),
        lambda s: s.checkup("alpha", fix=True),
        lambda s: s.checkup(None, fix=False),
    ]
    for call in calls:
        with pytest.raises(Refused) as refused:
            await call(by.lead)
        assert refused.value.reason == "other_identity"
    assert await by.lead.checkup("alpha", fix=False) == []
    assert await by.inner.teams() == ["alpha", "beta"]


async def test_mail_of_others_can_be_counted_but_not_read(by: Stores) -> None:
    secret = message("m1", text="secret", summary="secret", later="secret")
    await by.inner.append("alpha", "bob", secret, actor=LEAD)
    await by.inner.append("alpha", "bob", message("m2", text="secret"), actor=LEAD)
    await by.inner.acknowledge("alpha", "bob", ["m1"], "seen", actor="bob")
    for seen in (
        await by.ann.mailbox("alpha", "bob"),
        await by.ann.mailbox("alpha", "bob", history=True),
    ):
        assert [(entry.id, entry.state) for entry in seen.entries] == [
            ("m1", "seen"),
            ("m2", "stored"),
        ]
        assert [entry.message.text for entry in seen.entries] == [WITHHELD, WITHHELD]
        assert [entry.message.sender for entry in seen.entries] == [LEAD, LEAD]
        assert "secret" not in repr([entry.message.raw for entry in seen.entries])
        assert len(seen.unread) == 1
    events = await by.ann.events("alpha")
    assert "secret" not in repr([event.encode() for event in events])
    assert [event.seq for event in events] == [1, 2, 3, 4]


async def test_an_agent_reads_what_it_was_sent_and_what_it_sent(by: Stores) -> None:
    await by.inner.append("alpha", "ann", message("m1", text="to ann"), actor=LEAD)
    await by.inner.append("alpha", "bob", message("m2", sender="ann", text="by ann"), actor="ann")
    (got,) = (await by.ann.mailbox("alpha", "ann")).entries
    (sent,) = (await by.ann.mailbox("alpha", "bob")).entries
    assert (got.message.text, sent.message.text) == ("to ann", "by ann")
    assert await by.ann.events("alpha") == await by.inner.events("alpha")


# Changes that agents once sent themselves


def agent(name: str, **facts: Any) -> Member:
    raw = {"spec": {"driver": "d", "backend": "b", "cwd": "/"}, "nonce": "n", "sinceMs": 1, **facts}
    return member(name, bullpen=raw)


def spawned(name: str, prompt: str) -> Member:
    spec = {"driver": "d", "backend": "b", "cwd": "/", "prompt": prompt}
    return agent(name, spec=spec, parent=LEAD, promptId="p1")


def failed(name: str) -> Message:
    payload = IdleNotification.new(sender=name, timestamp=TIME, idle_reason="failed")
    return message("m1", sender=name, text=payload.text())


def asked(by: str, **fields: Any) -> Request:
    subject = {"toolName": "Bash", "suggestions": []}
    return request(
        "r1", kind="permission", **{"from": by}, to=LEAD, subject=subject, deadlineMs=NOW, **fields
    )


def verdict(sender: str, request_id: str = "r1") -> Message:
    payload = PermissionResponse.new(request_id=request_id, subtype="error", error="No.")
    return message("m1", sender=sender, text=payload.text())


PROMPT = message("p1", text="Do it.")
OVER = agent("bob", phase="ended", end="lost")
NO = {"state": "denied", "answeredBy": LEAD}

CHANGES: dict[str, tuple[TokenIdentity, list[Change], list[Change]]] = {
    "its own prompt": (ANN, [PutMember(spawned("ann", "Do it."))], [Deliver("ann", PROMPT)]),
    "a verdict of code on its own request": (
        ANN,
        [PutRequest(asked("ann"))],
        [PutRequest(asked("ann", **NO)), Deliver("ann", verdict(LEAD))],
    ),
    "the expiry of another's request": (
        ANN,
        [PutRequest(asked("bob"))],
        [PutRequest(asked("bob", state="expired")), Deliver("bob", verdict(LEAD))],
    ),
    "the end of another": (BOSS, [], [PutMember(OVER), Deliver(LEAD, failed("bob"))]),
    "the end of a guest": (BOSS, [], [RemoveMember("bob"), Deliver(LEAD, failed("bob"))]),
    "a message of its own": (ANN, [], [Deliver("bob", message("m1", sender="ann"))]),
    "the prompt of another": (
        ANN,
        [PutMember(spawned("bob", "Do it."))],
        [Deliver("bob", PROMPT)],
    ),
    "a prompt that nobody gave": (ANN, [], [Deliver("ann", PROMPT)]),
    "a prompt with another text": (
        ANN,
        [PutMember(spawned("ann", "Do that."))],
        [Deliver("ann", PROMPT)],
    ),
    "a prompt of somebody else": (
        ANN,
        [PutMember(spawned("ann", "Do it."))],
        [Deliver("ann", message("p1", sender="bob", text="Do it."))],
    ),
    "a verdict on another's request": (
        ANN,
        [PutRequest(asked("bob"))],
        [PutRequest(asked("bob", **NO)), Deliver("bob", verdict(LEAD))],
    ),
    "a verdict on nothing": (ANN, [], [Deliver("ann", verdict(LEAD))]),
    "a verdict on a request that stays open": (
        ANN,
        [PutRequest(asked("ann"))],
        [PutRequest(asked("ann", answeredBy=LEAD)), Deliver("ann", verdict(LEAD))],
    ),
    "a verdict in the name of who was not asked": (
        ANN,
        [PutRequest(asked("ann"))],
        [PutRequest(asked("ann", **NO)), Deliver("ann", verdict("bob"))],
    ),
    "a verdict to who did not ask": (
        ANN,
        [PutRequest(asked("ann"))],
        [PutRequest(asked("ann", **NO)), Deliver("bob", verdict(LEAD))],
    ),
    "words beside a verdict": (
        ANN,
        [PutRequest(asked("ann"))],
        [PutRequest(asked("ann", **NO)), Deliver("ann", message("m1", text="Go on."))],
    ),
    "an expiry that is not due": (
        ANN,
        [PutRequest(asked("bob").evolve(deadline_ms=NOW + 1))],
        [PutRequest(asked("bob", state="expired")), Deliver("bob", verdict(LEAD))],
    ),
    "an expiry of what was never asked": (
        ANN,
        [],
        [PutRequest(asked("bob", state="expired")), Deliver("bob", verdict(LEAD))],
    ),
    "an end that is none": (BOSS, [], [PutMember(agent("bob")), Deliver(LEAD, failed("bob"))]),
    "the end of a third": (BOSS, [], [PutMember(OVER), Deliver(LEAD, failed("ann"))]),
    "an end told to others": (BOSS, [], [PutMember(OVER), Deliver("ann", failed("bob"))]),
    "words beside an end": (
        BOSS,
        [],
        [PutMember(OVER), Deliver(LEAD, message("m1", sender="bob", text="Bye"))],
    ),
}


@pytest.mark.parametrize(("who", "given", "changes"), CHANGES.values(), ids=CHANGES.keys())
async def test_an_agent_commits_no_changes_whatever_they_are(
    by: Stores, who: TokenIdentity, given: list[Change], changes: list[Change]
) -> None:
    seq = (await put(by.inner, *given)).seq
    store = {ANN: by.ann, BOSS: by.lead}[who]
    with pytest.raises(Refused) as refused:
        await put(store, *changes)
    assert refused.value.reason == "other_identity"
    assert (await by.inner.read("alpha")).seq == seq
    assert (await put(by.operator, *changes)).changes == tuple(changes)
