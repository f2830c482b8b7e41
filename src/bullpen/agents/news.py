"""What happened in a team, a line for each happening worth telling. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bullpen.agents.frame import one_line
from bullpen.agents.hosts.base import ON
from bullpen.agents.policy.call import Call
from bullpen.protocol.changes import (
    Change,
    DeleteTask,
    Deliver,
    Event,
    PutMember,
    PutRequest,
    PutTask,
    PutTeam,
)
from bullpen.protocol.merge import merge_of
from bullpen.protocol.names import task_order
from bullpen.protocol.payloads import (
    Control,
    IdleNotification,
    ShutdownRequest,
    TaskAssignment,
    payload_of,
)
from bullpen.protocol.request import Request
from bullpen.protocol.roster import Member
from bullpen.protocol.task import Task
from bullpen.team.check_rules import is_queued

THE_RUN_IS_OVER = "the run is over"
"""Why teammates are stopped that are left when the goal is reached."""

_LENGTH_MAX = 160
_RANGE_LEAST = 3

_ENDS = {
    "stopped": "was stopped",
    "suspended": "was stopped with the team",
    "finished": "has finished",
    "failed": "failed",
    "lost": "was lost",
}

_PLANNED = re.compile(
    r"(?P<who>\S+) (?:added task #(?P<added>\S+)(?: .*)?|gave task #(?P<given>\S+) to (?P<to>.+))"
)


def news(event: Event) -> list[str]:
    """The happenings of one event, in order."""
    found: list[str] = []
    for change in event.changes:
        found += (one_line(line, _LENGTH_MAX) for line in _told(event, change))
    return found


def _told(event: Event, change: Change) -> Iterator[str]:
    match change:
        case PutTask(task):
            yield from _task(event, task)
        case DeleteTask(task_id):
            yield f"{event.actor} deleted task #{task_id}"
        case PutMember(member):
            yield from _member(event, member)
        case PutRequest(request) if request.state != "pending":
            yield from _answer(event, request)
        case PutTeam() if event.op == "team.finish":
            yield f"{event.actor} has finished"
        case Deliver() if event.op in ("agent.end", "merge.return"):
            # The notice says what the agent's row, or the task, has said.
            return
        case Deliver(to, message) if to != message.sender:
            yield from _mail(message.sender, to, message.text, message.summary)
        case _:
            return


def asked_for(request: Request) -> str:
    """What a request is about, on one line: `Bash git push origin main`."""
    subject = request.subject
    match request.kind:
        case "permission":
            return _call(subject)
        case "plan":
            lines = (line.strip(" #") for line in str(subject.get("plan", "")).split("\n"))
            return f"plan: {next((line for line in lines if line), '')}".rstrip(": ")
        case "shutdown":
            return f"to end ({subject['reason']})" if "reason" in subject else "to end"


def _call(subject: Mapping[str, Any]) -> str:
    given, said = subject.get("input"), subject.get("description")
    tool = str(subject.get("toolName", "a tool"))
    call = Call(tool, given if isinstance(given, dict) else {}, "run")
    # Other programs' tools: only they know what is telling about an input.
    return str(call) if call.detail or not said else f"{tool}: {said}"


def _answer(event: Event, request: Request) -> Iterator[str]:
    """What came of a question; that agents agree to end is told by their end."""
    if request.kind == "shutdown" or event.op not in ("request.answer", "request.expire"):
        return
    about = f"{request.sender}: {asked_for(request)}"
    said = (request.answer or {}).get("feedback")
    why = f" ({said})" if said else ""
    if request.state == "expired":
        yield f"nobody answered {about}{why}"
        return
    who = "a rule" if request.voice == "policy" else request.answered_by
    yes, no = ("approved", "rejected") if request.kind == "plan" else ("allowed", "denied")
    yield f"{who} {yes if request.state == 'approved' else no} {about}{why}"


def _task(event: Event, task: Task) -> Iterator[str]:
    named = f"task #{task.id} {task.subject}"
    match event.op:
        case "task.add" if not _was_there(event, task):
            yield f"{event.actor} added {named}"
        case "task.claim":
            yield f"{event.actor} took {named}"
        case "task.done":
            to_merge = ", to be merged" if is_queued(task) else ""
            yield f"{event.actor} completed {named}{to_merge}"
        case "task.release" | "task.expire":
            yield f"{named} is free again"
        case "task.relieve":
            yield f"{(task.facts.tried or ['nobody'])[-1]} is relieved of {named}"
        case "task.give_up":
            yield f"{named} is given up: {task.facts.given_up}"
        case "merge.land" | "merge.return":
            yield from _merged(task)
        case _ if event.op.startswith("agent."):
            yield f"{named} is free again"


def _merged(task: Task) -> Iterator[str]:
    """What became of work in the merge queue."""
    merge = merge_of(task)
    if merge is None:
        return
    if merge.state == "merged":
        yield f"merged #{task.id} ({merge.by}) as {(merge.landed or merge.commit)[:7]}"
    elif merge.state == "returned":
        to = f" to {task.owner}" if task.owner else ""
        where = f" in {', '.join(merge.files)}" if merge.files else ""
        why = "its checks fail on the target" if merge.why == "checks" else f"conflict{where}"
        yield f"#{task.id} came back{to}: {why}"


def _was_there(event: Event, task: Task) -> bool:
    """Whether a task only learnt whom it blocks: what is new comes first, with higher ids."""
    first = next(change.task.id for change in event.changes if isinstance(change, PutTask))
    return task.id.isdecimal() and first.isdecimal() and int(task.id) < int(first)


def _member(event: Event, member: Member) -> Iterator[str]:
    agent = member.agent
    if agent is None:
        return
    match event.op:
        case "agent.ready":
            spec = agent.asked
            again = " again" if agent.launch > 1 else ""
            place = agent.place
            # Where any machine might run it, which one does is news.
            where = f" on {place.host}" if place is not None and ON in spec.options else ""
            yield f"{member.name} is ready{again}{where} ({spec.driver}, {spec.backend})"
        case _ if member.is_lead and agent.end == "finished":
            # That the team has finished was told.
            return
        case _ if agent.phase == "ended":
            why = f": {agent.cause}" if agent.cause else ""
            yield f"{member.name} {_ENDS.get(agent.end or '', 'has ended')}{why}"


def _mail(sender: str, to: str, text: str, summary: str | None) -> Iterator[str]:
    payload = payload_of(text)
    match payload:
        case None:
            yield f"{sender} to {to}: {summary or text}"
        case IdleNotification(failure_reason=str() as why):
            yield f"{sender} failed a turn: {why}"
        case IdleNotification(result=str() as result):
            yield f"{sender} reports: {result}"
        case ShutdownRequest():
            yield f"{sender} asks {to} to end"
        case Control():
            yield f"{sender} orders {to} to {payload.action}"
        case TaskAssignment():
            yield f"{sender} gave task #{payload.task_id} to {to}"
        case _:
            return


def _cut(line: str) -> str:
    return line if len(line) <= _LENGTH_MAX else f"{line[: _LENGTH_MAX - 1]}…"


def planner(line: str) -> str | None:
    """Who added or gave out a task, if a happening is that; runs of these are told as one."""
    found = _PLANNED.fullmatch(line)
    return found["who"] if found else None


def folded(run: Sequence[str]) -> list[str]:
    """What one planner added and gave out, in a line each; other happenings as they are."""
    found = [match for match in map(_PLANNED.fullmatch, run) if match]
    if len(run) < 2 or len(found) < len(run):
        return list(run)
    who = found[0]["who"]
    added = [match for match in found if match["added"]]
    given = [match for match in found if match["given"]]
    lines = [added[0][0]] if len(added) == 1 else []
    if len(added) > 1:
        lines.append(f"{who} added tasks {_ids([match['added'] for match in added])}")
    if given:
        lines.append(f"{who} gave {_shares([(match['to'], match['given']) for match in given])}")
    return [_cut(line) for line in lines]


def _shares(given: Sequence[tuple[str, str]]) -> str:
    """Which tasks went to whom."""
    shares: dict[str, list[str]] = {}
    for to, task_id in given:
        shares.setdefault(to, []).append(task_id)
    if len(shares) > 1:
        return "tasks to " + ", ".join(f"{to} ({_ids(ids)})" for to, ids in shares.items())
    ((to, ids),) = shares.items()
    return f"task{'s' if len(set(ids)) > 1 else ''} {_ids(ids)} to {to}"


def _ids(ids: Sequence[str]) -> str:
    """Ids of tasks in a few words: `#1-#4, #7`."""
    runs: list[list[str]] = []
    for task_id in dict.fromkeys(ids):
        if runs and _follows(runs[-1][-1], task_id):
            runs[-1].append(task_id)
        else:
            runs.append([task_id])
    return ", ".join(
        f"#{run[0]}-#{run[-1]}" if len(run) >= _RANGE_LEAST else ", ".join(f"#{i}" for i in run)
        for run in runs
    )


def _follows(before: str, task_id: str) -> bool:
    (kind, number, _), (next_kind, next_number, _) = task_order(before), task_order(task_id)
    return kind == next_kind == 0 and next_number == number + 1
