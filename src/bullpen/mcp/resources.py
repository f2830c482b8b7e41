"""A team as resources: its roster, its tasks and the reader's own mailbox, as JSON."""

from __future__ import annotations

from typing import Any, Literal

from bullpen.errors import NotFound
from bullpen.mcp.desk import MemberDesk
from bullpen.protocol import jsontext
from bullpen.store.base import Mailbox
from bullpen.team.snapshot import MemberView, Snapshot

Part = Literal["roster", "tasks", "mailbox"]

PARTS: dict[Part, str] = {
    "roster": "Who is in the team, what each does, and how many messages each has unread.",
    "tasks": "All tasks of the team.",
    "mailbox": "Your own mailbox. Reading it marks nothing.",
}
"""What there is of each team, and what it holds."""


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
                remedy=f"There are: {', '.join(uri_of(team.name, part) for part in PARTS)}.",
            )


def roster_json(seen: Snapshot) -> dict[str, Any]:
    """The members, as they are now."""
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
    """Every message of a mailbox, with how far it got."""
    return {
        "messages": [
            {"id": entry.id, "state": entry.state, **entry.message.raw} for entry in box.entries
        ],
        "problems": [f"{problem.where}: {problem.why}" for problem in box.problems],
    }


def _text(value: Any) -> str:
    return jsontext.dumps(value).decode("utf-8")
