"""What a spec asks for that its driver could not keep. A program of others has its own tools.

What such a program asks for before it acts can be denied; what it does unasked cannot. So rules
about reading, a sandbox and the like are refused by name, and never quietly left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bullpen.agents.drivers.base import Capabilities
from bullpen.agents.drivers.programs import is_foreign
from bullpen.agents.policy.rules import about, rule_of
from bullpen.hooks import HookSet
from bullpen.protocol.agent import AgentSpec

_READING = ("Read", "Glob", "Grep", "LS", "NotebookRead")
_ANY = ("", "*")

Unkept = tuple[str, str]
"""A field, by the name that definitions have for it, and why it could not be kept."""


def unkept(spec: AgentSpec, can: Capabilities) -> list[Unkept]:
    """Everything in a spec that a driver with these capabilities could not keep."""
    found: list[Unkept] = []
    if not can.asks_to_read:
        found += _reading(spec)
    if is_foreign(spec.driver):
        if spec.rights.closed_in is not None:
            found.append(("sandbox", "it closes in our own commands, not those of other programs"))
        if spec.options.get("effort") is not None:
            found.append(("effort", "only the driver native can set it"))
    return found


def _reading(spec: AgentSpec) -> Iterator[Unkept]:
    why = "it asks nobody before it reads"
    if spec.tools is not None and not any(_gives_reading(name) for name in spec.tools):
        yield "tools", f"{why}, so Read cannot be kept from it"
    if taken := [name for name in spec.disallowed_tools or () if reads(name)]:
        yield "disallowedTools", f"{why}, so this could not be enforced: {', '.join(taken)}"
    if rules := [rule for rule in (*spec.rights.deny, *spec.rights.ask) if reads(rule)]:
        yield "rules", f"{why}, so these could not be enforced: {', '.join(rules)}"
    if hooks := list(dict.fromkeys(_hooks_on_reading(spec))):
        yield "hooks", f"{why}, so these would not be run: PreToolUse for {', '.join(hooks)}"


def _gives_reading(name: str) -> bool:
    """Whether a tool that is given lets files be read without a limit; the others add nothing."""
    return name.strip() == "Read"


def reads(rule: str) -> bool:
    """Whether a rule, or the name of a tool, is about reading."""
    return any(about(rule_of(rule), tool, strict=True) for tool in _READING)


def _hooks_on_reading(spec: AgentSpec) -> Iterable[str]:
    """The matchers that name a tool that reads. One for all tools watches what is asked for."""
    for hook in HookSet.of(spec.hooks).hooks:
        named = hook.event == "PreToolUse" and hook.matcher not in _ANY
        if named and any(hook.matches({"tool_name": tool}, None) for tool in _READING):
            yield hook.matcher
