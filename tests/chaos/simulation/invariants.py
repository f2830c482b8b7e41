"""What must be so at the end of every history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Protocol

from bullpen.agents.system.transcript import NAME as TRANSCRIPT
from bullpen.agents.system.transcript import rows
from bullpen.protocol import json_text
from bullpen.protocol.changes import DeleteTask, Deliver, Event, PutMember, PutTask
from bullpen.protocol.names import LEAD
from bullpen.protocol.payloads import Control, IdleNotification, payload_of
from bullpen.protocol.task import Task
from bullpen.team.lookup import owner_of

if TYPE_CHECKING:
    from .world import World

TEAM = "sim"


class Check(Protocol):
    """One promise about the events of a history. The log is long, so it is read once for all."""

    def take(self, event: Event) -> Iterable[str]:
        """What is wrong with the next event."""

    def end(self) -> Iterable[str]:
        """What is wrong with the whole."""


def violations(world: World) -> list[str]:
    """Everything that is wrong, each with the name of its invariant."""
    checks: tuple[Check, ...] = (_Reports(world), _Mail(world), _Tasks(world))
    found: list[str] = []
    for line in world.kept._teams[TEAM].log:
        event = Event.decode(json_text.loads_line(line))
        for check in checks:
            found += check.take(event)
    for check in checks:
        found += check.end()
    found += [f"broke: {error}" for error in world.broke]
    found += [*_spend(world), *(f"crash: {crash}" for crash in world.machine.crashes)]
    return found


class _Reports:
    """Each turn's report arrives at the lead exactly once."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._came: Counter[tuple[str, str]] = Counter()

    def take(self, event: Event) -> Iterable[str]:
        for change in event.changes:
            if not isinstance(change, Deliver) or change.to != LEAD:
                continue
            payload = payload_of(change.message.text)
            if isinstance(payload, IdleNotification):
                words = payload.failure_reason or payload.result or ""
                self._came[payload.sender, words] += 1
        return ()

    def end(self) -> Iterator[str]:
        ended = _ended_turns(self._world)
        for turn in self._world.truth.turns:
            if turn.agent == LEAD:
                continue
            many = self._came[turn.agent, turn.words]
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


class _Mail:
    """Each message is read by its model once, or still waits; none is stored twice."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._read = Counter(world.truth.read)
        self._texts: Counter[tuple[str, str]] = Counter()

    def take(self, event: Event) -> Iterator[str]:
        state = self._world.kept._teams[TEAM].state.mail
        for change in event.changes:
            if not isinstance(change, Deliver):
                continue
            message = change.message
            payload = payload_of(message.text)
            if message.text.startswith(("question-", "reply-")):
                self._texts[change.to, message.text] += 1
            seen = state.get(change.to, {}).get(message.id) not in ("stored", "injected")
            modelled = change.to in self._world.memories and not isinstance(payload, Control)
            if modelled and seen and not self._read[change.to, message.id]:
                yield f"mail: a message to {change.to} is seen, but no model read it"

    def end(self) -> Iterator[str]:
        for (agent, message_id), times in self._read.items():
            if times > 1:
                yield f"mail: {agent} read message {message_id} {times} times"
        for (to, text), times in self._texts.items():
            if times > 1:
                yield f"mail: {text!r} was delivered to {to} {times} times"


class _Tasks:
    """No task has two owners in one attempt, and none is completed twice."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._before: dict[str, tuple[str, str | None, int]] = {}
        self._working: dict[str, str | None] = {}
        self._owners: dict[tuple[str, int], set[str | None]] = {}
        self._ended: set[str] = set()

    def take(self, event: Event) -> Iterator[str]:
        for change in event.changes:
            if isinstance(change, PutMember):
                # Not parsed: a long log has very many of them.
                agent = change.member.bullpen or {}
                gone = agent.get("phase") == "ended" and agent.get("end") != "suspended"
                (self._ended.add if gone else self._ended.discard)(change.member.name)
            if isinstance(change, DeleteTask):
                self._before.pop(change.task_id, None)
                self._working.pop(change.task_id, None)
            if isinstance(change, PutTask):
                yield from self._put(event, change.task)
        for task_id, of in self._working.items():
            if of in self._ended:
                yield f"task: {of} has ended and still owns task {task_id}"

    def _put(self, event: Event, task: Task) -> Iterator[str]:
        owner, attempt = owner_of(task, TEAM), task.facts.attempt
        status, of, before = self._before.get(task.id, ("pending", None, 0))
        if status == "completed":
            yield f"task: {task.id} changed after it was completed ({event.op})"
        self._working.pop(task.id, None)
        if task.status == "in_progress":
            self._working[task.id] = owner
            self._owners.setdefault((task.id, attempt), set()).add(owner)
            if status == "in_progress" and of != owner:
                yield f"task: {task.id} went from {of} to {owner} while in progress"
        # Whoever completes a task that nobody has claims it with that.
        claimed_too = (owner, attempt) == (event.actor, before + 1)
        if task.status == "completed" and status != "in_progress" and not claimed_too:
            yield f"task: {task.id} was completed while {status}"
        self._before[task.id] = (task.status, owner, attempt)

    def end(self) -> Iterator[str]:
        world = self._world
        for (task_id, attempt), names in self._owners.items():
            if len(names) > 1:
                yield f"task: {task_id} had the owners {names} in attempt {attempt}"
        told = Counter(task for task, _, _ in world.truth.completed)
        for task_id, times in told.items():
            if times > 1:
                yield f"task: {times} models were told that they completed task {task_id}"
        outcome = world.outcome
        if outcome is not None and outcome.status != "done" and not _may_stay_open(world):
            yield f"tasks: the run ended {outcome.status}: {outcome.cause}"


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
