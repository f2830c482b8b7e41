"""Never wider than the parent: what an agent may give to another that it spawns."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from bullpen.agents.policy.covering import covered_by, rebased
from bullpen.agents.policy.paths import absolute, lies_in, place, real_path
from bullpen.agents.policy.rules import rule_of
from bullpen.agents.tools.box import TOOLS
from bullpen.errors import Refused
from bullpen.protocol.agent import AgentFacts, AgentSpec
from bullpen.protocol.policy import DEFAULT_MODE, Mode, Policy, Sandbox
from bullpen.team.policy_rules import wider_mode

_TEAM_TOOLS = tuple(tool.name for tool in TOOLS if tool.kind == "team")
_DEFAULTS = Policy.new()
# What a child has of its parent unless it says something else.
_INHERITED = ("approver", "answers", "deadline_s", "plan_approver", "plan_rule", "sandbox")


def under(
    spec: AgentSpec,
    parent: AgentFacts,
    *,
    of: str,
    parent_leads: bool,
    reads_freely: bool = False,
) -> AgentSpec:
    """The spec as a child of this parent: with what it inherits, if it is not wider.

    `of` is the parent's name. `reads_freely` says that the child's program asks nobody before it
    reads, and the parent's does.

    Raises:
        Refused: wider_than_parent; the text names everything that is. plan_mode.
    """
    if parent.mode == "plan":
        raise Refused(
            f"{of!r} is in plan mode, so it cannot have others work for it.",
            reason="plan_mode",
            remedy="Submit the plan first, and spawn when it is approved.",
        )
    above = _Above.of(parent, leads=parent_leads)
    mode = above.inherited_mode if spec.mode is None else spec.start_mode
    wider = [
        *_wider_mode(mode, spec, above),
        *_wider_rules(spec, above),
        *_wider_places(spec, above),
        *_wider_tools(spec, above),
        *_wider_sandbox(spec.rights.closed_in, above),
        *_wider_approvers(spec.rights, above.policy),
        *(_wider_reading(spec, above) if reads_freely else ()),
    ]
    if wider:
        raise Refused(
            f"This would be wider than what {of!r} may do itself: {'; '.join(wider)}.",
            reason="wider_than_parent",
            remedy="Ask for no more than you have; a person can spawn an agent that has more.",
        )
    return spec.evolve(
        mode=mode,
        policy=_inherited(spec, above, of).raw,
        tools=_tools(spec, above),
        disallowed_tools=_disallowed(spec, parent.asked),
        hooks=_hooks(spec.hooks, parent.asked.hooks),
    )


@dataclass(frozen=True, slots=True)
class _Above:
    """What a child is measured against: its parent, as it stands now."""

    spec: AgentSpec
    policy: Policy
    mode: Mode
    allow: tuple[str, ...]
    directories: tuple[str, ...]
    # None if it has all tools.
    tools: tuple[str, ...] | None

    @classmethod
    def of(cls, parent: AgentFacts, *, leads: bool) -> _Above:
        spec, stands = parent.asked, parent.stands
        policy = spec.rights
        only_leads = leads and parent.mode == "delegate"
        mode = (policy.teammates or DEFAULT_MODE) if only_leads else parent.mode
        tools = None if spec.tools is None else tuple(filter(_works, spec.tools))
        if only_leads and not tools:
            # Its mode takes its own tools away, and nobody else's.
            tools = None
        return cls(
            spec,
            policy,
            mode,
            (*policy.allow, *stands.allow),
            (*policy.directories, *stands.directories),
            tools,
        )

    @property
    def inherited_mode(self) -> Mode:
        # To lead only is for leads. Of a teammate it means the same as acceptEdits.
        return "acceptEdits" if self.mode == "delegate" else self.mode

    @property
    def after_plan(self) -> Mode:
        """The widest mode of a child after its plan."""
        return self.policy.after_plan if self.mode == "plan" else self.inherited_mode


def _works(name: str) -> bool:
    """Whether a tool, or a part of one, is more than a tool of the team."""
    return rule_of(name).tool not in _TEAM_TOOLS


def _stated(policy: Policy, name: str) -> Any:
    """What a policy says itself; None if it is what everybody has."""
    value = getattr(policy, name)
    return None if value == getattr(_DEFAULTS, name) else value


def _wider_mode(mode: Mode, spec: AgentSpec, above: _Above) -> Iterable[str]:
    if wider_mode(mode, above.mode):
        yield f"the mode {mode}, where {above.mode} is the widest"
    after = _stated(spec.rights, "after_plan")
    if after is not None and wider_mode(after, above.after_plan):
        yield f"the mode {after} after its plan, where {above.after_plan} is the widest"


def _wider_rules(spec: AgentSpec, above: _Above) -> Iterable[str]:
    if above.mode == "bypassPermissions":
        return
    known = [rebased(text, above.spec.cwd) for text in above.allow]
    for text in spec.rights.allow:
        if not covered_by(rebased(text, spec.cwd), known):
            yield f"the rule {text}"


def _wider_places(spec: AgentSpec, above: _Above) -> Iterable[str]:
    if above.mode == "bypassPermissions":
        return
    home, roots = os.path.expanduser("~"), _roots(above)
    for directory in dict.fromkeys([spec.cwd, *spec.rights.directories]):
        if not lies_in(place(directory, spec.cwd, home), roots):
            yield f"the directory {directory}"


def _roots(above: _Above) -> list[str]:
    home, cwd = os.path.expanduser("~"), above.spec.cwd
    return [absolute(each, cwd, home) for each in (cwd, *above.directories)]


def _wider_tools(spec: AgentSpec, above: _Above) -> Iterable[str]:
    if above.tools is None or spec.tools is None:
        return
    for name in filter(_works, spec.tools):
        if not covered_by(name, above.tools, alike=False):
            yield f"the tool {name}"


def _wider_sandbox(wanted: Sandbox | None, above: _Above) -> Iterable[str]:
    closed = above.policy.closed_in
    if wanted is None or closed is None:
        return
    if wanted.network and not closed.network:
        yield "the network in its sandbox"
    home = os.path.expanduser("~")
    writable = [*_roots(above), *closed.write]
    for name, paths, roots in (
        ("read", wanted.read, [*writable, *closed.read]),
        ("written", wanted.write, writable),
    ):
        for path in paths:
            if not lies_in(place(path, above.spec.cwd, home), roots):
                yield f"{path}, to be {name} in its sandbox"


def _wider_reading(spec: AgentSpec, above: _Above) -> Iterable[str]:
    everything = any(rule.tool == "Read" and rule.blanket for rule in map(rule_of, above.allow))
    if above.mode != "bypassPermissions" and not everything:
        yield (
            f"a program that reads files anywhere unasked ({spec.driver}), which takes the rule"
            " Read among those that allow"
        )


def _wider_approvers(policy: Policy, above: Policy) -> Iterable[str]:
    approver, answers = _stated(policy, "approver"), policy.answers
    if approver not in (None, above.approver):
        yield f"permission given by {approver}, not by {above.approver}"
    if answers is not None and answers != above.answers:
        yield f"the policy file {answers}"
    planner, rule = _stated(policy, "plan_approver"), policy.plan_rule
    if above.plan_approver == "auto":
        return
    if planner not in (None, "human", above.plan_approver):
        yield f"plans approved by {planner}, not by {above.plan_approver}"
    if rule is not None and rule != above.plan_rule:
        yield f"the rule {rule!r} for plans"


def _inherited(spec: AgentSpec, above: _Above, of: str) -> Policy:
    """The policy of a child, and of each part that it has from its parent that it does."""
    own = spec.rights
    made: dict[str, Any] = {}
    sources = dict(own.sources)
    for name in _INHERITED:
        value = getattr(above.policy, name)
        if _stated(own, name) is None and value != getattr(own, name):
            made[name] = value
            sources[name] = f"from {of}"
    made["after_plan"] = own.after_plan
    if wider_mode(own.after_plan, above.after_plan):
        made["after_plan"] = above.after_plan
        sources["after_plan"] = f"from {of}"
    for name, rules in (("deny", above.policy.deny), ("ask", above.policy.ask)):
        made[name] = _joined(getattr(own, name), _moved(rules, spec, above), sources, of)
    if not own.allow:
        made["allow"] = _joined([], _moved(above.allow, spec, above, loose=False), sources, of)
    if not own.directories:
        made["directories"] = _joined([], _roots(above)[1:], sources, of)
    return own.evolve(**made, sources=sources)


def _joined(
    own: Iterable[str], given: Iterable[str], sources: dict[str, str], of: str
) -> list[str]:
    joined = list(own)
    for text in given:
        if text not in joined:
            joined.append(text)
            sources[text] = f"from {of}"
    return joined


def _moved(
    rules: Iterable[str], spec: AgentSpec, above: _Above, *, loose: bool = True
) -> Iterable[str]:
    """The parent's rules, about the same files also where the child works elsewhere.

    Those that forbid are also kept as they are (`loose`): names like `*.env` are meant anywhere.
    """
    if real_path(spec.cwd) == real_path(above.spec.cwd):
        yield from rules
        return
    for text in rules:
        there = rebased(text, above.spec.cwd)
        if loose and there != text:
            yield text
        yield there


def _tools(spec: AgentSpec, above: _Above) -> list[str] | None:
    if spec.tools is not None or above.tools is None:
        return spec.tools
    return [*above.tools, *_TEAM_TOOLS]


def _disallowed(spec: AgentSpec, parent: AgentSpec) -> list[str] | None:
    names = [*(spec.disallowed_tools or ()), *filter(_works, parent.disallowed_tools or ())]
    return list(dict.fromkeys(names)) or spec.disallowed_tools


def _hooks(own: dict[str, Any] | None, above: dict[str, Any] | None) -> dict[str, Any] | None:
    """The hooks of both. A child cannot be rid of what watches its parent."""
    if not own or not above:
        return own or above
    joined = dict(above)
    for event, rows in own.items():
        known = joined.get(event)
        if isinstance(known, list) and isinstance(rows, list):
            joined[event] = [*known, *(row for row in rows if row not in known)]
        elif known is None:
            joined[event] = rows
    return joined
