"""The folders of agents, and the marks that identify a home's launches and worktrees."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from bullpen.protocol.team import TeamConfig


def home_mark(home: Path) -> str:
    """The prefix of the nonces of all launches of one home."""
    return hashlib.sha256(os.fsencode(home.resolve())).hexdigest()[:8]


def agent_folder(home: Path, team: TeamConfig, name: str) -> Path:
    """The folder of an agent. A later team of the same name gets other folders."""
    member = team.member(name)
    agent = member.agent if member is not None else None
    # A guest's home belongs to another program, in which `agents` means something else.
    ours = home / "bullpen" if agent is not None and agent.spec.is_guest else home
    return ours / "agents" / _identity(team) / name


def tree_owner(home: Path, team: TeamConfig) -> str:
    """The owner mark of a team's worktrees, unique to this home and this team."""
    return f"{home_mark(home)}-{_identity(team)}"


def _identity(team: TeamConfig) -> str:
    born = f"{team.created_at:.0f}" if team.created_at is not None else "0"
    return f"{team.name}.{born}"
