"""Requests: asked and answered with their messages, once, by the right one, in time."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest

from bullpen.errors import Invalid, NotFound, Refused
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.changes import Change, Deliver, PutMember, PutRequest
from bullpen.protocol.names import LEAD
from bullpen.protocol.policy import Policy
from bullpen.protocol.request import Request
from bullpen.store.contract import View
from bullpen.store.memory import MemoryStore
from bullpen.team.requests.rules import YES_HOLDS_MS
from bullpen.team.team import Team

if TYPE_CHECKING:
    from unit.team.conftest import Ticker

ISO = "2026-11-14T22:47:11.000Z"
MS = 1_794_696_431_000


async def last_message(team: Team, name: str) -> tuple[str, str, str | None]:
    message = (await team.mailbox.read(name)).entries[-1].message
    return message.sender, message.text, message.color


async def ops(team: Team) -> list[str]:
    return [event.op for event in await team.events()]


# --- shutdown


async def test_a_shutdown_request_is_stored_and_delivered_in_one_commit(team: Team) -> None:
    request = await team.approvals.ask_shutdown("alice", by=LEAD, reason="all done")
    assert request.raw == {
        "id": f"shutdown-{MS}@alice",
        "kind": "shutdown",
        "from": LEAD,
        "to": "alice",
        "createdMs": MS,
        "state": "pending",
        "subject": {"reason": "all done"},
    }
    event = (await team.events())[-1]
    assert event.op == "request.shutdown"
    assert [type(change) for change in event.changes] == [PutRequest, Deliver]
    assert await last_message(team, "alice") == (
        LEAD,
        (
            f'{{"type":"shutdown_request","requestId":"shutdown-{MS}@alice","from":"team-lead",'
            f'"reason":"all done","timestamp":"{ISO}"}}'
        ),
        None,
    )


async def test_an_approved_shutdown_names_where_the_member_ran(
    team: Team, store: MemoryStore
) -> None:
    alice = (await team.roster.get("alice")).evolve(tmux_pane_id="%1", backend_type="tmux")

    def move(_: View) -> Sequence[Change]:
        return [PutMember(alice)]

    await store.commit("crew", move, actor="alice", op="other")
    request = await team.approvals.ask_shutdown("alice", by=LEAD)
    answered = await team.approvals.answer(request.id, approve=True, by="alice")
    assert (answered.state, answered.answered_by, answered.answered_ms) == ("approved", "alice", MS)
    assert answered.answer is None
    assert await last_message(team, LEAD) == (
        "alice",
        (
            f'{{"type":"shutdown_approved","requestId":"{request.id}","from":"alice",'
            f'"timestamp":"{ISO}","paneId":"%1","backendType":"tmux"}}'
        ),
        "blue",
    )
    event = (await team.events())[-1]
    assert event.op == "request.answer"
    assert [type(change) for change in event.changes] == [PutRequest, Deliver]


@pytest.mark.parametrize(
    ("feedback", "reason"), [("not yet", "not yet"), (None, "No reason was given.")]
)
async def test_a_rejected_shutdown_says_why(team: Team, feedback: str | None, reason: str) -> None:
    request = await team.approvals.ask_shutdown("alice", by=LEAD)
    answered = await team.approvals.answer(request.id, approve=False, by="alice", feedback=feedback)
    assert answered.state == "denied"
    assert (await last_message(team, LEAD))[1] == (
        f'{{"type":"shutdown_rejected","requestId":"{request.id}","from":"alice",'
        f'"reason":"{reason}","timestamp":"{ISO}"}}'
    )


async def test_a_lead_cannot_consent_to_its_own_shutdown_request(team: Team) -> None:
    request = await team.approvals.ask_shutdown("alice", by=LEAD)
    with pytest.raises(Refused) as error:
        await team.approvals.answer(request.id, approve=True, by=LEAD)
    assert error.value.reason == "not_approver"


async def test_the_shutdown_of_a_member_that_left_can_be_answered_by_the_lead(
    team: Team,
) -> None:
    request = await team.approvals.ask_shutdown("alice", by="bob")
    await team.roster.remove("alice", by=LEAD)
    await team.approvals.answer(request.id, approve=True, by=LEAD)
    assert (await last_message(team, "bob"))[1] == (
        f'{{"type":"shutdown_approved","requestId":"{request.id}","from":"alice",'
        f'"timestamp":"{ISO}"}}'
    )


# --- plans


async def test_a_plan_request_carries_the_plan_and_no_colour(team: Team) -> None:
    request = await team.approvals.ask_plan("# Plan", by="alice", plan_file_path="/p.md")
    digest = hashlib.sha256(b"# Plan").hexdigest()
    assert request.id == f"plan_approval-{MS}@alice@crew"
    assert request.digest == digest
    assert request.subject == {"plan": "# Plan", "planFilePath": "/p.md"}
    assert (await ops(team))[-1] == "request.plan"
    assert await last_message(team, LEAD) == (
        "alice",
        (
            f'{{"type":"plan_approval_request","from":"alice","timestamp":"{ISO}",'
            f'"planFilePath":"/p.md","planContent":"# Plan","requestId":"{request.id}"}}'
        ),
        None,
    )


@pytest.mark.parametrize("mode", [None, "acceptEdits"])
async def test_an_approved_plan_names_its_digest_and_the_mode_after_it(
    team: Team, mode: str | None
) -> None:
    request = await team.approvals.ask_plan("# Plan", by="alice")
    await team.approvals.answer(
        request.id, approve=True, by=LEAD, digest=request.digest, permission_mode=mode
    )
    assert (await last_message(team, "alice"))[1] == (
        f'{{"type":"plan_approval_response","requestId":"{request.id}","approved":true,'
        f'"timestamp":"{ISO}","permissionMode":"{mode or "default"}",'
        f'"planDigest":"{request.digest}"}}'
    )


@pytest.mark.parametrize(
    ("after_plan", "asked", "given"),
    [
        ("acceptEdits", None, "acceptEdits"),
        ("bypassPermissions", None, "bypassPermissions"),
        ("acceptEdits", "default", "default"),
        ("dontAsk", None, "dontAsk"),
    ],
)
async def test_an_approved_plan_of_an_agent_names_the_mode_that_it_gets(
    team: Team, after_plan: str, asked: str | None, given: str
) -> None:
    policy = Policy.new(after_plan=after_plan)
    spec = AgentSpec.new(driver="d", backend="b", cwd="/", mode="plan", policy=policy.raw)
    await team.agents.register("planner", spec, by=LEAD, nonce="n-1")
    request = await team.approvals.ask_plan("# Plan", by="planner")
    await team.approvals.answer(request.id, approve=True, by=LEAD, permission_mode=asked)
    told = json.loads((await last_message(team, "planner"))[1])
    status = await team.plans.settle("planner", nonce="n-1")
    assert (told["permissionMode"], status.mode) == (given, given)


async def test_a_rejected_plan_has_feedback_and_no_digest(team: Team) -> None:
    request = await team.approvals.ask_plan("# Plan", by="alice", to="bob")
    await team.approvals.answer(request.id, approve=False, by="bob", feedback="add tests")
    assert await last_message(team, "alice") == (
        "bob",
        (
            f'{{"type":"plan_approval_response","requestId":"{request.id}","approved":false,'
            f'"feedback":"add tests","timestamp":"{ISO}"}}'
        ),
        "green",
    )


async def test_a_plan_says_something(team: Team) -> None:
    with pytest.raises(Invalid):
        await team.approvals.ask_plan(" ", by="alice")


# --- permissions


async def ask_permission(team: Team, **fields: Any) -> Request:
    wanted = {"by": "alice", "tool_use_id": "toolu_1", "description": "Touch", **fields}
    return await team.approvals.ask_permission("Bash", {"command": "touch x"}, **wanted)


async def test_a_permission_request_names_the_exact_call(team: Team) -> None:
    request = await ask_permission(team, suggestions=[{"type": "setMode"}])
    assert request.id.startswith(f"perm-{MS}-id00000")
    assert len(request.id.rsplit("-", 1)[1]) == 7
    digest = hashlib.sha256(b'Bash\0{"command":"touch x"}').hexdigest()
    assert request.digest == digest
    assert (await ops(team))[-1] == "request.permission"
    assert await last_message(team, LEAD) == (
        "alice",
        (
            f'{{"type":"permission_request","request_id":"{request.id}","agent_id":"alice",'
            '"tool_name":"Bash","tool_use_id":"toolu_1","description":"Touch",'
            '"input":{"command":"touch x"},"permission_suggestions":[{"type":"setMode"}]}'
        ),
        "blue",
    )


@pytest.mark.parametrize("updated", [None, {"command": "touch y"}])
async def test_a_granted_permission_is_bound_to_its_call(
    team: Team, updated: dict[str, str] | None
) -> None:
    request = await ask_permission(team)
    answered = await team.approvals.answer(
        request.id, approve=True, by=LEAD, digest=request.digest, updated_input=updated
    )
    assert answered.answer == (None if updated is None else {"updatedInput": updated})
    command = "touch x" if updated is None else "touch y"
    assert (await last_message(team, "alice"))[1] == (
        f'{{"type":"permission_response","request_id":"{request.id}","subtype":"success",'
        '"tool_use_id":"toolu_1","approved_request":{"tool_use_id":"toolu_1","tool_name":"Bash",'
        f'"input_digest":"{request.digest}"}},'
        f'"response":{{"updated_input":{{"command":"{command}"}}}}}}'
    )


@pytest.mark.parametrize("feedback", [None, "too dangerous"])
async def test_a_denied_permission_is_an_error(team: Team, feedback: str | None) -> None:
    request = await ask_permission(team, tool_use_id=None)
    await team.approvals.answer(request.id, approve=False, by=LEAD, feedback=feedback)
    assert (await last_message(team, "alice"))[1] == (
        f'{{"type":"permission_response","request_id":"{request.id}","subtype":"error",'
        f'"approved_request":{{"tool_name":"Bash","input_digest":"{request.digest}"}},'
        f'"error":"{feedback or "Permission denied"}"}}'
    )


async def test_a_call_that_is_no_json_or_too_deep_is_refused(team: Team) -> None:
    deep: Any = {}
    for _ in range(190):
        deep = [deep]
    for tool_input in (object(), deep):
        with pytest.raises(Invalid, match="cannot be stored"):
            await team.approvals.ask_permission("Bash", tool_input, by="alice")
    request = await ask_permission(team)
    with pytest.raises(Invalid, match="cannot be stored"):
        await team.approvals.answer(request.id, approve=True, by=LEAD, updated_input=deep)
    assert (await team.approvals.get(request.id)).state == "pending"


# --- who, once, what, when


async def test_an_answer_fits_its_kind_of_request(team: Team) -> None:
    plan = await team.approvals.ask_plan("# Plan", by="alice")
    with pytest.raises(Invalid, match="is not a tool call"):
        await team.approvals.answer(plan.id, approve=True, by=LEAD, updated_input={})
    permission = await ask_permission(team)
    with pytest.raises(Invalid, match="is not a plan"):
        await team.approvals.answer(permission.id, approve=True, by=LEAD, permission_mode="default")


async def test_only_members_ask_and_are_asked(team: Team) -> None:
    with pytest.raises(NotFound, match="'carol'"):
        await team.approvals.ask_shutdown("carol", by=LEAD)
    with pytest.raises(NotFound, match="'carol'"):
        await team.approvals.ask_plan("# Plan", by="carol")


async def test_a_teammate_cannot_ask_itself_but_the_lead_can(team: Team) -> None:
    with pytest.raises(Refused) as error:
        await team.approvals.ask_plan("# Plan", by="alice", to="alice")
    assert error.value.reason == "not_approver"
    request = await team.approvals.ask_plan("# Plan", by=LEAD)
    with pytest.raises(Refused) as error:
        await team.approvals.answer(request.id, approve=True, by=LEAD, voice="agent")
    assert error.value.reason == "not_approver"
    answered = await team.approvals.answer(request.id, approve=True, by=LEAD, voice="human")
    assert answered.state == "approved"


@pytest.mark.parametrize("by", ["alice", "bob", "stranger"])
async def test_nobody_but_who_was_asked_and_the_lead_answers(team: Team, by: str) -> None:
    request = await team.approvals.ask_plan("# Plan", by="alice")
    with pytest.raises(Refused) as error:
        await team.approvals.answer(request.id, approve=True, by=by)
    assert error.value.reason == "not_approver"
    assert (await team.mailbox.read("alice")).entries == ()


async def test_the_lead_answers_what_another_was_asked(team: Team) -> None:
    request = await team.approvals.ask_plan("# Plan", by="alice", to="bob")
    answered = await team.approvals.answer(request.id, approve=True, by=LEAD)
    assert answered.answered_by == LEAD


@pytest.mark.parametrize("approve", [True, False])
async def test_a_request_is_answered_once(team: Team, approve: bool) -> None:
    request = await team.approvals.ask_plan("# Plan", by="alice")
    await team.approvals.answer(request.id, approve=approve, by=LEAD)
    with pytest.raises(Refused) as error:
        await team.approvals.answer(request.id, approve=not approve, by=LEAD)
    assert error.value.reason == "already_answered"
    assert len((await team.mailbox.read("alice")).entries) == 1


async def test_an_answer_about_something_else_does_not_count(team: Team) -> None:
    plan = await team.approvals.ask_plan("# Plan", by="alice")
    shutdown = await team.approvals.ask_shutdown("alice", by=LEAD)
    for request, by in ((plan, LEAD), (shutdown, "alice")):
        with pytest.raises(Refused) as error:
            await team.approvals.answer(request.id, approve=True, by=by, digest="0" * 64)
        assert error.value.reason == "wrong_digest"


async def test_an_unknown_request_is_not_found_and_the_error_names_the_pending(
    team: Team,
) -> None:
    request = await team.approvals.ask_plan("# Plan", by="alice")
    for wanted in ("plan_approval-1@alice@crew", "x"):
        with pytest.raises(NotFound, match=request.id):
            await team.approvals.answer(wanted, approve=True, by=LEAD)
        with pytest.raises(NotFound, match=request.id):
            await team.approvals.get(wanted)


async def test_two_requests_of_one_millisecond_have_two_ids(team: Team) -> None:
    first = await team.approvals.ask_shutdown("alice", by=LEAD)
    second = await team.approvals.ask_shutdown("alice", by=LEAD)
    assert (first.id, second.id) == (f"shutdown-{MS}@alice", f"shutdown-{MS + 1}@alice")
    assert second.created_ms == MS


async def test_an_answer_after_the_deadline_makes_it_a_no(team: Team, ticker: Ticker) -> None:
    request = await team.approvals.ask_plan("# Plan", by="alice", deadline_s=1.5)
    assert request.deadline_ms == MS + 1500
    ticker.ms += 1500
    with pytest.raises(Refused) as error:
        await team.approvals.answer(request.id, approve=True, by=LEAD)
    assert error.value.reason == "expired"
    stored = await team.approvals.get(request.id)
    assert (stored.state, stored.answered_by) == ("expired", None)
    sender, text, _ = await last_message(team, "alice")
    assert sender == LEAD
    assert '"approved":false,"feedback":"No answer by the deadline."' in text
    assert await team.approvals.expire() == []
    with pytest.raises(Refused) as error:
        await team.approvals.answer(request.id, approve=True, by=LEAD)
    assert error.value.reason == "expired"
    assert len((await team.mailbox.read("alice")).entries) == 1


async def test_requests_past_their_deadline_expire_together(team: Team, ticker: Ticker) -> None:
    plan = await team.approvals.ask_plan("# Plan", by="alice", deadline_s=1)
    shutdown = await team.approvals.ask_shutdown("bob", by=LEAD, deadline_s=1)
    call = await ask_permission(team, deadline_s=1)
    open_plan = await team.approvals.ask_plan("# Plan", by="bob", deadline_s=2)
    assert await team.approvals.expire() == []
    ticker.ms += 1000
    before = len(await team.events())
    expired = await team.approvals.expire()
    assert {request.id for request in expired} == {plan.id, shutdown.id, call.id}
    assert {request.state for request in expired} == {"expired"}
    event = (await team.events())[before]
    assert (event.actor, event.op) == ("system", "request.expire")
    assert len(await team.events()) == before + 1
    alice = [entry.message.text for entry in (await team.mailbox.read("alice")).entries]
    assert '"approved":false' in alice[0]
    assert '"subtype":"error"' in alice[1]
    sender, text, _ = await last_message(team, LEAD)
    assert sender == "bob"
    assert '"type":"shutdown_rejected"' in text
    assert await team.approvals.pending() == [open_plan]


async def test_permissions_that_were_answered_long_ago_are_only_in_the_log(
    team: Team, ticker: Ticker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bullpen.team.requests.rules.SETTLED_KEPT", 2)
    plan = await team.approvals.ask_plan("# Plan", by="alice")
    await team.approvals.answer(plan.id, approve=True, by=LEAD)
    waiting = await ask_permission(team)
    asked = []
    for _ in range(4):
        request = await ask_permission(team)
        await team.approvals.answer(request.id, approve=True, by=LEAD)
        asked.append(request.id)
        ticker.ms += 10
    ticker.ms += 86_400_000 - 20
    await team.approvals.expire()
    assert set(await team.approvals.all()) == {plan.id, waiting.id, *asked[2:]}
    before = len(await team.events())
    await team.approvals.expire()
    assert len(await team.events()) == before
    assert asked[0] in str([event.changes for event in await team.events()])


async def test_pending_are_those_that_can_still_be_answered(team: Team, ticker: Ticker) -> None:
    late = await team.approvals.ask_plan("# A", by="alice", deadline_s=1)
    ticker.ms += 10
    to_lead = await team.approvals.ask_plan("# B", by="alice")
    ticker.ms += 10
    to_bob = await team.approvals.ask_plan("# C", by="alice", to="bob")
    answered = await team.approvals.ask_plan("# D", by="bob")
    await team.approvals.answer(answered.id, approve=True, by=LEAD)
    assert await team.approvals.pending() == [late, to_lead, to_bob]
    assert await team.approvals.pending(to="bob") == [to_bob]
    ticker.ms += 1000
    assert await team.approvals.pending() == [to_lead, to_bob]


@pytest.mark.parametrize("deadline_s", [0, -1])
async def test_a_deadline_is_in_the_future(team: Team, deadline_s: float) -> None:
    with pytest.raises(Invalid):
        await team.approvals.ask_shutdown("alice", by=LEAD, deadline_s=deadline_s)


async def test_a_yes_is_used_by_its_asker_for_its_call_once_and_soon(
    team: Team, ticker: Ticker
) -> None:
    """R-4.1: what was allowed is exactly one call."""
    asked = await team.approvals.ask_permission("Bash", {"command": "ls"}, by="alice")

    async def why_not(by: str = "alice", digest: str | None = asked.digest) -> str:
        with pytest.raises(Refused) as error:
            await team.approvals.redeem(asked.id, by=by, digest=digest)
        return error.value.reason

    assert await why_not() == "not_approved"
    await team.approvals.answer(asked.id, approve=True, by=LEAD)
    assert await why_not(by="bob") == "not_approved"
    assert await why_not(digest="0" * 64) == "wrong_digest"
    ticker.ms += YES_HOLDS_MS
    used = await team.approvals.redeem(asked.id, by="alice", digest=asked.digest)
    assert used.used_ms == ticker.ms
    assert await why_not() == "already_used"
    late = await team.approvals.ask_permission("Bash", {"command": "ls"}, by="alice")
    await team.approvals.answer(late.id, approve=True, by=LEAD)
    ticker.ms += YES_HOLDS_MS + 1
    with pytest.raises(Refused) as error:
        await team.approvals.redeem(late.id, by="alice", digest=late.digest)
    assert error.value.reason == "too_old"


async def test_a_request_can_be_taken_back_by_its_asker_only(team: Team) -> None:
    asked = await team.approvals.ask_permission("Bash", {"command": "ls"}, by="alice")
    await team.approvals.withdraw(asked.id, by="bob", why="no")
    assert (await team.approvals.get(asked.id)).state == "pending"
    await team.approvals.withdraw(asked.id, by="alice", why="It is done.")
    assert (await team.approvals.get(asked.id)).state == "expired"
    with pytest.raises(Refused, match=r"is no longer open\. It is done\.") as error:
        await team.approvals.answer(asked.id, approve=True, by=LEAD)
    assert error.value.reason == "expired"
