"""A person who acts in the name of the lead is shown as `you`, the lead's agent by its name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bullpen.protocol.changes import Deliver, Event, PutRequest
from bullpen.protocol.message import Message
from bullpen.protocol.names import LEAD
from bullpen.protocol.request import Request, Voice
from bullpen.view.news import actor_of, answered_by, news
from bullpen.view.sentences import happened

CALL = {"toolName": "Bash", "input": {"command": "make"}}


def _answer(voice: Voice) -> Event:
    request = Request.new(
        id="perm-1", kind="permission", sender=LEAD, to=LEAD, state="approved", subject=CALL,
        created_ms=1, answered_by=LEAD, answered_ms=2, voice=voice,
    )  # fmt: skip
    return _event("request.answer", PutRequest(request))


def _mail(voice: str | None, to: str = LEAD) -> Event:
    own = {"voice": voice} if voice else None
    message = Message.new(sender=LEAD, text="Stop", timestamp="2026-01-01T00:00:00Z", bullpen=own)
    return _event("mail.send", Deliver(to, message))


def _event(op: str, change: PutRequest | Deliver) -> Event:
    return Event(seq=1, time="2026-01-01T00:00:00Z", actor=LEAD, op=op, changes=(change,))


@pytest.mark.parametrize(
    ("voice", "who"), [("human", "you"), ("agent", LEAD), ("policy", "a rule")]
)
def test_an_answer_names_who_gave_it(voice: Voice, who: str) -> None:
    """Else it would read as if an agent had approved its own call."""
    event = _answer(voice)
    assert news(event) == [f"{who} allowed {LEAD}: Bash make"]
    assert actor_of(event) == who
    (change,) = event.changes
    assert isinstance(change, PutRequest)
    assert answered_by(change.request) == who


@pytest.mark.parametrize(("voice", "who"), [("human", "you"), ("agent", LEAD)])
def test_an_answer_is_a_message_from_who_gave_it(voice: Voice, who: str) -> None:
    message = Message.new(sender=LEAD, text="{}", timestamp="2026-01-01T00:00:00Z")
    answer = _answer(voice)
    sent = replace(answer, changes=(*answer.changes, Deliver("ann", message)))
    assert happened(sent).endswith(f"message from {who} to ann")


def test_a_message_of_a_person_to_the_leads_agent_is_news() -> None:
    """It has the name of the lead as its sender, and is no note of the agent to itself."""
    assert news(_mail("human")) == [f"you to {LEAD}: Stop"]
    assert happened(_mail("human")).startswith(f"message from you to {LEAD}")
    assert actor_of(_mail("human")) == "you"
    assert news(_mail(None)) == []
    assert news(_mail(None, "ann")) == [f"{LEAD} to ann: Stop"]
    assert actor_of(_mail(None, "ann")) == LEAD
