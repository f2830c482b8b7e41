"""The real operations of a team work with tokens of its agents: the host runs them."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing
from typing import NamedTuple

import pytest

from bullpen.errors import Refused
from bullpen.fleet.host.operation_rights import DOOR
from bullpen.protocol.agent import AgentSpec, ProcessRecord
from bullpen.protocol.clock import now_ms
from bullpen.protocol.names import LEAD
from bullpen.protocol.payloads import PermissionResponse
from bullpen.protocol.policy import Approver, Policy
from bullpen.protocol.request import Voice
from bullpen.store.hosted.client import HostedStore
from bullpen.store.memory import MemoryStore
from bullpen.team.budget.rules import OverBudget
from bullpen.team.operation.call_codec import call_codec
from bullpen.team.team import Team, Teams, operations
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
        crew = Crew(*(Team(store, "alpha") for store in stores))
        await crew.operator.agents.register(LEAD, SPEC, by=LEAD, nonce="nonce-lead")
        yield crew


async def spawn(crew: Crew, *names: str, spec: AgentSpec = SPEC) -> None:
    for name in names:
        await crew.lead.agents.register(name, spec, by=LEAD, nonce=f"nonce-{name}")
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


async def test_code_answers_in_the_name_of_the_lead_where_a_person_chose_that(crew: Crew) -> None:
    await spawn(crew, "ann", spec=SPEC.evolve(policy=Policy.new(approver="policy").raw))
    asked = await crew.ann.approvals.ask_permission("Bash", {"command": "ls"}, by="ann")
    assert asked.approver == "policy"
    answered = await crew.ann.approvals.answer(asked.id, approve=False, by=LEAD, voice="policy")
    assert (answered.answered_by, answered.voice) == (LEAD, "policy")
    last = (await crew.ann.mailbox.read("ann")).entries[-1]
    assert last.message.sender == LEAD


@pytest.mark.parametrize("approver", ["human", "lead", "inbox"])
async def test_code_answers_nobody_else(crew: Crew, approver: Approver) -> None:
    await spawn(crew, "ann", spec=SPEC.evolve(policy=Policy.new(approver=approver).raw))
    asked = await crew.ann.approvals.ask_permission(
        "Bash", {"command": "ls"}, by="ann", approver="policy"
    )
    voices: tuple[Voice, ...] = ("policy", "human", "agent")
    for voice in voices:
        for by in (LEAD, "ann"):
            with pytest.raises(Refused):
                await crew.ann.approvals.answer(asked.id, approve=True, by=by, voice=voice)
    assert (await crew.operator.approvals.get(asked.id)).state == "pending"


async def test_an_answer_that_came_as_a_message_counts_as_it_was_written(crew: Crew) -> None:
    await spawn(crew, "ann", spec=SPEC.evolve(policy=Policy.new(approver="inbox").raw))
    asked = await crew.ann.approvals.ask_permission("Bash", {"command": "ls"}, by="ann")
    said = PermissionResponse.new(request_id=asked.id, subtype="error", error="No.")
    await crew.operator.mailbox.send("ann", said.text(), sender=LEAD)
    answered = await crew.ann.approvals.answer(asked.id, approve=True, by=LEAD)
    assert (answered.state, answered.answer) == ("denied", {"feedback": "No."})


async def test_a_used_up_budget_reaches_the_agent_as_what_it_is(crew: Crew) -> None:
    await spawn(crew, "ann", spec=SPEC.evolve(turns_max=1))
    await crew.ann.agents.begin_turn("ann", nonce="nonce-ann")
    with pytest.raises(OverBudget) as over:
        await crew.ann.agents.begin_turn("ann", nonce="nonce-ann")
    assert (over.value.reached.scope, over.value.reached.limit) == ("agent", "turns")


async def test_every_operation_can_be_sent_or_is_refused_by_name(crew: Crew) -> None:
    for name, operation in operations().items():
        if operation.part != "teams":
            part = getattr(crew.ann, operation.part)
            call_codec(inspect.unwrap(getattr(type(part), operation.method)))
        assert name in DOOR, f"{name} has no line in the table of the host's door"
    assert set(DOOR) == set(operations())


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
