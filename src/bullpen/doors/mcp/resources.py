"""A team as MCP resources: its roster, its tasks and the reader's own mailbox, as JSON."""

from __future__ import annotations

from typing import Any, Literal

from bullpen.doors.mcp.desk import MemberDesk
from bullpen.errors import NotFound
from bullpen.protocol import json_text
from bullpen.store.contract import Mailbox
from bullpen.team.snapshot import MemberView, Snapshot

Part = Literal["roster", "tasks", "mailbox"]

PARTS: dict[Part, str] = {
    "roster": "The members of the team: what each is doing and how many unread messages it has.",
    "tasks": "All tasks of the team.",
    "mailbox": "Your own mailbox. Reading it does not mark messages as read.",
}
"""The resources of a team, each with a description."""


def uri_of(team: str, part: Part) -> str:
    """The address of one resource."""
    return f"bullpen://team/{team}/{part}"


async def read(desk: MemberDesk, uri: str) -> str:
    """One resource of the reader's own team, as JSON.

    Raises:
        NotFound: there is no such resource for this reader.
    """
    team = desk.team
    match [part for part in PARTS if uri == uri_of(team.name, part)]:
        case ["mailbox"]:
            return _text(mailbox_json(await team.mailbox.read(desk.agent)))
        case ["tasks"]:
            return _text(tasks_json(await team.snapshot()))
        case ["roster"]:
            return _text(roster_json(await team.snapshot()))
        case _:
            raise NotFound(
                f"There is no resource {uri!r} for {desk.agent!r}.",
                remedy=f"Use one of these: {', '.join(uri_of(team.name, part) for part in PARTS)}.",
            )


def roster_json(seen: Snapshot) -> dict[str, Any]:
    """The members and their present state."""
    return {
        "team": seen.team.name,
        "description": seen.team.description,
        "members": [_member(view) for view in seen.members],
        "problems": [f"{problem.where}: {problem.why}" for problem in seen.problems],
    }


def _member(view: MemberView) -> dict[str, Any]:
    member = view.member
    return {
        "name": member.name,
        "agentId": member.agent_id,
        "agentType": member.agent_type,
        "lead": member.is_lead,
        "model": member.model,
        "color": member.color,
        "state": view.state,
        "detail": view.detail,
        "tasks": list(view.tasks),
        "unread": view.unread,
    }


def tasks_json(seen: Snapshot) -> dict[str, Any]:
    """The tasks, each as it is stored."""
    return {"team": seen.team.name, "tasks": [task.raw for task in seen.tasks]}


def mailbox_json(box: Mailbox) -> dict[str, Any]:
    """Every message of a mailbox, with its delivery state."""
    return {
        "messages": [
            {"id": entry.id, "state": entry.state, **entry.message.raw} for entry in box.entries
        ],
        "problems": [f"{problem.where}: {problem.why}" for problem in box.problems],
    }


def _text(value: Any) -> str:
    return json_text.dumps(value).decode("utf-8")
