"""A request that needs an answer: shutdown, plan, permission or question. Bullpen's own record."""

from __future__ import annotations

from typing import Any, Literal

from bullpen.protocol.record import Wire, field

RequestKind = Literal["shutdown", "plan", "permission", "question"]
RequestState = Literal["pending", "approved", "denied", "expired"]

Voice = Literal["human", "agent", "policy"]
"""Who acts in a member's name: a person, a model, or code by a rule that was set before."""

Answerer = Literal["human", "lead", "policy", "rule", "auto"]
"""Who may answer. A person always may; a lead that is a model only if it is `lead`."""


class Request(Wire):
    """One request. It is answered at most once. No answer by its deadline means no."""

    id: str = field(min_length=1)
    kind: RequestKind
    sender: str = field(key="from", min_length=1)
    to: str = field(min_length=1)
    created_ms: int
    deadline_ms: int | None = None
    state: RequestState = "pending"
    # Exactly what is asked: a plan's text and digest, a tool call, questions, why to shut down.
    subject: dict[str, Any] = field(default_factory=dict)
    digest: str | None = None
    # Who may answer; without one, the member that was asked and the lead.
    approver: Answerer | None = None
    answered_by: str | None = None
    answered_ms: int | None = None
    voice: Voice | None = None
    # When the permitted call was made: an approval covers one call.
    used_ms: int | None = None
    # What the answer adds: feedback, changed input, the mode after a plan.
    answer: dict[str, Any] | None = None
