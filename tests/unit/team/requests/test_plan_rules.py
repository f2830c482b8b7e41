"""What ends plan mode: the record of an approval, and nothing that only looks like one."""

from __future__ import annotations

from typing import Any

from bullpen.protocol.agent import AgentFacts, AgentSpec
from bullpen.protocol.names import plan_digest
from bullpen.protocol.policy import MODES, Plan, Policy, Standing
from bullpen.protocol.request import Request
from bullpen.team.requests.mode_rules import wider_mode
from bullpen.team.requests.plan_rules import entered, settled
from support.rows import each_row

TEXT = "# The plan"


def agent(*, mode: str = "plan", **policy: Any) -> AgentFacts:
    spec = AgentSpec.new(
        driver="d", backend="b", cwd="/", mode=mode, policy=Policy.new(**policy).raw
    )
    plan = Plan.new(request_id="p-1", digest=plan_digest(TEXT))
    standing = Standing.new(mode="plan", plan=plan.raw)
    return AgentFacts.new(spec=spec.raw, nonce="n", since_ms=0, standing=standing.raw)


def approval(**changes: Any) -> Request:
    request = Request.new(
        id="p-1",
        kind="plan",
        sender="alice",
        to="team-lead",
        created_ms=1,
        state="approved",
        subject={"plan": TEXT},
        digest=plan_digest(TEXT),
        approver="human",
        answered_by="team-lead",
        answered_ms=2,
        voice="human",
    )
    return request.evolve(**changes)


def test_an_approval_of_this_plan_ends_plan_mode() -> None:
    status, after = settled(agent(), approval())
    assert (status.answer, after.mode, after.standing.plan) == ("approved", "acceptEdits", None)


@each_row(
    "changes",
    [
        {"state": "denied"},
        {"state": "expired"},
        {"id": "p-0"},
        {"digest": plan_digest("# Another")},
        {"subject": {"plan": "# Another"}},
        {"subject": {}},
        {"subject": {"plan": "# Another"}, "digest": plan_digest("# Another")},
        {"kind": "permission"},
        {"voice": "agent"},
        {"voice": "policy"},
        {"voice": None},
        {"approver": "lead", "voice": "policy"},
        {"approver": "rule", "voice": "agent"},
        {"approver": "auto", "voice": "agent"},
    ],
)
def test_what_is_no_approval_of_this_plan_leaves_plan_mode(changes: dict[str, Any]) -> None:
    """R-4.3: also if the record itself was tampered with."""
    status, after = settled(agent(), approval(**changes))
    assert (status.answer, after.mode) == ("rejected", "plan")


def test_a_request_that_is_gone_approves_nothing() -> None:
    status, after = settled(agent(), None)
    assert (status.answer, after.mode) == ("rejected", "plan")


def test_a_pending_request_changes_nothing() -> None:
    before = agent()
    status, after = settled(before, approval(state="pending", voice=None, answered_ms=None))
    assert (status.answer, after) == ("waiting", before)


@each_row("widest", [mode for mode in MODES if mode != "plan"])
@each_row("given", [*MODES, "nonsense", None])
def test_no_answer_leads_to_a_wider_mode_than_the_spawn_allows(
    widest: Any, given: str | None
) -> None:
    answer = None if given is None else {"permissionMode": given}
    _, after = settled(agent(after_plan=widest), approval(answer=answer))
    assert after.mode != "plan"
    assert not wider_mode(after.mode, widest)


def test_who_planned_by_its_own_will_comes_back_to_its_mode() -> None:
    before = entered(agent(mode="acceptEdits", after_plan="bypassPermissions"))
    assert (before.mode, before.standing.plan) == ("plan", None)
    plan = Plan.new(request_id="p-1", digest=plan_digest(TEXT))
    again = before.evolve(standing=before.standing.evolve(plan=plan.raw).raw)
    assert settled(again, approval())[1].mode == "acceptEdits"
