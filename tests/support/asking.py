"""Agents that ask, as records: what a runner would have stored, without its process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import anyio

from bullpen.app.settings import settings_from
from bullpen.app.stores import open_teams
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.names import LEAD
from bullpen.protocol.request import Answerer, Request
from bullpen.team.team import Team

T = TypeVar("T")

TEAM = "calc"
PUSH = {
    "type": "addRules",
    "rules": [{"toolName": "Bash", "ruleContent": "git push:*"}],
    "behavior": "allow",
    "destination": "session",
}


def in_team(home: Path, act: Callable[[Team], Awaitable[T]], *, team: str = TEAM) -> T:
    """What an operation on a team of a home answers."""

    async def run() -> T:
        async with open_teams(settings_from({"HOME": str(home)}, home=home)) as teams:
            return await act(teams.open(team))

    return anyio.run(run)


def hire(home: Path, name: str, *, team: str = TEAM, **fields: Any) -> None:
    """Make an agent a member, as a spawn does."""
    spec = {"driver": "scripted", "backend": "subprocess", "cwd": str(home.parent), **fields}
    in_team(
        home,
        lambda t: t.agents.register(name, AgentSpec.new(**spec), by=LEAD, nonce=f"{team}-{name}"),
        team=team,
    )


def ask(
    home: Path,
    name: str,
    tool: str = "Bash",
    *,
    team: str = TEAM,
    given: dict[str, Any] | None = None,
    approver: Answerer | None = "human",
    deadline_s: float = 600.0,
    suggestions: tuple[Any, ...] = (PUSH,),
    choices: tuple[Any, ...] = (),
) -> Request:
    """Ask for permission of a tool call, as an agent's gate does."""
    given = {"command": "git push origin main"} if given is None else given
    about = str(given.get("command") or given.get("file_path"))
    return in_team(
        home,
        lambda t: t.approvals.ask_permission(
            tool,
            given,
            by=name,
            description=f"{tool} {about} (the mode default asks before anything is run)",
            suggestions=suggestions,
            choices=choices,
            approver=approver,
            deadline_s=deadline_s,
        ),
        team=team,
    )


def ask_plan(home: Path, name: str, plan: str, *, approver: Answerer = "human") -> Request:
    """Submit a plan, as an agent in plan mode does."""
    return in_team(
        home, lambda t: t.approvals.ask_plan(plan, by=name, approver=approver, deadline_s=600)
    )


def stored(home: Path, request: Request, *, team: str = TEAM) -> Request:
    """A request as it is in the store now."""
    return in_team(home, lambda t: t.approvals.get(request.id), team=team)
