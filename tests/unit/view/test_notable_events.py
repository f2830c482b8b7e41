"""What people are notified of."""

from __future__ import annotations

import pytest

from bullpen.protocol.agent import AgentFacts, AgentSpec
from bullpen.protocol.changes import Event, PutMember
from bullpen.protocol.team import Member
from bullpen.view.notable_events import happenings


def ended(failure: str | None) -> Event:
    """The event of an agent that failed."""
    spec = AgentSpec.new(driver="native", backend="subprocess", cwd="/")
    facts = AgentFacts.new(
        spec=spec.raw, nonce="n", phase="ended", since_ms=1, end="failed",
        cause="The API at api.example does not accept the API key.", failure=failure,
    )  # fmt: skip
    member = Member.new(
        agent_id="ann@night", name="ann", agent_type="", joined_at=1, cwd="/", bullpen=facts.raw
    )
    time = "2026-01-01T00:00:00.000Z"
    return Event(7, time, "ann", "agent.end", (PutMember(member),))


@pytest.mark.parametrize("failure", ["key", "permission", "credit", "model"])
def test_a_refusal_that_only_a_person_can_put_right_is_told(failure: str) -> None:
    (told,) = happenings("night", ended(failure))
    assert (told.kind, told.agent, told.seq) == ("failed", "ann", 7)
    assert "does not accept the API key" in told.text


@pytest.mark.parametrize("failure", ["rate_limit", "overload", "network", "server", None])
def test_what_passes_by_itself_is_not_told(failure: str | None) -> None:
    assert happenings("night", ended(failure)) == []
