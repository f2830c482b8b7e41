"""The metrics of a team, from its log: turns, waiting work, latency and cost. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from bullpen.doors.telemetry import attribute_names as names
from bullpen.doors.telemetry.span_records import SpanRecord
from bullpen.doors.telemetry.tool_spans import ToolCall
from bullpen.protocol.changes import Deliver, Event, MarkMail, PutTask
from bullpen.protocol.clock import ms_of
from bullpen.protocol.request import RequestKind
from bullpen.team.budget.rules import account
from bullpen.view.scene import scene_of
from bullpen.view.story import Story
from bullpen.view.task_state import TASK_STATES

Labels = tuple[tuple[str, str], ...]

TURN_SECONDS = (1.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0)
MAIL_SECONDS = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
_TOOL_CALLS = "Tool calls in transcripts on this machine."
_LATENCY = "From a message being stored to its being seen."


@dataclass(slots=True)
class Distribution:
    """A histogram: how many values are at most each bound, and how many are above the last."""

    bounds: tuple[float, ...]
    counts: list[int] = field(default_factory=list)
    total: float = 0.0
    least: float = 0.0
    most: float = 0.0

    def __post_init__(self) -> None:
        self.counts = self.counts or [0] * (len(self.bounds) + 1)

    @property
    def count(self) -> int:
        return sum(self.counts)

    def add(self, value: float) -> None:
        self.least = min(self.least, value) if self.count else value
        self.most = max(self.most, value)
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric with all its values, by labels."""

    name: str
    unit: str
    about: str
    kind: Literal["sum", "gauge", "histogram"]
    points: Mapping[Labels, float | Distribution]


class Meter:
    """Counts what the log tells."""

    def __init__(self) -> None:
        self.story = Story()
        self._at_ms = 0
        self._delivered: dict[tuple[str, str], int] = {}
        self._turns: Counter[Labels] = Counter()
        self._turn_s: dict[Labels, Distribution] = {}
        self._mail_s: dict[Labels, Distribution] = {}
        self._claims: Counter[Labels] = Counter()

    def tell(self, events: Sequence[Event], spans: Iterable[SpanRecord]) -> None:
        """Count these events, and the spans that ended with them."""
        self.story.tell(events)
        for event in events:
            self._at_ms = max(self._at_ms, ms_of(event.time) or 0)
            for change in event.changes:
                match change:
                    case Deliver(to, message):
                        self._delivered.setdefault((to, message.id), self._at_ms)
                    case MarkMail(agent, ids, state) if state != "injected":
                        self._seen(agent, ids, counts=state == "seen")
                    case PutTask(task) if event.op == "task.claim" and task.owner:
                        self._claims[(("agent", event.actor),)] += 1
        for span in spans:
            if span.turn is not None:
                self._count_turn(span)

    def _seen(self, agent: str, ids: Iterable[str], *, counts: bool) -> None:
        labels = (("agent", agent),)
        for each in ids:
            at = self._delivered.pop((agent, each), None)
            if at is not None and counts:
                spread = self._mail_s.setdefault(labels, Distribution(MAIL_SECONDS))
                spread.add((self._at_ms - at) / 1000)

    def _count_turn(self, span: SpanRecord) -> None:
        agent = str(span.attributes[names.AGENT_NAME])
        self._turns[("agent", agent), ("end", str(span.attributes[names.END]))] += 1
        model = str(span.attributes.get(names.MODEL, ""))
        labels = (("agent", agent), ("model", model))
        spread = self._turn_s.setdefault(labels, Distribution(TURN_SECONDS))
        spread.add((span.to_ms - span.from_ms) / 1000)

    def metrics(self, calls: Mapping[str, Sequence[ToolCall]], *, now_ms: int) -> list[Metric]:
        """All metrics as of now. `calls` are those in the transcripts on this machine."""
        tools = _tool_points(calls)
        return [
            Metric("bullpen.turns", "{turn}", "Turns that ended.", "sum", dict(self._turns)),
            Metric("bullpen.turn.duration", "s", "How long turns took.", "histogram", self._turn_s),
            Metric("bullpen.tool.calls", "{call}", _TOOL_CALLS, "sum", tools),
            Metric("bullpen.mail.latency", "s", _LATENCY, "histogram", self._mail_s),
            Metric("bullpen.task.claims", "{claim}", "Claims.", "sum", dict(self._claims)),
            *self._levels(now_ms),
            *self._spend(),
        ]

    def _levels(self, now_ms: int) -> list[Metric]:
        """The gauges: how many there are of each thing now."""
        scene = scene_of(self.story, now_ms=now_ms)
        tasks = Counter(card.state for card in scene.tasks)
        members = Counter(card.state for card in scene.members)
        asks = Counter(card.kind for card in scene.asks)
        gauges: tuple[tuple[str, str, str, dict[Labels, float | Distribution]], ...] = (
            ("mail.unread", "{message}", "Messages not seen.",
             {(("agent", name),): self.story.unread(name) for name in self.story.members}),
            ("tasks", "{task}", "Tasks by state.",
             {(("state", state),): tasks[state] for state in TASK_STATES}),
            ("merge.queue", "{task}", "Work to be merged.", {(): tasks["queued"]}),
            ("requests.pending", "{request}", "Requests that wait for an answer.",
             {(("kind", kind),): asks[kind] for kind in get_args(RequestKind)}),
            ("members", "{member}", "Members by state, as the log says.",
             {(("state", state),): count for state, count in members.items()}),
        )  # fmt: skip
        return [
            Metric(f"bullpen.{name}", unit, about, "gauge", points)
            for name, unit, about, points in gauges
        ]

    def _spend(self) -> list[Metric]:
        usd: dict[Labels, float | Distribution] = {}
        tokens: Counter[Labels] = Counter()
        for row in account(self.story.team):
            who: Labels = (("agent", row.agent or ""), ("model", row.model or ""))
            before = usd.get(who, 0.0)
            usd[who] = row.cost_usd + (before if isinstance(before, float) else 0.0)
            for kind in ("input", "output", "cache_read", "cache_write"):
                tokens[*who, ("type", kind)] += getattr(row, f"{kind}_tokens")
        return [
            Metric("bullpen.cost", "USD", "What requests cost, where known.", "sum", usd),
            Metric("bullpen.tokens", "{token}", "Tokens used.", "sum", dict(tokens)),
        ]


def _tool_points(calls: Mapping[str, Sequence[ToolCall]]) -> dict[Labels, float | Distribution]:
    counted: Counter[Labels] = Counter()
    for agent, own in calls.items():
        for call in own:
            failed = "true" if call.failed else "false"
            counted[("agent", agent), ("tool", call.name), ("failed", failed)] += 1
    return dict(counted)
