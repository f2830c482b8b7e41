"""Agents in trees of their own: what they are to be spawned with, and what they may change."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from bullpen.agents.contracts.call import Call
from bullpen.agents.permissions.agent_rights import rights_of
from bullpen.agents.permissions.decide import decide
from bullpen.agents.work.tree_at_spawn import WorkspaceRequest
from bullpen.protocol.agent import AgentFacts, AgentSpec, Workspace, WorkspaceKind
from bullpen.team.requests.mode_rules import Effect, Kind
from support.offices import TEAM, Place


def wish(agent: str, kind: WorkspaceKind = "worktree", **words: Any) -> WorkspaceRequest:
    return WorkspaceRequest(kind=kind, team=TEAM, agent=agent, **words)


def tree_of(place: Place, agent: str) -> Path:
    return place.folder / "project.bullpen" / TEAM / agent


async def spec_of(place: Place, name: str = "ann", **fields: Any) -> AgentSpec:
    return await place.spec("[agents.ann]\n", **{"workspace": wish(name), **fields})


def facts(spec: AgentSpec) -> AgentFacts:
    return AgentFacts.new(spec=spec.raw, nonce="n", since_ms=1)


def effect(spec: AgentSpec, path: Path | str, tool: str = "Write") -> Effect:
    rights = rights_of(facts(spec), user_home=os.path.expanduser("~"))
    given = {"command": path} if tool == "Bash" else {"file_path": str(path)}
    kind: Kind = "run" if tool == "Bash" else "write"
    return decide(Call(tool, given, kind), rights).effect


def planned_without_git(kind: WorkspaceKind, cwd: Path, **wanted: Any) -> Workspace:
    """What `plan` answers for the top of a clean repository on `main`."""
    words = {name: wanted[name] for name in ("setup", "setup_s", "dirty")}
    if kind == "shared":
        return Workspace.new(kind=kind, repository=str(cwd), path=str(cwd), **words)
    return Workspace.new(
        kind=kind,
        repository=str(cwd),
        path=str(cwd.parent / f"{cwd.name}.bullpen" / wanted["team"] / wanted["agent"]),
        branch=f"bullpen/{wanted['team']}/{wanted['agent']}",
        base=wanted["base"] or "main",
        **words,
    )
