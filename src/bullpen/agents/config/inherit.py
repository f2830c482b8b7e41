"""Rights that an agent passes on when it spawns another: never more than its own."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from bullpen.agents.config.settings import hooks_for_children, joined_hooks
from bullpen.agents.permissions.rule_language.paths import absolute, lies_in, place, real_path
from bullpen.agents.permissions.rule_language.redundant import covered_by, rebased
from bullpen.agents.permissions.rule_language.rule import rule_of
from bullpen.agents.permissions.rule_language.tool_names import TEAM_TOOLS
from bullpen.errors import Refused
from bullpen.protocol.agent import AgentFacts, AgentSpec
from bullpen.protocol.policy import Mode, Policy, Sandbox
from bullpen.sandbox.network.host_rules import covers
from bullpen.team.requests.mode_rules import mode_to_give, wider_mode

_DEFAULTS = Policy.new()
# What a child inherits unless it sets its own.
_INHERITED = ("approver", "answers", "deadline_s", "plan_approver", "plan_rule", "sandbox")


def under(
    spec: AgentSpec,
    parent: AgentFacts,
    *,
    of: str,
    parent_leads: bool,
    reads_freely: bool = False,
) -> AgentSpec:
    """The spec as a child of this parent, with what it inherits.

    `of` is the parent's name. `reads_freely` says that the child's program reads without asking,
    and the parent's does not. Raises Refused: plan_mode, or wider_than_parent, which names
    everything that is.
    """
    if parent.mode == "plan":
        raise Refused(
            f"{of!r} is in plan mode and may not spawn agents.",
            reason="plan_mode",
            remedy="Submit the plan first, then spawn when it is approved.",
        )
    above = _Above.of(parent, leads=parent_leads)
    mode = above.inherited_mode if spec.mode is None else spec.start_mode
    wider = [
        *_wider_mode(mode, spec, above),
        *_wider_rules(spec, above),
        *_wider_places(spec, above),
        *_wider_tools(spec, above),
        *_wider_sandbox(spec.policy.sandbox, above),
        *_wider_approvers(spec.policy, above.policy),
        *(_wider_reading(spec, above) if reads_freely else ()),
    ]
    if wider:
        raise Refused(
            f"{of!r} cannot spawn an agent that may do more than itself: {'; '.join(wider)}.",
            reason="wider_than_parent",
            remedy="Ask only for rights that you have. A person can spawn an agent with more.",
        )
    return spec.evolve(
        mode=mode,
        policy=_inherited(spec, above, of).raw,
        tools=_tools(spec, above),
        disallowed_tools=_disallowed(spec, parent.spec),
        # A child cannot remove its parent's hooks.
        hooks=joined_hooks(hooks_for_children(parent.spec.hooks), spec.hooks or {}) or None,
    )


@dataclass(frozen=True, slots=True)
class _Above:
    """The parent's current rights, which limit a child's."""

    spec: AgentSpec
    policy: Policy
    mode: Mode
    allow: tuple[str, ...]
    directories: tuple[str, ...]
    # None if it has all tools.
    tools: tuple[str, ...] | None

    @classmethod
    def of(cls, parent: AgentFacts, *, leads: bool) -> _Above:
        spec, stands = parent.spec, parent.standing
        policy = spec.policy
        only_leads = leads and parent.mode == "delegate"
        mode = mode_to_give(parent, leads=leads)
        tools = None if spec.tools is None else tuple(filter(_works, spec.tools))
        if only_leads and not tools:
            # Its mode removes its own tools, but not those of others.
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
        # Only leads can delegate. For a teammate, the mode means acceptEdits.
        return "acceptEdits" if self.mode == "delegate" else self.mode

    @property
    def after_plan(self) -> Mode:
        """The widest mode of a child after its plan."""
        return self.policy.after_plan if self.mode == "plan" else self.inherited_mode


def _works(name: str) -> bool:
    """Whether a tool, or a part of one, is more than a team tool."""
    return rule_of(name).tool not in TEAM_TOOLS


def _stated(policy: Policy, name: str) -> Any:
    """The value that a policy sets itself; None if it is the default."""
    value = getattr(policy, name)
    return None if value == getattr(_DEFAULTS, name) else value


def _wider_mode(mode: Mode, spec: AgentSpec, above: _Above) -> Iterable[str]:
    if wider_mode(mode, above.mode):
        yield f"the mode {mode} (at most {above.mode})"
    after = _stated(spec.policy, "after_plan")
    if after is not None and wider_mode(after, above.after_plan):
        yield f"the mode {after} after its plan (at most {above.after_plan})"


def _wider_rules(spec: AgentSpec, above: _Above) -> Iterable[str]:
    if above.mode == "bypassPermissions":
        return
    known = [rebased(text, above.spec.cwd) for text in above.allow]
    for text in spec.policy.allow:
        if not covered_by(rebased(text, spec.cwd), known):
            yield f"the rule {text}"


def _wider_places(spec: AgentSpec, above: _Above) -> Iterable[str]:
    if above.mode == "bypassPermissions":
        return
    home, roots = os.path.expanduser("~"), _roots(above)
    for directory in dict.fromkeys([spec.cwd, *spec.policy.directories]):
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
    closed = above.policy.sandbox
    if wanted is None or closed is None:
        return
    if wanted.network and not closed.network:
        yield "the network in its sandbox"
    for host in wanted.hosts:
        if not covers(host, closed):
            yield f"the host {host} in its sandbox"
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
            f"a program that reads files anywhere unasked ({spec.driver}), which needs the allow"
            " rule Read"
        )


def _wider_approvers(policy: Policy, above: Policy) -> Iterable[str]:
    approver, answers = _stated(policy, "approver"), policy.answers
    if approver not in (None, above.approver):
        yield f"permission given by {approver} instead of {above.approver}"
    if answers is not None and answers != above.answers:
        yield f"the policy file {answers}"
    planner, rule = _stated(policy, "plan_approver"), policy.plan_rule
    if above.plan_approver == "auto":
        return
    if planner not in (None, "human", above.plan_approver):
        yield f"plans approved by {planner} instead of {above.plan_approver}"
    if rule is not None and rule != above.plan_rule:
        yield f"the rule {rule!r} for plans"


def _inherited(spec: AgentSpec, above: _Above, of: str) -> Policy:
    """The policy of a child, with the source of each part that its parent gave it."""
    own = spec.policy
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
    """The parent's rules for the same files, also if the child works elsewhere.

    Rules that forbid are also kept unchanged (`loose`): names like `*.env` are meant anywhere.
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
    return [*above.tools, *TEAM_TOOLS]


def _disallowed(spec: AgentSpec, parent: AgentSpec) -> list[str] | None:
    names = [*(spec.disallowed_tools or ()), *filter(_works, parent.disallowed_tools or ())]
    return list(dict.fromkeys(names)) or spec.disallowed_tools
