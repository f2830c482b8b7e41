"""What must be so at the end of every history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from bullpen.agents.system.transcript import NAME as TRANSCRIPT
from bullpen.agents.system.transcript import rows
from bullpen.protocol import json_text
from bullpen.protocol.changes import Deliver, Event, PutMember, PutTask
from bullpen.protocol.names import LEAD
from bullpen.protocol.payloads import Control, IdleNotification, payload_of
from bullpen.team.lookup import owner_of

if TYPE_CHECKING:
    from .world import World

TEAM = "sim"


def violations(world: World) -> list[str]:
    """Everything that is wrong, each with the name of its invariant."""
    found = [
        *_reports(world, _events(world)),
        *_mail(world, _events(world)),
        *_tasks(world, _events(world)),
    ]
    found += [f"broke: {error}" for error in world.broke]
    found += [*_spend(world), *(f"crash: {crash}" for crash in world.machine.crashes)]
    return found


def _events(world: World) -> Iterator[Event]:
    for line in world.kept._teams[TEAM].log:
        yield Event.decode(json_text.loads_line(line))


def _reports(world: World, events: Iterable[Event]) -> Iterator[str]:
    """Each turn's report arrives at the lead exactly once."""
    came: Counter[tuple[str, str]] = Counter()
    for event in events:
        for change in event.changes:
            if not isinstance(change, Deliver) or change.to != LEAD:
                continue
            payload = payload_of(change.message.text)
            if isinstance(payload, IdleNotification):
                words = payload.failure_reason or payload.result or ""
                came[payload.sender, words] += 1
    ended = _ended_turns(world)
    for turn in world.truth.turns:
        if turn.agent == LEAD:
            continue
        many = came[turn.agent, turn.words]
        interrupted = ended.get((turn.agent, turn.words))
        if many > 1:
            yield f"report: {turn.words!r} arrived {many} times"
        elif many == 0 and interrupted == "":
            yield f"report: {turn.words!r} never arrived"


def _ended_turns(world: World) -> dict[tuple[str, str], str]:
    """The turns whose end the transcripts have, with what interrupted them."""
    found = {}
    for name in world.names:
        for path in world.home.glob(f"agents/*/{name}/{TRANSCRIPT}"):
            for row in rows(path):
                if row.get("kind") == "end":
                    words = row.get("failure") or row.get("text") or ""
                    found[name, words] = row.get("interrupted") or ""
    return found


def _mail(world: World, events: Iterable[Event]) -> Iterator[str]:
    """Each message is read by its model once, or still waits; none is stored twice."""
    read = Counter(world.truth.read)
    for (agent, message_id), times in read.items():
        if times > 1:
            yield f"mail: {agent} read message {message_id} {times} times"
    texts: Counter[tuple[str, str]] = Counter()
    state = world.kept._teams[TEAM].state.mail
    for event in events:
        for change in event.changes:
            if not isinstance(change, Deliver):
                continue
            message = change.message
            payload = payload_of(message.text)
            if message.text.startswith(("question-", "reply-")):
                texts[change.to, message.text] += 1
            seen = state.get(change.to, {}).get(message.id) not in ("stored", "injected")
            modelled = change.to in world.memories and not isinstance(payload, Control)
            if modelled and seen and not read[change.to, message.id]:
                yield f"mail: a message to {change.to} is seen, but no model read it"
    for (to, text), times in texts.items():
        if times > 1:
            yield f"mail: {text!r} was delivered to {to} {times} times"


def _tasks(world: World, events: Iterable[Event]) -> Iterator[str]:
    """No task has two owners in one attempt, and none is completed twice."""
    before: dict[str, tuple[str, str | None, int]] = {}
    owners: dict[tuple[str, int], set[str | None]] = {}
    ended: set[str] = set()
    for event in events:
        for change in event.changes:
            if isinstance(change, PutMember):
                agent = change.member.agent
                gone = agent is not None and agent.phase == "ended" and agent.end != "suspended"
                (ended.add if gone else ended.discard)(change.member.name)
            if not isinstance(change, PutTask):
                continue
            task = change.task
            owner, attempt = owner_of(task, TEAM), task.facts.attempt
            was = before.get(task.id, ("pending", None, 0))
            if was[0] == "completed":
                yield f"task: {task.id} changed after it was completed ({event.op})"
            if task.status == "in_progress":
                owners.setdefault((task.id, attempt), set()).add(owner)
                if was[0] == "in_progress" and was[1] != owner:
                    yield f"task: {task.id} went from {was[1]} to {owner} while in progress"
            if task.status == "completed" and was[0] != "in_progress":
                yield f"task: {task.id} was completed while {was[0]}"
            before[task.id] = (task.status, owner, attempt)
        for task_id, (status, of, _) in before.items():
            if status == "in_progress" and of in ended:
                yield f"task: {of} has ended and still owns task {task_id}"
    for (task_id, attempt), names in owners.items():
        if len(names) > 1:
            yield f"task: {task_id} had the owners {names} in attempt {attempt}"
    for task_id, times in Counter(task for task, _, _ in world.truth.completed).items():
        if times > 1:
            yield f"task: {times} models were told that they completed task {task_id}"
    if world.outcome is not None and world.outcome.status != "done" and not _may_stay_open(world):
        yield f"tasks: the run ended {world.outcome.status}: {world.outcome.cause}"


def _may_stay_open(world: World) -> bool:
    """Whether tasks may be given up: by an agent that is interrupted again and again, or because
    somebody stands still for long: a lead's only teammate for minutes, anybody again and again.
    """
    faults = world.setup.faults
    kinds = {fault.kind for fault in faults}
    stopped_s = sum(fault.seconds for fault in faults if fault.kind == "stop")
    stalled = stopped_s >= 1_200 or (world.setup.led and "stop" in kinds)
    return bool(kinds & {"cancel", "pause", "release"}) or stalled


def _spend(world: World) -> Iterator[str]:
    """What is booked is what the provider counted, of members that have left too."""
    team = world.kept._teams[TEAM].team
    booked = [member.agent.usage for member in team.roster if member.agent is not None]
    booked += team.facts.spent
    for what in ("requests", "input_tokens", "output_tokens"):
        used = sum(each[what] for each in world.truth.used.values())
        found = sum(getattr(each, what) for each in booked)
        if found > used or (found < used and not world.unknowable):
            yield f"spend: {used} {what} were used, but {found} are booked"
