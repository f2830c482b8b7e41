"""What each permission mode allows, and which of two modes is wider. Pure.

`bullpen.agents.permissions` checks the rules for single tools, paths and commands. This module
decides when no rule applies.
"""

from __future__ import annotations

from typing import Literal

from bullpen.protocol.agent import AgentFacts
from bullpen.protocol.policy import DEFAULT_MODE, Approver, Mode, PlanApprover, Policy

Effect = Literal["allow", "ask", "deny"]
Kind = Literal["read", "write", "run", "team"]
"""What a tool can change: nothing, files, anything a program can, or the team."""

_WIDTH: dict[Effect, int] = {"deny": 0, "ask": 1, "allow": 2}

_Row = tuple[Effect, Effect, Effect, Effect, Effect]
# Columns: read inside, read outside, write inside, write outside, run.
_TABLE: dict[Mode, _Row] = {
    "default": ("allow", "ask", "ask", "ask", "ask"),
    "acceptEdits": ("allow", "ask", "allow", "ask", "ask"),
    "bypassPermissions": ("allow", "allow", "allow", "allow", "allow"),
    "plan": ("allow", "ask", "deny", "deny", "deny"),
    # For a teammate. A lead that only leads has no tools that this applies to.
    "delegate": ("allow", "ask", "allow", "ask", "ask"),
    "dontAsk": ("allow", "deny", "deny", "deny", "deny"),
}


def effect_of_mode(mode: Mode, kind: Kind, *, inside: bool) -> Effect:
    """Return what a mode does with this kind of tool, inside or outside the working directories."""
    read_in, read_out, write_in, write_out, run = _TABLE[mode]
    match kind:
        case "team":
            return "allow"
        case "read":
            return read_in if inside else read_out
        case "write":
            return write_in if inside else write_out
        case "run":
            return run


def wider_mode(mode: Mode, ceiling: Mode) -> bool:
    """Return whether a mode permits anything that another one does not."""
    pairs = zip(_TABLE[mode], _TABLE[ceiling], strict=True)
    return any(_WIDTH[one] > _WIDTH[other] for one, other in pairs)


def approver_of(policy: Policy, *, leads: bool) -> Approver:
    """Return who answers an agent's requests. No agent approves its own."""
    return "human" if leads and policy.approver == "lead" else policy.approver


def plan_approver_of(policy: Policy, *, leads: bool) -> PlanApprover:
    """Return who answers an agent's plans. With no person, only a rule can answer the lead's."""
    if leads and policy.plan_approver == "lead":
        return "rule" if policy.approver == "policy" else "human"
    return policy.plan_approver


def mode_to_give(agent: AgentFacts, *, leads: bool) -> Mode:
    """Return the widest mode that an agent can give others.

    Delegating takes tools only from the lead itself, so it gives what it could give before.
    """
    if leads and agent.mode == "delegate":
        return agent.spec.policy.teammates or agent.standing.teammates or DEFAULT_MODE
    return agent.mode


def mode_after_plan(agent: AgentFacts) -> Mode:
    """Return the widest mode that an agent can get when its plan is approved."""
    start = agent.spec.start_mode
    return agent.spec.policy.after_plan if start == "plan" else start


def mode_given(agent: AgentFacts, asked: str | None) -> Mode:
    """Return the mode that an approval of its plan gives an agent.

    It is the mode the answer asks for, or without one the widest that its spawn allows; never a
    wider one.
    """
    widest = mode_after_plan(agent)
    match asked:
        case "default" | "acceptEdits" | "bypassPermissions" | "delegate" | "dontAsk" as mode:
            return widest if wider_mode(mode, widest) else mode
        case _:
            return widest
