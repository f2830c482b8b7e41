"""Mail between members."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import pytest

from bullpen.errors import Invalid, NotFound, Refused
from bullpen.protocol.names import LEAD
from bullpen.store.contract import StoreLimits
from bullpen.store.memory import MemoryStore
from bullpen.team.team import Team, Teams

pytestmark = pytest.mark.no_loss

if TYPE_CHECKING:
    from unit.team.conftest import MakeBoard, StaleStore


async def texts(team: Team, name: str, *, history: bool = False) -> list[str]:
    mailbox = await team.mailbox.read(name, history=history)
    return [entry.message.text for entry in mailbox.entries]


async def test_a_sent_message_is_stored_in_the_known_shape(team: Team) -> None:
    sent = await team.mailbox.send(
        "bob", "hello", sender="alice", summary="greeting", in_reply_to="m-1"
    )
    [entry] = (await team.mailbox.read("bob")).entries
    assert list(entry.message.raw.items()) == [
        ("from", "alice"),
        ("text", "hello"),
        ("summary", "greeting"),
        ("timestamp", "2026-11-14T22:47:11.000Z"),
        ("color", "blue"),
        ("msgV", 1),
        ("msg_id", sent.id),
        ("type", "message"),
        ("inReplyTo", "m-1"),
        ("read", False),
    ]
    assert (sent.to, sent.ahead, sent.duplicate, entry.state) == ("bob", 0, False, "stored")
    assert sent.seq == (await team.events())[-1].seq


async def test_the_lead_has_no_colour_and_an_empty_summary_is_none(team: Team) -> None:
    await team.mailbox.send("bob", "hello", sender=LEAD, summary="")
    [entry] = (await team.mailbox.read("bob")).entries
    assert set(entry.message.raw) == {"from", "text", "timestamp", "msgV", "msg_id", "type", "read"}


async def test_a_sender_learns_how_many_are_ahead(team: Team) -> None:
    for ahead in range(3):
        assert (await team.mailbox.send("bob", "x", sender="alice")).ahead == ahead


async def test_the_same_key_is_the_same_message(team: Team) -> None:
    first = await team.mailbox.send("bob", "hello", sender="alice", key="k")
    again = await team.mailbox.send("bob", "hello", sender="alice", key="k")
    assert (first.duplicate, again.duplicate, again.id) == (False, True, first.id)
    others = [
        await team.mailbox.send("bob", "hello", sender="alice", key="other"),
        await team.mailbox.send("bob", "hello", sender=LEAD, key="k"),
        await team.mailbox.send(LEAD, "hello", sender="alice", key="k"),
        await team.mailbox.send("bob", "hello", sender="alice"),
        *await team.mailbox.broadcast("hello", sender="alice", key="k"),
    ]
    assert not any(sent.duplicate for sent in others)
    assert len({first.id, *(sent.id for sent in others)}) == len(others) + 1


async def test_only_members_send_and_receive(team: Team) -> None:
    with pytest.raises(NotFound, match=r"'alise'.*Did you mean 'alice'"):
        await team.mailbox.send("alise", "x", sender="bob")
    with pytest.raises(NotFound, match="'stranger'"):
        await team.mailbox.send("bob", "x", sender="stranger")
    await team.roster.remove("alice", by=LEAD)
    with pytest.raises(NotFound, match="team-lead, bob"):
        await team.mailbox.send("alice", "x", sender="bob")


@pytest.mark.parametrize("text", ["", " \n"])
async def test_a_message_says_something(team: Team, text: str) -> None:
    with pytest.raises(Invalid):
        await team.mailbox.send("bob", text, sender="alice")
    with pytest.raises(Invalid):
        await team.mailbox.broadcast(text, sender="alice")


async def test_a_broadcast_reaches_every_other_member_in_one_commit(team: Team) -> None:
    await team.mailbox.send("bob", "before", sender=LEAD)
    before = len(await team.events())
    sent = await team.mailbox.broadcast("all hands", sender="alice", summary="meeting")
    assert [(item.to, item.ahead, item.duplicate) for item in sent] == [
        (LEAD, 0, False),
        ("bob", 1, False),
    ]
    events = await team.events()
    assert len(events) == before + 1
    assert (events[-1].actor, events[-1].op) == ("alice", "message.broadcast")
    assert {item.seq for item in sent} == {events[-1].seq}
    assert await texts(team, "bob") == ["before", "all hands"]
    assert await texts(team, "alice") == []
    entry = (await team.mailbox.read("bob")).entries[-1]
    assert (entry.id, entry.message.color, entry.message.summary) == (
        sent[1].id,
        "blue",
        "meeting",
    )


async def test_a_broadcast_with_a_known_key_is_delivered_to_new_members_only(team: Team) -> None:
    first = await team.mailbox.broadcast("all hands", sender="alice", key="k")
    await team.mailbox.send("bob", "later", sender=LEAD)
    await team.roster.join("carol", by=LEAD)
    again = await team.mailbox.broadcast("all hands", sender="alice", key="k")
    assert [(item.to, item.ahead, item.duplicate) for item in again] == [
        (LEAD, 0, True),
        ("bob", 0, True),
        ("carol", 0, False),
    ]
    assert [item.id for item in again[:2]] == [item.id for item in first]
    assert await texts(team, "bob") == ["all hands", "later"]


async def test_a_broadcast_reports_nobody_who_left_before_it_was_stored(
    stale_store: StaleStore, make_board: MakeBoard
) -> None:
    teams = Teams(stale_store)
    await teams.create("crew")
    team = teams.open("crew")
    await team.roster.join("bob", by=LEAD)
    stale_store.stale = make_board()
    sent = await team.mailbox.broadcast("x", sender=LEAD)
    assert [item.to for item in sent] == ["bob"]


async def test_a_broadcast_needs_somebody_else(teams: Teams) -> None:
    await teams.create("alone")
    with pytest.raises(Refused) as error:
        await teams.open("alone").mailbox.broadcast("x", sender=LEAD)
    assert error.value.reason == "nobody"
    with pytest.raises(NotFound):
        await teams.open("alone").mailbox.broadcast("x", sender="stranger")


async def test_marking_moves_messages_forward_only(team: Team) -> None:
    sent = await team.mailbox.send("bob", "x", sender="alice")
    assert await team.mailbox.mark("bob", [sent.id, "unknown"], "injected") == 1
    assert (await team.mailbox.unread())["bob"] == 1
    assert await team.mailbox.mark("bob", [sent.id], "seen") == 1
    assert await team.mailbox.mark("bob", [sent.id], "injected") == 0
    assert await team.mailbox.unread() == {LEAD: 0, "alice": 0, "bob": 0}


async def test_reading_can_begin_after_a_message(team: Team) -> None:
    first = await team.mailbox.send("bob", "one", sender="alice")
    await team.mailbox.send("bob", "two", sender="alice")
    after = await team.mailbox.read("bob", after=first.id)
    assert [entry.message.text for entry in after.entries] == ["two"]
    last = await team.mailbox.read("bob", after=after.entries[-1].id)
    assert last.entries == ()
    with pytest.raises(NotFound):
        await team.mailbox.read("bob", after="unknown")


async def test_a_mailbox_is_there_for_members_and_for_those_who_left_one(team: Team) -> None:
    assert (await team.mailbox.read("alice")).entries == ()
    with pytest.raises(NotFound, match="'stranger'"):
        await team.mailbox.read("stranger")
    await team.mailbox.send("alice", "x", sender="bob")
    await team.roster.remove("alice", by=LEAD)
    assert await texts(team, "alice") == ["x"]


async def test_a_former_members_mailbox_is_there_even_if_all_is_archived() -> None:
    teams = Teams(MemoryStore(limits=StoreLimits(seen_kept=0)))
    await teams.create("crew")
    team = teams.open("crew")
    await team.roster.join("alice", by=LEAD)
    ids = [(await team.mailbox.send("alice", "x", sender=LEAD)).id for _ in range(3)]
    await team.mailbox.mark("alice", ids, "seen")
    await team.roster.remove("alice", by=LEAD)
    assert await texts(team, "alice") == []
    assert await texts(team, "alice", history=True) == ["x"] * 3


async def test_a_followed_mailbox_shows_each_message_once(team: Team) -> None:
    await team.mailbox.send("alice", "one", sender=LEAD)
    arrivals = team.mailbox.follow("alice")
    with anyio.fail_after(5):
        first = await anext(arrivals)
        await team.mailbox.mark("alice", [first.entries[0].id], "seen")
        await team.mailbox.send("alice", "two", sender=LEAD)
        second = await anext(arrivals)
    texts = [entry.message.text for box in (first, second) for entry in box.entries]
    assert texts == ["one", "two"]
    await arrivals.aclose()
