"""Agents of ours in a team that another program leads: their places, their questions, their end."""

from __future__ import annotations

import pytest

from bullpen.errors import Conflict, NotFound
from bullpen.protocol.agent import GUEST, AgentSpec
from bullpen.protocol.message import Message
from bullpen.protocol.names import LEAD
from bullpen.protocol.payloads import ShutdownRequest
from bullpen.team.team import Team

SPEC = AgentSpec.new(driver="scripted", backend="subprocess", cwd="/", options={GUEST: True})
ASKED = "shutdown-1794696431000@alice"


def shutdown(request_id: str = ASKED, *, sender: str = LEAD, claimed: str | None = None) -> Message:
    """A request to end, as another program writes it."""
    payload = ShutdownRequest.new(
        request_id=request_id, sender=claimed or sender, reason="all done", timestamp="now"
    )
    return Message.new(sender=sender, text=payload.text(), timestamp="now", read=False)


async def test_an_agent_takes_the_place_of_a_member_that_another_program_added(team: Team) -> None:
    before = await team.roster.get("alice")
    made = await team.agents.register("alice", SPEC, by=LEAD, nonce="n", in_place=True)
    rows = [member for member in await team.roster.list() if member.name == "alice"]
    assert len(rows) == 1
    own = {key: value for key, value in rows[0].raw.items() if key not in ("bullpen", "cwd")}
    assert own.items() >= {k: v for k, v in before.raw.items() if k != "cwd"}.items()
    assert (made.agent.phase, made.agent.parent, made.agent.prompt_id) == ("starting", LEAD, None)


async def test_a_place_that_an_agent_of_ours_has_is_not_taken(team: Team) -> None:
    await team.agents.register("alice", SPEC, by=LEAD, nonce="n", in_place=True)
    with pytest.raises(Conflict, match="already running"):
        await team.agents.register("alice", SPEC, by=LEAD, nonce="m", in_place=True)


async def test_the_place_of_nobody_cannot_be_taken(team: Team) -> None:
    with pytest.raises(NotFound, match="carol"):
        await team.agents.register("carol", SPEC, by=LEAD, nonce="n", in_place=True)


@pytest.mark.parametrize("end", ["stopped", "finished", "failed", "lost"])
async def test_a_guest_leaves_when_it_ends_and_its_tasks_are_pending_again(
    team: Team, end: str
) -> None:
    await team.agents.register("guest", SPEC, by=LEAD, nonce="n")
    task = await team.tasks.add("Work", by=LEAD)
    await team.tasks.claim(task.id, by="guest")
    ending = await team.agents.end("guest", end, by=LEAD, nonce="n", cause="why")  # type: ignore[arg-type]
    assert ending is not None
    assert (ending.agent.end, [each.id for each in ending.released]) == (end, [task.id])
    assert "guest" not in [member.name for member in await team.roster.list()]
    after = await team.tasks.get(task.id)
    assert (after.status, after.owner) == ("pending", None)


async def test_a_guest_that_is_suspended_stays_in_the_team(team: Team) -> None:
    await team.agents.register("guest", SPEC, by=LEAD, nonce="n")
    await team.agents.end("guest", "suspended", by=LEAD, nonce="n")
    assert (await team.agents.get("guest"))[1].end == "suspended"


async def test_the_lead_is_told_of_a_guest_that_never_got_ready(team: Team) -> None:
    await team.agents.register("guest", SPEC, by=LEAD, nonce="n")
    await team.agents.end("guest", "failed", by="guest", nonce="n", cause="no such program")
    told = (await team.mailbox.read(LEAD)).entries[-1].message
    assert told.sender == "guest"
    assert "no such program" in told.text


async def test_a_foreign_leads_request_to_end_can_be_answered(team: Team) -> None:
    request = await team.approvals.hear(shutdown(), to="alice")
    assert request is not None
    assert await team.approvals.pending(to="alice") == [request]
    await team.approvals.answer(ASKED, approve=True, by="alice")
    told = (await team.mailbox.read(LEAD)).entries[-1].message
    assert '"type":"shutdown_approved"' in told.text
    assert ASKED in told.text


async def test_a_request_that_is_heard_twice_is_one_and_keeps_its_answer(team: Team) -> None:
    await team.approvals.hear(shutdown(), to="alice")
    await team.approvals.answer(ASKED, approve=False, by="alice", feedback="busy")
    assert await team.approvals.hear(shutdown(), to="alice") is None
    assert (await team.approvals.get(ASKED)).state == "denied"


@pytest.mark.parametrize(
    "message",
    [
        shutdown(sender="bob"),
        shutdown(sender="stranger"),
        shutdown(claimed="bob"),
        shutdown("../../escape"),
        Message.new(sender=LEAD, text="Please end.", timestamp="now", read=False),
    ],
    ids=["a teammate", "a stranger", "in another name", "an id that leaves its folder", "text"],
)
async def test_other_messages_ask_nothing(team: Team, message: Message) -> None:
    assert await team.approvals.hear(message, to="alice") is None
    assert await team.approvals.pending() == []


async def test_what_a_lead_of_ours_asks_is_not_heard_from_its_messages(team: Team) -> None:
    lead = SPEC.evolve(options={})
    await team.agents.register(LEAD, lead, by=LEAD, nonce="n")
    assert await team.approvals.hear(shutdown(), to="alice") is None
