"""The trace of a team from its log: a span for the run, for each turn and for each task. Pure.

Ids are made from the team, the time of its first event and the number of a span's first event, so
the same log always gives the same spans.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bullpen.doors.telemetry import attribute_names as names
from bullpen.doors.telemetry.span_records import Attribute, SpanRecord, TurnEnd, TurnSpan
from bullpen.doors.telemetry.tool_spans import ToolCall, tool_spans
from bullpen.protocol import changes
from bullpen.protocol.agent import AgentFacts, Usage
from bullpen.protocol.changes import (
    Event,
)
from bullpen.protocol.clock import ms_of
from bullpen.protocol.task import Task
from bullpen.protocol.team import Member
from bullpen.team.lookup import owner_of

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
    """A task in progress."""

    task: Task
    owner: str
    seq: int
    from_ms: int


@dataclass(slots=True)
class _Agent:
    """What is known about one agent so far."""

    facts: AgentFacts
    turn: TurnSpan | None = None
    # Messages in its current or next turn, each with the turn that it was sent from.
    reading: dict[str, str | None] = field(default_factory=dict)


class Trace:
    """The spans of one run; each is returned once, when it has ended."""

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
        """Tell these events, and return the spans that ended with them.

        `calls` are the tool calls of agents whose transcripts are on this machine.
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
        return any(agent.facts.phase != "ended" for agent in self._agents.values())

    @staticmethod
    def agents_in(events: Iterable[Event]) -> set[str]:
        return {
            change.member.name
            for event in events
            for change in event.changes
            if isinstance(change, changes.PutMember) and change.member.agent is not None
        }

    def _tell(self, event: Event) -> Iterator[SpanRecord]:
        self.at_ms = max(self.at_ms, ms_of(event.time) or 0)
        if not self.trace_id:
            self.began_ms = self.at_ms
        for change in event.changes:
            match change:
                case changes.PutTeam(fields):
                    self._team(event, fields)
                case changes.PutMember(member) if member.agent is not None:
                    yield from self._member(event, member, member.agent)
                case changes.RemoveMember(name):
                    yield from self._leave(name, "ended", None)
                    self._agents.pop(name, None)
                case changes.PutTask(task) if not task.is_internal:
                    yield from self._task(event, task)
                case changes.DeleteTask(task_id):
                    yield from self._settle(task_id, "deleted")
                case changes.Deliver(_, message):
                    self._sent[message.id] = self.turn_of(message.sender)
                case changes.MarkMail(agent, ids, state) if state in ("injected", "seen"):
                    self._read(agent, ids)

    def _team(self, event: Event, fields: Mapping[str, Any]) -> None:
        self.team = str(fields.get("name", self.team))
        self._goal = str(fields["description"]) if fields.get("description") else self._goal
        if not self.trace_id:
            seed = f"{self.team}\0{event.time}".encode("utf-8", "surrogatepass")
            self.trace_id = hashlib.sha256(seed).hexdigest()[:32]

    def span_id(self, key: str) -> str:
        seed = f"{self.trace_id}\0{key}".encode("utf-8", "surrogatepass")
        return hashlib.sha256(seed).hexdigest()[:16]

    def turn_of(self, name: str) -> str | None:
        """The id of the span of an agent's current turn."""
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
            agent.turn = TurnSpan(
                member.name,
                self.span_id(f"turn {event.seq}"),
                event.seq,
                self.at_ms,
                agent.facts.usage,
                tasks,
            )
        elif event.op in _TURN_ENDS:
            yield from self._leave(member.name, _TURN_ENDS[event.op], facts)
        agent.facts = facts

    def _leave(self, name: str, end: TurnEnd, facts: AgentFacts | None) -> Iterator[SpanRecord]:
        """The span of an agent's turn, which ends here."""
        agent = self._agents.get(name)
        if agent is None or agent.turn is None:
            return
        turn, agent.turn = agent.turn, None
        read, agent.reading = agent.reading, {}
        facts = facts or agent.facts
        failed = facts.end if facts.end in ("failed", "lost") else None
        why = "lost" if end == "lost" else failed
        yield self._span(
            f"{names.INVOKE_AGENT} {name}",
            turn.span_id,
            turn.from_ms,
            {
                names.OPERATION: names.INVOKE_AGENT,
                names.AGENT_NAME: name,
                names.AGENT_ID: f"{name}@{self.team}",
                names.CONVERSATION: self.trace_id,
                names.SEQ: turn.seq,
                names.END: end,
                names.TASKS: tuple(turn.tasks),
                names.MAIL: len(read),
                **_agent_attributes(facts),
                **_usage_attributes(facts.usage, since=turn.used),
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
        """The span of a task's claim, which ends here."""
        claim = self._claims.pop(task_id, None)
        if claim is None:
            return
        task = claim.task
        more: dict[str, Attribute] = {names.TASK_SUBJECT: task.subject} if self._content else {}
        yield self._span(
            f"task #{task_id}",
            self.span_id(f"task {claim.seq} {task_id}"),
            claim.from_ms,
            {
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
        """The span of the whole run, once all agents have ended; again if it was continued."""
        if self.at_work or not self.trace_id or self._root_ms == self.at_ms:
            return
        self._root_ms = self.at_ms
        more: dict[str, Attribute] = {}
        if self._content and self._goal:
            more[names.GOAL] = self._goal
        yield self._span(
            f"{names.INVOKE_WORKFLOW} {self.team}",
            self.span_id("run"),
            self.began_ms,
            {
                names.OPERATION: names.INVOKE_WORKFLOW,
                names.CONVERSATION: self.trace_id,
                **more,
            },
        )

    def _span(
        self,
        name: str,
        span_id: str,
        from_ms: int,
        attributes: Mapping[str, Attribute],
        **more: Any,
    ) -> SpanRecord:
        """A span that ends now, below the span of the run."""
        run_id = self.span_id("run")
        parent = None if span_id == run_id else run_id
        attributes = {names.TEAM: self.team, **attributes}
        return SpanRecord(
            name, self.trace_id, span_id, parent, from_ms, self.at_ms, attributes, **more
        )


def _agent_attributes(facts: AgentFacts) -> dict[str, Attribute]:
    spec = facts.spec
    found: dict[str, Attribute] = {
        names.DRIVER: spec.driver,
        names.PROVIDER: names.provider_of(spec.driver, spec.model),
    }
    if spec.model is not None:
        found[names.MODEL] = spec.model
    return found


def _usage_attributes(used: Usage, *, since: Usage) -> dict[str, Attribute]:
    """The usage of a turn; by the conventions, cached tokens are part of the input."""
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
