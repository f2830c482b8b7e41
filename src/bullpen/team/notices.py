"""The messages that operations themselves send. Pure."""

from __future__ import annotations

from bullpen.protocol import names
from bullpen.protocol.message import Message
from bullpen.protocol.payloads import Payload, PlanApprovalRequest, TaskAssignment
from bullpen.protocol.roster import TeamConfig
from bullpen.protocol.task import Task
from bullpen.protocol.times import iso


def color_of(team: TeamConfig, name: str) -> str | None:
    """The colour of a member, if there is such a member and it has one."""
    member = team.member(name)
    return member.color if member else None


def notice(
    payload: Payload, *, team: TeamConfig, sender: str, message_id: str, now_ms: int
) -> Message:
    """The message that carries a payload."""
    names.check_component(sender, kind="member name")
    # The real program leaves the colour out of this one kind.
    plain = isinstance(payload, PlanApprovalRequest)
    return Message.new(
        sender=sender,
        text=payload.text(),
        timestamp=iso(now_ms),
        color=None if plain else color_of(team, sender),
        msg_v=1,
        msg_id=message_id,
        type="message",
        read=False,
    )


def assignment(task: Task, *, team: TeamConfig, by: str, message_id: str, now_ms: int) -> Message:
    """The message that tells a member that a task was given to it."""
    payload = TaskAssignment.new(
        task_id=task.id,
        subject=task.subject,
        description=task.description,
        assigned_by=by,
        timestamp=iso(now_ms),
    )
    return notice(payload, team=team, sender=by, message_id=message_id, now_ms=now_ms)


def prompt(text: str, *, team: TeamConfig, by: str, message_id: str, now_ms: int) -> Message:
    """The message that holds what an agent was spawned for."""
    return Message.new(
        sender=by,
        text=text,
        timestamp=iso(now_ms),
        color=color_of(team, by),
        msg_v=1,
        msg_id=message_id,
        type="message",
        read=False,
    )
