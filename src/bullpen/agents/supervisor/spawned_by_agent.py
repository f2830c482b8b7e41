"""Judge the spec of an agent that another agent asks its host to register.

The host does not trust the agent, so it does not take a spec as it is: it resolves the same wish
itself and compares.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bullpen.agents.config.spec import NO_PROJECT_SETTINGS, SpawnFiles
from bullpen.agents.config.taken_spec import not_inherited, under_parent
from bullpen.agents.contracts.desk import Wanted
from bullpen.agents.contracts.machines import ON
from bullpen.agents.supervisor.colleagues import teammate
from bullpen.agents.supervisor.machines.host_records import shown_labels
from bullpen.agents.work.tree_at_spawn import PROJECT
from bullpen.protocol.agent import AgentFacts, AgentSpec

_RIGHTS = ("mode", "tools", "disallowedTools", "hooks")


async def check_asked(
    spec: AgentSpec, files: SpawnFiles, parent: tuple[str, AgentFacts], *, team: str, name: str
) -> None:
    """Refuse a spec that this agent cannot spawn a teammate with, on this machine.

    Raises:
        Refused: wider_than_parent, or as `bullpen.agents.config.spec.resolve`.
    """
    expected = await teammate(_wanted(spec, name), files, parent, team=team)
    odd = list(_unlike(spec, expected))
    if _rights(spec) != _rights(expected) and (
        spec.own_tree is not None or _rights(spec) != _rights(under_parent(spec, parent))
    ):
        odd.append("rights")
    if odd:
        raise not_inherited(parent[0], name, odd)


def _wanted(spec: AgentSpec, name: str) -> Wanted:
    """Return what an agent asked for if it got this spec."""
    labels = spec.options.get(ON)
    return Wanted(
        name=name,
        prompt=spec.prompt or "",
        role=spec.role,
        model=spec.model,
        driver=spec.driver,
        backend=spec.backend,
        cwd=str(spec.options.get(PROJECT) or spec.cwd),
        mode=spec.mode,
        on=(shown_labels(labels) or "any") if isinstance(labels, dict) else None,
        workspace=None if spec.workspace is None else spec.workspace.kind,
        skills=tuple(spec.skills or ()),
    )


def _unlike(spec: AgentSpec, expected: AgentSpec) -> Iterable[str]:
    """Yield what a spec has that its parent's wish for it would not give it."""
    if spec.script not in (None, expected.script):
        yield "script"
    if spec.workspace != expected.workspace or spec.cwd != expected.cwd:
        yield "workspace"
    if spec.hooks != expected.hooks:
        yield "hooks"
    if not set(spec.env_asked) <= set(expected.env_asked) or not (
        set(spec.env) <= set(expected.env)
    ):
        yield "environment"
    known = expected.options
    for key in {*spec.options, NO_PROJECT_SETTINGS}:
        if spec.options.get(key) != known.get(key):
            yield f"option {key}"


def _rights(spec: AgentSpec) -> dict[str, Any]:
    """Return the rights in a spec, without the notes about where they come from."""
    rights = {key: value for key, value in spec.raw.items() if key in _RIGHTS}
    policy = {key: value for key, value in spec.policy.raw.items() if key != "sources" and value}
    return {**rights, "policy": policy}
