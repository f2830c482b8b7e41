"""Rules for changing the mode of an agent after its spawn. Pure.

People may set every mode. A lead that is a model never gives a mode that is wider than its own, and
never skips the approval of a plan that is not its own to approve.
"""

from __future__ import annotations

from typing import get_args

from bullpen.errors import Invalid, Refused
from bullpen.protocol.agent import AgentFacts
from bullpen.protocol.changes import Change, PutRequest
from bullpen.protocol.message import Message
from bullpen.protocol.policy import DEFAULT_MODE, MODES, Mode
from bullpen.protocol.request import Voice
from bullpen.protocol.team import TeamConfig
from bullpen.store.contract import View
from bullpen.team.requests import rules as request_rules
from bullpen.team.requests.mode_rules import (
    mode_after_plan,
    mode_to_give,
    plan_approver_of,
    wider_mode,
)

PLAN_ENDED = "Its mode was changed."
_STORED = "stored"


def known_mode(text: str) -> Mode:
    """Return the mode of that name. Raises Invalid."""
    for mode in get_args(Mode):
        if mode == text:
            found: Mode = mode
            return found
    raise Invalid(f"There is no mode {text!r}.", remedy=f"Choose one of these: {', '.join(MODES)}.")


def check_mode(
    team: TeamConfig, name: str, agent: AgentFacts, mode: Mode, *, by: str, voice: Voice
) -> None:
    """Refuse a mode that a model may not give. That only the lead gives modes is checked before.

    Raises:
        Refused: not_a_person, wider_than_lead or not_approver.
    """
    if voice == "human":
        return
    if name == by:
        raise Refused(
            "You cannot change your own mode.",
            reason="not_a_person",
            remedy="Ask a person to run `bullpen mode`. To plan first, call EnterPlanMode.",
        )
    if not wider_mode(mode, agent.mode):
        return
    if agent.mode == "plan" and plan_approver_of(agent.spec.policy, leads=False) != "lead":
        raise Refused(
            f"{name!r} is in plan mode, and its plans are not yours to approve.",
            reason="not_approver",
            remedy="Wait until its plan is approved.",
        )
    widest = _widest(team, agent, by)
    if wider_mode(mode, widest):
        raise Refused(
            f"{by!r} cannot give {name!r} the mode {mode}: at most {widest}.",
            reason="wider_than_lead",
            remedy="Ask a person to run `bullpen mode`.",
        )


def _widest(team: TeamConfig, agent: AgentFacts, by: str) -> Mode:
    """Return the widest mode that a lead can give this agent now."""
    member = team.member(by)
    lead = member.agent if member is not None else None
    # A lead that another program runs has no rights on record: as much as it may spawn.
    widest = DEFAULT_MODE if lead is None else mode_to_give(lead, leads=True)
    after = mode_after_plan(agent)
    return after if agent.mode == "plan" and wider_mode(widest, after) else widest


def changed(agent: AgentFacts, mode: Mode, *, leads: bool, by: str) -> AgentFacts:
    """Return the agent in another mode. A plan that it submitted no longer counts."""
    only_leads = leads and mode == "delegate"
    given = mode_to_give(agent, leads=True) if only_leads else None
    after = agent.standing.evolve(mode=mode, mode_by=by, plan=None, teammates=given)
    return agent.evolve(standing=after.raw)


def marked_stored(message: Message) -> Message:
    """Return the message about a mode that is in the store already."""
    return message.evolve(bullpen={**(message.bullpen or {}), _STORED: True})


def is_stored(message: Message) -> bool:
    """Return whether the mode in a message was put in the store with it.

    A later message may have changed the mode since, which this one must not undo.
    """
    return (message.bullpen or {}).get(_STORED) is True


def ended_plan(view: View, agent: AgentFacts, *, now_ms: int) -> list[Change]:
    """Return the end of the plan that an agent waits for, when its mode is changed."""
    plan = agent.standing.plan
    request = None if plan is None else view.request(plan.request_id)
    if request is None or request.state != "pending":
        return []
    return [PutRequest(request_rules.expired(request, now_ms=now_ms, why=PLAN_ENDED))]
