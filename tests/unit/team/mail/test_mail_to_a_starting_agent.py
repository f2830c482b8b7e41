"""Mail to an agent that is starting is stored, and waits if it does not get ready."""

from __future__ import annotations

import pytest

from bullpen.errors import NotFound, Refused
from bullpen.protocol.agent import AgentSpec, End, ProcessRecord
from bullpen.protocol.names import LEAD
from bullpen.store.contract import Mailbox
from bullpen.store.memory import MemoryStore
from bullpen.team.team import Team

pytestmark = pytest.mark.no_loss

PLACE = ProcessRecord.new(backend="in-process", host="here", pid=1, start="1")
WAITS = (
    "ann could not be started: the key is not valid. Your message is kept and delivered if ann is "
    "started again."
)


async def begin(team: Team, name: str = "ann", *, nonce: str = "ann-1") -> None:
    """Register an agent that is not ready yet."""
    spec = AgentSpec.new(driver="told", backend="in-process", cwd="/", prompt=f"Begin, {name}")
    await team.agents.register(name, spec, by=LEAD, nonce=nonce)


async def fail(team: Team, *, nonce: str = "ann-1") -> None:
    await team.agents.withdraw("ann", by=LEAD, nonce=nonce, cause="the key is not valid.")


async def texts(team: Team, name: str) -> list[tuple[str, str]]:
    box = await team.mailbox.read(name)
    return [(entry.message.sender, entry.message.text) for entry in box.entries]


async def test_mail_to_a_starting_agent_is_stored_and_there_when_it_is_ready(team: Team) -> None:
    await begin(team)
    sent = await team.mailbox.send("ann", "Hello", sender="bob")
    (entry,) = (await team.mailbox.read("ann")).entries
    assert (sent.ahead, entry.id, entry.state) == (0, sent.id, "stored")
    await team.agents.ready("ann", nonce="ann-1", place=PLACE)
    assert await texts(team, "ann") == [("bob", "Hello"), (LEAD, "Begin, ann")]


async def test_a_broadcast_includes_agents_that_are_starting(team: Team) -> None:
    await begin(team)
    sent = await team.mailbox.broadcast("All hands", sender="bob")
    assert [one.to for one in sent] == [LEAD, "alice", "ann"]
    assert await texts(team, "ann") == [("bob", "All hands")]


async def test_if_the_start_fails_each_writer_is_told_once_and_the_mail_waits(team: Team) -> None:
    await begin(team)
    for text in ("One", "Two"):
        await team.mailbox.send("ann", text, sender="bob")
    await fail(team)
    await fail_again_is_nothing(team)
    assert await texts(team, "bob") == [("ann", WAITS)]
    assert await texts(team, "alice") == []
    # Who spawned it gets the error.
    assert await texts(team, LEAD) == []
    with pytest.raises(NotFound):
        await team.mailbox.send("ann", "Three", sender="bob")
    await begin(team, nonce="ann-2")
    await team.agents.ready("ann", nonce="ann-2", place=PLACE)
    assert [text for _, text in await texts(team, "ann")] == ["One", "Two", "Begin, ann"]
    assert {entry.state for entry in (await team.mailbox.read("ann")).entries} == {"stored"}


async def fail_again_is_nothing(team: Team) -> None:
    with pytest.raises(NotFound):
        await fail(team)


async def test_the_failure_and_the_notices_are_one_commit(team: Team) -> None:
    await begin(team)
    await team.mailbox.send("ann", "Hello", sender="bob")
    await fail(team)
    assert (await team.events())[-1].op == "agent.withdraw"


@pytest.mark.parametrize("how", ["failed", "lost", "stopped"])
async def test_an_agent_that_ends_before_it_is_ready_tells_its_writers(
    team: Team, how: End
) -> None:
    await begin(team)
    await team.mailbox.send("ann", "Hello", sender="bob")
    await team.agents.end("ann", how, by=LEAD, nonce="ann-1", cause="why")
    words = WAITS.replace("the key is not valid", "why")
    if how == "stopped":
        words = words.replace("could not be started", "was stopped before it was ready")
    assert await texts(team, "bob") == [("ann", words)]
    # The process that started it says the same: it is told once.
    await fail(team)
    assert await texts(team, "bob") == [("ann", words)]


async def test_an_agent_that_is_stopped_with_its_team_tells_nobody(team: Team) -> None:
    await begin(team)
    await team.mailbox.send("ann", "Hello", sender="bob")
    await team.agents.end("ann", "suspended", by=LEAD, nonce="ann-1", cause="the team is stopped")
    assert await texts(team, "bob") == []
    await team.agents.relaunch("ann", by=LEAD, nonce="ann-2")
    await team.agents.ready("ann", nonce="ann-2", place=PLACE)
    assert ("bob", "Hello") in await texts(team, "ann")


async def test_mail_that_comes_in_while_the_failure_is_recorded_is_told_of_too(
    team: Team, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await begin(team)
    read, late = store.mailbox, ["Late"]

    async def mailbox(
        of: str, name: str, *, after: str | None = None, history: bool = False
    ) -> Mailbox:
        box = await read(of, name, after=after, history=history)
        if name == "ann" and late:
            await team.mailbox.send("ann", late.pop(), sender="bob")
        return box

    monkeypatch.setattr(store, "mailbox", mailbox)
    await fail(team)
    assert await texts(team, "bob") == [("ann", WAITS)]


async def test_nobody_is_told_of_the_failure_of_a_start_that_another_one_replaced(
    team: Team, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await begin(team)
    await team.agents.relaunch("ann", by=LEAD, nonce="ann-2", expect="ann-1")
    read, late = store.mailbox, ["Late"]

    async def mailbox(
        of: str, name: str, *, after: str | None = None, history: bool = False
    ) -> Mailbox:
        box = await read(of, name, after=after, history=history)
        if name == "ann" and late:
            await team.mailbox.send("ann", late.pop(), sender="bob")
        return box

    monkeypatch.setattr(store, "mailbox", mailbox)
    await fail(team, nonce="ann-1")
    assert await texts(team, "bob") == []


async def test_a_mailbox_that_cannot_be_read_does_not_keep_a_failed_start(
    team: Team, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def cannot(*_: object, **__: object) -> Mailbox:
        raise Refused("no", reason="x", remedy="")

    await begin(team)
    monkeypatch.setattr(store, "mailbox", cannot)
    await fail(team)
    assert "ann" not in [member.name for member in await team.roster.list()]


async def test_mail_to_an_agent_that_has_ended_is_refused(team: Team) -> None:
    await begin(team)
    await team.agents.end("ann", "failed", by=LEAD, nonce="ann-1", cause="why")
    with pytest.raises(Refused) as refused:
        await team.mailbox.send("ann", "Hello", sender="bob")
    assert refused.value.reason == "member_ended"
