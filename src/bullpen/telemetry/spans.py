"""The trace of a team from its log: a span for the run, for each turn and for each task. Pure.

Ids are made from the team, the time of its first event and the number of the event that a span
began with: telling the same log again makes the same spans.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bullpen.protocol.agent import AgentFacts, Usage
from bullpen.protocol.changes import (
    DeleteTask,
    Deliver,
    Event,
    MarkMail,
    PutMember,
    PutTask,
    PutTeam,
    RemoveMember,
)
from bullpen.protocol.roster import Member
from bullpen.protocol.task import Task
from bullpen.protocol.times import ms_of
from bullpen.team.lookup import owner_of
from bullpen.telemetry import names
from bullpen.telemetry.tools import ToolCall, tool_spans
from bullpen.telemetry.traced import Attribute, SpanRecord, Turn, TurnEnd

_TURN_ENDS: Mapping[str, TurnEnd] = {
    "agent.idle": "idle",
    "agent.end": "ended",
    "agent.withdraw": "ended",
    "agent.resume": "lost",
    "agent.spawn": "lost",
    "agent.ready": "lost",
}


@dataclass(slots=True)
class _Claim:
    """A task that somebody has in progress."""

    task: Task
    owner: str
    seq: int
    from_ms: int


@dataclass(slots=True)
class _Agent:
    """What is known of one agent while the log is told."""

    facts: AgentFacts
    turn: Turn | None = None
    # Mail that was put into its turn, or into the next one, with the turn that it came from.
    reading: dict[str, str | None] = field(default_factory=dict)


class Trace:
    """The spans of one run. What has ended is handed out once; what has not is waited for."""

    def __init__(self, *, content: bool = False) -> None:
        self._content = content
        self._agents: dict[str, _Agent] = {}
        self._claims: dict[str, _Claim] = {}
        # The turn in which a message was sent, by its id.
        self._sent: dict[str, str | None] = {}
        self._goal: str | None = None
        self.team = ""
        self.trace_id = ""
        self.began_ms = 0
        self.at_ms = 0
        self._root_ms: int | None = None

    def tell(
        self, events: Iterable[Event], calls: Mapping[str, Sequence[ToolCall]]
    ) -> list[SpanRecord]:
        """Go on with these events; the spans that ended with them.

        `calls` are those of the agents whose transcripts are on this machine.
        """
        found: list[SpanRecord] = []
        for event in events:
            for span in self._tell(event):
                found.append(span)
                if span.turn is not None:
                    own = calls.get(span.turn.agent, ())
                    found += tool_spans(span, own, content=self._content)
        return [*found, *self._root()]

    @property
    def at_work(self) -> bool:
        """Whether any agent has not ended."""
        return any(agent.facts.phase != "ended" for agent in self._agents.values())

    @staticmethod
    def agents_in(events: Iterable[Event]) -> set[str]:
        """The names of the agents that events are about."""
        return {
            change.member.name
            for event in events
            for change in event.changes
            if isinstance(change, PutMember) and change.member.agent is not None
        }

    def _tell(self, event: Event) -> Iterator[SpanRecord]:
        self.at_ms = max(self.at_ms, ms_of(event.time) or 0)
        if not self.trace_id:
            self.began_ms = self.at_ms
        for change in event.changes:
            match change:
                case PutTeam(fields):
                    self._team(event, fields)
                case PutMember(member) if member.agent is not None:
                    yield from self._member(event, member, member.agent)
                case RemoveMember(name):
                    yield from self._leave(name, "ended", None)
                    self._agents.pop(name, None)
                case PutTask(task) if not task.is_internal:
                    yield from self._task(event, task)
                case DeleteTask(task_id):
                    yield from self._settle(task_id, "deleted")
                case Deliver(_, message):
                    self._sent[message.id] = self.turn_of(message.sender)
                case MarkMail(agent, ids, state) if state in ("injected", "seen"):
                    self._read(agent, ids)
                case _:
                    pass

    def _team(self, event: Event, fields: Mapping[str, Any]) -> None:
        self.team = str(fields.get("name", self.team))
        self._goal = str(fields["description"]) if fields.get("description") else self._goal
        if not self.trace_id:
            seed = f"{self.team}\0{event.time}".encode("utf-8", "surrogatepass")
            self.trace_id = hashlib.sha256(seed).hexdigest()[:32]

    def span_id(self, key: str) -> str:
        """The id of a span, by what it is."""
        seed = f"{self.trace_id}\0{key}".encode("utf-8", "surrogatepass")
        return hashlib.sha256(seed).hexdigest()[:16]

    def turn_of(self, name: str) -> str | None:
        """The span of the turn that an agent is in, if it is in one."""
        agent = self._agents.get(name)
        return None if agent is None or agent.turn is None else agent.turn.span_id

    def _read(self, name: str, ids: Sequence[str]) -> None:
        agent = self._agents.get(name)
        if agent is not None:
            agent.reading |= {each: self._sent.get(each) for each in ids}

    def _member(self, event: Event, member: Member, facts: AgentFacts) -> Iterator[SpanRecord]:
        agent = self._agents.setdefault(member.name, _Agent(facts))
        if event.op == "agent.turn":
            yield from self._leave(member.name, "lost", facts)
            tasks = [claim.task.id for claim in self._claims.values() if claim.owner == member.name]
            agent.turn = Turn(
                member.name,
                self.span_id(f"turn {event.seq}"),
                event.seq,
                self.at_ms,
                agent.facts.used,
                tasks,
            )
        elif event.op in _TURN_ENDS:
            yield from self._leave(member.name, _TURN_ENDS[event.op], facts)
        agent.facts = facts

    def _leave(self, name: str, end: TurnEnd, facts: AgentFacts | None) -> Iterator[SpanRecord]:
        """The span of the turn that an agent was in, if it was in one."""
        agent = self._agents.get(name)
        if agent is None or agent.turn is None:
            return
        turn, agent.turn = agent.turn, None
        read, agent.reading = agent.reading, {}
        facts = facts or agent.facts
        failed = facts.end if facts.end in ("failed", "lost") else None
        why = "lost" if end == "lost" else failed
        yield SpanRecord(
            name=f"{names.INVOKE_AGENT} {name}",
            trace_id=self.trace_id,
            span_id=turn.span_id,
            parent_id=self.span_id("run"),
            from_ms=turn.from_ms,
            to_ms=self.at_ms,
            attributes={
                names.OPERATION: names.INVOKE_AGENT,
                names.AGENT_NAME: name,
                names.AGENT_ID: f"{name}@{self.team}",
                names.CONVERSATION: self.trace_id,
                names.TEAM: self.team,
                names.SEQ: turn.seq,
                names.END: end,
                names.TASKS: tuple(turn.tasks),
                names.MAIL: len(read),
                **_agent_attributes(facts),
                **_usage_attributes(facts.used, since=turn.used),
            },
            links=tuple(dict.fromkeys(each for each in read.values() if each)),
            error=why,
            turn=turn,
        )

    def _task(self, event: Event, task: Task) -> Iterator[SpanRecord]:
        claim = self._claims.get(task.id)
        goes_on = (
            claim is not None
            and task.status == "in_progress"
            and (task.owner, task.facts.attempt) == (claim.task.owner, claim.task.facts.attempt)
        )
        if goes_on:
            return
        given_up = task.facts.given_up is not None
        yield from self._settle(
            task.id,
            "completed" if task.status == "completed" else "given_up" if given_up else "released",
        )
        if task.status == "in_progress":
            owner = owner_of(task, self.team) or ""
            self._claims[task.id] = _Claim(task, owner, event.seq, self.at_ms)
            agent = self._agents.get(owner)
            if agent is not None and agent.turn is not None and task.id not in agent.turn.tasks:
                agent.turn.tasks.append(task.id)

    def _settle(self, task_id: str, end: str) -> Iterator[SpanRecord]:
        """The span of a claim that is over, if there was one."""
        claim = self._claims.pop(task_id, None)
        if claim is None:
            return
        task = claim.task
        more: dict[str, Attribute] = {names.TASK_SUBJECT: task.subject} if self._content else {}
        yield SpanRecord(
            name=f"task #{task_id}",
            trace_id=self.trace_id,
            span_id=self.span_id(f"task {claim.seq} {task_id}"),
            parent_id=self.span_id("run"),
            from_ms=claim.from_ms,
            to_ms=self.at_ms,
            attributes={
                names.TEAM: self.team,
                names.SEQ: claim.seq,
                names.TASK: task_id,
                names.TASK_OWNER: claim.owner,
                names.TASK_ATTEMPT: task.facts.attempt,
                names.END: end,
                **more,
            },
            error=None if end in ("completed", "deleted") else end,
        )

    def _root(self) -> Iterator[SpanRecord]:
        """The span of the whole run, when nobody is at work any more; again if it went on."""
        if self.at_work or not self.trace_id or self._root_ms == self.at_ms:
            return
        self._root_ms = self.at_ms
        more: dict[str, Attribute] = {}
        if self._content and self._goal:
            more[names.GOAL] = self._goal
        yield SpanRecord(
            name=f"{names.INVOKE_WORKFLOW} {self.team}",
            trace_id=self.trace_id,
            span_id=self.span_id("run"),
            parent_id=None,
            from_ms=self.began_ms,
            to_ms=self.at_ms,
            attributes={
                names.OPERATION: names.INVOKE_WORKFLOW,
                names.CONVERSATION: self.trace_id,
                names.TEAM: self.team,
                **more,
            },
        )


def _agent_attributes(facts: AgentFacts) -> dict[str, Attribute]:
    spec = facts.asked
    found: dict[str, Attribute] = {
        names.DRIVER: spec.driver,
        names.PROVIDER: names.provider_of(spec.driver, spec.model),
    }
    if spec.model is not None:
        found[names.MODEL] = spec.model
    return found


def _usage_attributes(used: Usage, *, since: Usage) -> dict[str, Attribute]:
    """What a turn used; by the conventions, tokens from caches are part of the input."""
    read = max(0, used.cache_read_tokens - since.cache_read_tokens)
    wrote = max(0, used.cache_write_tokens - since.cache_write_tokens)
    fresh = max(0, used.input_tokens - since.input_tokens)
    return {
        names.INPUT_TOKENS: fresh + read + wrote,
        names.OUTPUT_TOKENS: max(0, used.output_tokens - since.output_tokens),
        names.CACHE_READ_TOKENS: read,
        names.CACHE_WRITE_TOKENS: wrote,
        names.COST: round(max(0.0, used.cost_usd - since.cost_usd), 9),
    }
