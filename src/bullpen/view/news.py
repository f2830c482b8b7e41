"""News of a team: one line for each event that is worth telling. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bullpen.agents.contracts.call import Call
from bullpen.agents.contracts.machines import ON
from bullpen.by_name import load
from bullpen.protocol import changes, payloads
from bullpen.protocol.changes import Event
from bullpen.protocol.message import Message
from bullpen.protocol.names import LEAD, task_order
from bullpen.protocol.request import Request
from bullpen.protocol.task import Task
from bullpen.protocol.team import Member
from bullpen.team.requests import question_rules
from bullpen.team.tasks.check_rules import is_queued
from bullpen.team.tasks.merge_rules import output_end

THE_RUN_IS_OVER = "the run is over"
"""Why the remaining teammates are stopped when the goal is reached."""

_LENGTH_MAX = 160
_RANGE_LEAST = 3

_WHY_BACK = {
    "checks": "its checks fail on the target",
    "guarded": "no person approved its changes to guarded paths",
    "promise": "it does not fit what members promised each other",
    "review": "its review on the forge asks for changes",
    "nothing": "its changes are on the target already",
}
ENDS = {
    "stopped": "was stopped",
    "suspended": "was stopped with the team",
    "finished": "has finished",
    "failed": "failed",
    "lost": "was lost",
}
"""How an agent ended, after its name."""

_VERDICTS = {
    "permission": ("allowed", "denied"),
    "plan": ("approved", "rejected"),
    "question": ("answered", "did not answer"),
    "shutdown": ("approved", "rejected"),
}
_ON_SHUTDOWN = {
    "approved": "agrees to end",
    "denied": "goes on working",
    "expired": "did not say whether it ends",
}

YOU = "you"
"""The person at the keyboard, who speaks in the name of the lead."""

_SECOND_PERSON = {
    "has": "have",
    "is": "are",
    "asks": "ask",
    "orders": "order",
    "reports": "report",
    "agrees": "agree",
    "goes": "go",
}
_TO_LEAD = re.compile(rf"(\S+ (?:to|gave task \S+ to|came back to|asks|orders)) {LEAD}\b")
_PLANNED = re.compile(
    r"(?P<who>\S+) (?:added task #(?P<added>\S+)(?: .*)?|gave task #(?P<given>\S+) to (?P<to>.+))"
)


def news(event: Event) -> list[str]:
    """The news of one event, in order."""
    # Most commands show no news, and this is slow to import.
    one_line = load("bullpen.agents.tools.outside_text.harmless:one_line")
    if event.op == "task.remind":
        return [one_line(line, _LENGTH_MAX) for line in _reminded(event)]
    found: list[str] = []
    for change in event.changes:
        found += (one_line(_in_person(line), _LENGTH_MAX) for line in _told(event, change))
    return found


def addressed(line: str) -> str:
    """A line of news for a person who is the lead: `you` instead of `team-lead`."""
    who, _, rest = line.partition(" ")
    if who == LEAD:
        return _in_person(f"{YOU} {rest}")
    return _TO_LEAD.sub(r"\1 you", line) if _TO_LEAD.match(line) else line


def _in_person(line: str) -> str:
    """A line with the verb that fits `you`, if it is about the reader."""
    who, _, rest = line.partition(" ")
    if who != YOU:
        return line
    verb, space, more = rest.partition(" ")
    return f"{YOU} {_SECOND_PERSON.get(verb, verb)}{space}{more}"


def _told(event: Event, change: changes.Change) -> Iterator[str]:
    match change:
        case changes.PutTask(task):
            yield from _task(event, task)
        case changes.DeleteTask(task_id):
            yield f"{event.actor} deleted task #{task_id}"
        case changes.PutMember(member):
            yield from _member(event, member)
        case changes.PutNote(note):
            verb = "deleted" if note.is_deleted else "wrote"
            yield f"{note.author} {verb} note {note.name} (version {note.version})"
        case changes.PutRequest(request) if request.state != "pending":
            yield from _answer(event, request)
        case changes.PutTeam({"bullpen": {"finished": {"voice": "human"}}}) if (
            event.op == "team.finish"
        ):
            yield f"{YOU} ended the run"
        case changes.PutTeam() if event.op == "team.finish":
            yield f"{event.actor} has finished"
        case changes.Deliver() if event.op in (
            "agent.end",
            "merge.return",
            "forge.return",
            "forge.settle",
        ):
            # The change of the agent or the task says the same.
            return
        case changes.Deliver(to, message) if to != sender_of(message):
            yield from _mail(sender_of(message), to, message.text, message.summary)


def asked_for(request: Request) -> str:
    """What a request asks for, on one line: `Bash git push origin main`."""
    subject = request.subject
    match request.kind:
        case "permission":
            return _call(subject)
        case "plan":
            lines = (line.strip(" #") for line in str(subject.get("plan", "")).split("\n"))
            return f"plan: {next((line for line in lines if line), '')}".rstrip(": ")
        case "question":
            asked = question_rules.questions_of(request)
            return f"question: {' / '.join(str(each.get('question', '')) for each in asked)}"
        case "shutdown":
            return f"to end ({subject['reason']})" if "reason" in subject else "to end"


def _call(subject: Mapping[str, Any]) -> str:
    given, said = subject.get("input"), subject.get("description")
    tool = str(subject.get("toolName", "a tool"))
    call = Call(tool, given if isinstance(given, dict) else {}, "run")
    # For tools of other programs, their own description says more than the input.
    return str(call) if call.detail or not said else f"{tool}: {said}"


def _answer(event: Event, request: Request) -> Iterator[str]:
    """How a request was answered."""
    if event.op not in ("request.answer", "request.expire"):
        return
    about = f"{request.sender}: {asked_for(request)}"
    said = (request.answer or {}).get("feedback")
    why = f" ({said})" if said else ""
    if request.kind == "shutdown":
        yield f"{request.to} {_ON_SHUTDOWN[request.state]}{why}"
        return
    if request.state == "expired":
        yield f"nobody answered {about}{why}"
        return
    who = answered_by(request)
    yes, no = _VERDICTS[request.kind]
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
            yield f"{named} was taken from {(task.facts.tried or ['nobody'])[-1]}"
        case "task.give_up":
            yield f"{named} is given up: {task.facts.given_up}"
        case "merge.land" | "merge.return":
            yield from _merged(task)
        case _ if event.op.startswith("forge."):
            yield from _on_forge(event, task)
        case _ if event.op.startswith("agent."):
            yield f"{named} is free again"


def _reminded(event: Event) -> Iterator[str]:
    """Who is reminded of which tasks, how often so far, and how often at most."""
    tasks = [change.task for change in event.changes if isinstance(change, changes.PutTask)]
    last = tasks[0].facts.reminded if tasks else None
    if last is not None:
        named = ", ".join(f"#{task.id}" for task in tasks)
        yield f"reminded {last.by} of {named} ({last.times} of {last.most})"


def _merged(task: Task) -> Iterator[str]:
    """What the merge queue did with the work of a task."""
    merge = task.facts.merge
    if merge is None:
        return
    if merge.state == "merged":
        yield f"merged #{task.id} ({merge.by}) as {(merge.landed or merge.commit)[:7]}"
    elif merge.state == "returned":
        to = f" to {task.owner}" if task.owner else ""
        where = f" in {', '.join(merge.files)}" if merge.files else ""
        why = _WHY_BACK.get(merge.why or "", f"conflict{where}")
        why += f": {output_end(merge.detail)}" if merge.why == "checks" and merge.detail else ""
        yield f"#{task.id} came back{to}: {why}"


def _on_forge(event: Event, task: Task) -> Iterator[str]:
    """What became of the work of a task on a forge. Its writes are no news."""
    work = task.facts.forge
    if work is None:
        return
    named = f"task #{task.id} {task.subject}"
    match event.op:
        case "forge.take":
            yield f"issue #{work.issue} became {named}"
        case "forge.return" | "forge.ask" if work.person is not None:
            yield f"{named} needs you on the forge: {work.person}"
        case "forge.return":
            yield from _merged(task)
        case "forge.settle" if work.outcome == "merged":
            pull = f" with pull request #{work.pull}" if work.pull else ""
            yield f"{named} is merged on the forge{pull}"
        case "forge.settle":
            yield f"{named} ended on the forge: {task.facts.given_up or work.outcome}"
        case "forge.resume" | "forge.reopen":
            yield f"{named} goes on"


def _was_there(event: Event, task: Task) -> bool:
    """Whether a task is older than this event: new tasks come first and have higher ids."""
    first = next(change.task.id for change in event.changes if isinstance(change, changes.PutTask))
    return task.id.isdecimal() and first.isdecimal() and int(task.id) < int(first)


def _member(event: Event, member: Member) -> Iterator[str]:
    agent = member.agent
    if agent is None:
        return
    match event.op:
        case "agent.ready":
            spec = agent.spec
            again = " again" if agent.launch > 1 else ""
            place = agent.process
            # The host is news if several could run it.
            where = f" on {place.host}" if place is not None and ON in spec.options else ""
            yield f"{member.name} is ready{again}{where} ({spec.driver}, {spec.backend})"
        case _ if member.is_lead and agent.end == "finished":
            # The event that finished the team told it.
            return
        case _ if agent.phase == "ended":
            why = f": {agent.cause}" if agent.cause else ""
            yield f"{member.name} {ENDS.get(agent.end or '', 'has ended')}{why}"


def _mail(sender: str, to: str, text: str, summary: str | None) -> Iterator[str]:
    payload = payloads.payload_of(text)
    match payload:
        case None:
            yield f"{sender} to {to}: {summary or text}"
        case payloads.IdleNotification(failure_reason=str() as why):
            yield f"{sender} failed a turn: {why}"
        case payloads.IdleNotification(result=str() as result):
            yield f"{sender} reports: {result}"
        case payloads.ShutdownRequest():
            yield f"{sender} asks {to} to end"
        case payloads.Control():
            yield f"{sender} orders {to} to {payload.action}"
        case payloads.TaskAssignment():
            yield f"{sender} gave task #{payload.task_id} to {to}"


def _cut(line: str) -> str:
    return line if len(line) <= _LENGTH_MAX else f"{line[: _LENGTH_MAX - 1]}…"


def planner(line: str) -> str | None:
    """Who added or assigned a task, if a line says so; several such lines are told as one."""
    found = _PLANNED.fullmatch(line)
    return found["who"] if found else None


def folded(run: Sequence[str]) -> list[str]:
    """Lines of one planner as two: the tasks it added and those it assigned. Others stay."""
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
    """Which tasks were assigned to whom."""
    shares: dict[str, list[str]] = {}
    for to, task_id in given:
        shares.setdefault(to, []).append(task_id)
    if len(shares) > 1:
        return "tasks to " + ", ".join(f"{to} ({_ids(ids)})" for to, ids in shares.items())
    ((to, ids),) = shares.items()
    return f"task{'s' if len(set(ids)) > 1 else ''} {_ids(ids)} to {to}"


def _ids(ids: Sequence[str]) -> str:
    """Task ids with ranges: `#1-#4, #7`."""
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


def sender_of(message: Message) -> str:
    """The sender of a message."""
    return YOU if message.is_of_a_person and message.sender == LEAD else message.sender


def answer_words(request: Request) -> str:
    """How a request was answered: `allowed: Bash pytest -q`."""
    said = (request.answer or {}).get("feedback")
    yes, no = _VERDICTS[request.kind]
    verdict = yes if request.state == "approved" else no
    return f"{verdict}: {asked_for(request)}{f' ({said})' if said else ''}"


def answered_by(request: Request) -> str:
    """Who answered a request; empty if nobody did."""
    if request.voice == "policy":
        return "a rule"
    if request.voice == "human" and request.answered_by == LEAD:
        return YOU
    return request.answered_by or ""


def actor_of(event: Event) -> str:
    """Who caused an event."""
    if event.actor != LEAD:
        return event.actor
    for change in event.changes:
        match change:
            case changes.PutRequest(request) if event.op == "request.answer":
                return answered_by(request) or event.actor
            case changes.Deliver(_, message) if event.op == "mail.send":
                return sender_of(message)
    return event.actor
