"""Judge the spec of an agent that an agent elsewhere spawned, before it is started here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bullpen.agents.config.inherit import under
from bullpen.agents.drivers.registry import reads_unasked
from bullpen.agents.system.vendors.programs import COMMAND
from bullpen.errors import Refused
from bullpen.protocol.agent import AgentFacts, AgentSpec
from bullpen.protocol.names import LEAD


def check_taken(spec: AgentSpec, parent: tuple[str, AgentFacts], *, name: str) -> None:
    """Refuse to start a spec here that its parent, an agent elsewhere, could not have spawned.

    The files of that machine are not here, so this compares only with the parent's own record.

    Raises:
        Refused: wider_than_parent or plan_mode.
    """
    above = parent[1].spec
    tree, its_tree = spec.workspace, above.workspace
    setups = (None, None if its_tree is None else its_tree.setup)
    same_driver = spec.driver == above.driver
    command = above.options.get(COMMAND) if same_driver else None
    odd = [
        what
        for what, fits in (
            ("command", _same_command(spec.options.get(COMMAND), command)),
            ("script", spec.script in (None, above.script)),
            ("environment", set(spec.env_asked) <= set(above.env_asked)),
            ("plan rule", spec.policy.plan_rule in (None, above.policy.plan_rule)),
            ("policy file", spec.policy.answers in (None, above.policy.answers)),
            ("setup", tree is None or tree.setup in setups),
            ("MCP servers", (spec.mcp_servers or {}).items() <= (above.mcp_servers or {}).items()),
            ("sandbox", spec.policy.sandbox is not None or above.policy.sandbox is None),
        )
        if not fits
    ]
    if odd:
        raise not_inherited(parent[0], name, odd)
    if spec.own_tree is None and above.own_tree is None:
        whole = under_parent(spec, parent)
        if (whole.policy.deny, whole.hooks) != (spec.policy.deny, spec.hooks):
            raise not_inherited(parent[0], name, ["rules that deny, or hooks"])


def under_parent(spec: AgentSpec, parent: tuple[str, AgentFacts]) -> AgentSpec:
    """The spec as a child of this agent, with what it inherits. Raises as `under`."""
    name, facts = parent
    return under(
        spec,
        facts,
        of=name,
        parent_leads=name == LEAD,
        reads_freely=reads_unasked(spec.driver) and not reads_unasked(facts.spec.driver),
    )


def _same_command(given: Any, expected: Any) -> bool:
    """Return whether a command is the parent's; its program may be named by its whole path."""
    if given is None or given == expected:
        return True
    if not isinstance(given, list) or not isinstance(expected, list) or not given or not expected:
        return False
    ends = str(given[0]).endswith(f"/{expected[0]}") and "/" in str(expected[0])
    return ends and given[1:] == expected[1:]


def not_inherited(parent: str, name: str, odd: Iterable[str]) -> Refused:
    """The refusal of a spec that has more than its parent can give."""
    return Refused(
        f"{parent!r} cannot spawn {name!r} like this. Not given by {parent!r} itself, its role or"
        f" its project: {', '.join(sorted(odd))}.",
        reason="wider_than_parent",
        remedy="Ask only for rights that you have. A person can spawn an agent with more.",
    )
