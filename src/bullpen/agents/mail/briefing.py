"""The briefing: the state of the team that starts every turn. Pure.

It tells a compacted or restarted conversation who it is and what it still has to do.
"""

from __future__ import annotations

from collections.abc import Iterable

from bullpen.agents.tools.outside_text.harmless import one_line
from bullpen.protocol.clock import iso
from bullpen.protocol.request import Request
from bullpen.protocol.task import Task
from bullpen.team.lookup import owner_of
from bullpen.team.requests.rules import may_answer
from bullpen.team.snapshot import MemberView, Snapshot
from bullpen.team.tasks.check_rules import is_done, said_status

_MEMBERS_MAX = 60
_TASKS_MAX = 40
_SUBJECT_MAX = 100


def briefing_text(snapshot: Snapshot, agent: str) -> str:
    """Who the reader is, who else is in the team, the open tasks and the open requests."""
    team = snapshot.team
    mine = next((view for view in snapshot.members if view.member.name == agent), None)
    is_lead = mine is not None and mine.member.is_lead
    who = "the lead of" if is_lead else f"{agent}, a teammate in"
    lines = [
        "<team-digest>",
        f"You are {who} team {_one_line(team.name)}. The time is {iso(snapshot.taken_ms)}.",
        "Members:",
        *_bounded((_member(view, agent) for view in snapshot.members), _MEMBERS_MAX, "members"),
    ]
    own = [task for task in snapshot.tasks if owner_of(task, team.name) == agent]
    open_own = [task for task in own if not is_done(task)]
    lines.append("Your open tasks:" if open_own else "You have no open tasks.")
    lines += _bounded((_task(task, team.name) for task in open_own), _TASKS_MAX, "tasks")
    others = [task for task in snapshot.tasks if task not in own and not is_done(task)]
    done = sum(is_done(task) for task in snapshot.tasks)
    if snapshot.tasks:
        count = f"({done} of {len(snapshot.tasks)} tasks are done)"
        lines.append(f"Other open tasks {count}:" if others else f"No other open tasks {count}.")
        lines += _bounded((_task(task, team.name) for task in others), _TASKS_MAX, "tasks")
    if mine is not None and mine.unread:
        lines.append(f"Unread messages for you: {mine.unread}.")
    # Requests that only people may answer are left out: a model would try them in vain.
    for_you = [
        request
        for request in snapshot.pending
        if request.to == agent and may_answer(request, "agent")
    ]
    from_you = [request for request in snapshot.pending if request.sender == agent]
    if for_you:
        lines.append("Waiting for your answer:")
        lines += [_request(request, f"from {_one_line(request.sender)}") for request in for_you]
    if from_you:
        lines.append("Your requests without an answer:")
        lines += [_request(request, f"to {_one_line(request.to)}") for request in from_you]
    lines.append("</team-digest>")
    return "\n".join(lines)


def _member(view: MemberView, agent: str) -> str:
    you = " (you)" if view.member.name == agent else ""
    role = f", {_one_line(view.member.agent_type)}" if view.member.agent_type else ""
    detail = f": {_one_line(view.detail)}" if view.detail and view.state != "working" else ""
    tasks = f", on task {', '.join('#' + task for task in view.tasks)}" if view.tasks else ""
    return f"- {_one_line(view.member.name)}{you}{role}: {view.state}{detail}{tasks}"


def _task(task: Task, team: str) -> str:
    owner = owner_of(task, team)
    parts = [said_status(task).replace("_", " ")]
    if owner:
        parts.append(_one_line(owner))
    if task.blocked_by:
        parts.append("after " + ", ".join(f"#{_one_line(blocker)}" for blocker in task.blocked_by))
    return f"- #{task.id} {_one_line(task.subject)} ({'; '.join(parts)})"


def _request(request: Request, who: str) -> str:
    return f"- {request.kind} request {_one_line(request.id)} {who}"


def _one_line(text: str) -> str:
    """Text from others, on one line, so that it cannot break out of the briefing."""
    return one_line(text, _SUBJECT_MAX)


def _bounded(lines: Iterable[str], most: int, what: str) -> list[str]:
    shown = list(lines)
    if len(shown) <= most:
        return shown
    return [*shown[:most], f"- and {len(shown) - most} more {what}"]
