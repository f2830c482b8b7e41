"""The real operations of a team work with tokens of its agents."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing
from typing import NamedTuple

import pytest

from bullpen.errors import Refused
from bullpen.protocol.agent import AgentSpec, ProcessRecord
from bullpen.protocol.clock import now_ms
from bullpen.protocol.names import LEAD
from bullpen.store.hosted.client import HostedStore
from bullpen.store.memory import MemoryStore
from bullpen.team.team import Team, Teams
from support.store.hosting import hosting

SPEC = AgentSpec.new(driver="scripted", backend="subprocess", cwd="/", prompt="Do the work.")
PLACE = ProcessRecord.new(backend="subprocess", host="here", pid=1, start="1")


class Crew(NamedTuple):
    operator: Team
    lead: Team
    ann: Team
    bob: Team


@pytest.fixture
async def crew() -> AsyncIterator[Crew]:
    async with AsyncExitStack() as stack:
        path = await stack.enter_async_context(hosting(MemoryStore()))
        stores = [
            await stack.enter_async_context(aclosing(HostedStore(path, name)))
            for name in ("operator", "lead", "ann", "bob")
        ]
        await Teams(stores[0]).create("alpha")
        yield Crew(*(Team(store, "alpha") for store in stores))


async def spawn(crew: Crew, *names: str) -> None:
    for name in names:
        await crew.lead.agents.register(name, SPEC, by=LEAD, nonce=f"nonce-{name}")
        own = crew.ann if name == "ann" else crew.bob
        await own.agents.ready(name, nonce=f"nonce-{name}", place=PLACE)


async def test_an_agent_that_is_ready_finds_its_prompt(crew: Crew) -> None:
    await spawn(crew, "ann")
    (entry,) = (await crew.ann.mailbox.read("ann")).entries
    assert (entry.message.sender, entry.message.text) == (LEAD, "Do the work.")


async def test_members_write_to_each_other_and_count_all_mail(crew: Crew) -> None:
    await spawn(crew, "ann", "bob")
    await crew.ann.mailbox.send("bob", "Hello", sender="ann")
    sent = await crew.ann.mailbox.broadcast("All", sender="ann")
    assert {each.to: each.ahead for each in sent} == {LEAD: 0, "bob": 2}
    assert await crew.lead.mailbox.unread() == {LEAD: 1, "ann": 1, "bob": 3}
    snapshot = await crew.bob.snapshot()
    assert {view.member.name: view.unread for view in snapshot.members} == {
        LEAD: 1,
        "ann": 1,
        "bob": 3,
    }
    with pytest.raises(Refused):
        await crew.ann.mailbox.send("bob", "Hello", sender=LEAD)


async def test_a_task_is_given_claimed_and_done(crew: Crew) -> None:
    await spawn(crew, "ann", "bob")
    given = await crew.lead.tasks.add("one", by=LEAD, owner="ann")
    await crew.lead.tasks.add("two", by=LEAD, blocked_by=[given.id])
    await crew.ann.tasks.claim(given.id, by="ann")
    with pytest.raises(Refused) as refused:
        await crew.bob.tasks.claim(given.id, by="bob")
    assert refused.value.reason == "already_claimed"
    await crew.ann.tasks.done(given.id, by="ann")
    assert (await crew.bob.tasks.claim_next(by="bob")) is not None


async def test_code_answers_a_request_in_the_name_of_the_lead(crew: Crew) -> None:
    await spawn(crew, "ann")
    asked = await crew.ann.approvals.ask_permission("Bash", {"command": "ls"}, by="ann")
    await crew.ann.approvals.answer(asked.id, approve=False, by=LEAD, voice="policy")
    last = (await crew.ann.mailbox.read("ann")).entries[-1]
    assert last.message.sender == LEAD


async def test_any_agent_ends_requests_whose_time_is_over(crew: Crew) -> None:
    await spawn(crew, "ann", "bob")
    await crew.ann.approvals.ask_permission("Bash", {}, by="ann", deadline_s=0.001)
    start = now_ms()
    while now_ms() <= start + 2:
        pass
    (late,) = await crew.bob.approvals.expire()
    assert late.state == "expired"
    assert len((await crew.ann.mailbox.read("ann")).entries) == 2


async def test_the_lead_gives_up_an_agent_that_is_lost(crew: Crew) -> None:
    await spawn(crew, "ann")
    await crew.lead.tasks.add("one", by=LEAD)
    await crew.ann.tasks.claim("1", by="ann")
    ending = await crew.lead.agents.end("ann", "lost", by=LEAD, nonce="nonce-ann", cause="gone")
    assert ending is not None
    assert (await crew.lead.tasks.get("1")).status == "pending"
    (told,) = (await crew.lead.mailbox.read(LEAD)).entries
    assert told.message.sender == "ann"
