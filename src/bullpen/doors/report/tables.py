"""The tables of a report as plain text, for HTML and for Markdown. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import compress

from bullpen.doors.report.run_facts import Run
from bullpen.protocol.agent import COORDINATION, OLDER
from bullpen.protocol.clock import ms_of
from bullpen.protocol.request import Request
from bullpen.team.budget.cost import UNKNOWN_MODEL, CostLine
from bullpen.view.agent_words import count, duration, money, tokens, used_any
from bullpen.view.cards import MemberCard, TaskCard
from bullpen.view.news import answered_by, asked_for
from bullpen.view.task_state import state_word

ANSWERS = {"approved": "yes", "denied": "no", "expired": "nobody answered", "pending": "waiting"}
_CHECKS = {True: "passed", False: "failed", None: "not run"}
_NO_TASKS = {COORDINATION: "coordination", OLDER: "older tasks"}
_COMMIT_SHOWN = 12


@dataclass(frozen=True, slots=True)
class ReportTable:
    """Named columns and rows of texts, which may have several lines."""

    name: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    @property
    def compact(self) -> ReportTable:
        """The table without its empty columns."""
        used = [any(row[at] for row in self.rows) for at in range(len(self.columns))]
        return ReportTable(
            self.name,
            list(compress(self.columns, used)),
            [list(compress(row, used)) for row in self.rows],
        )


def facts(run: Run) -> Iterator[tuple[str, str]]:
    """Facts about the whole run, as names and values."""
    summary = run.summary
    counts = ", ".join(f"{n} {state_word(state)}" for state, n in summary.counts.items())
    began = summary.began or ""
    until = "now" if not run.over else summary.until
    nothing = not summary.tasks and summary.status == "done" and run.scene.result is None
    yield "Outcome", "there was nothing to do" if nothing else summary.verdict.sentence
    yield "Time", f"{duration(summary.seconds)}, from {began} to {until}" if began else ""
    yield "Tasks", counts or "none"
    yield "Used", _used(run)
    yield "Made from", summary.file or ""


def source(run: Run) -> str:
    count = run.story.seq
    return f"Made from the team's log of {count} event{'' if count == 1 else 's'}. Times are UTC."


def _used(run: Run) -> str:
    total = run.cost.total
    turns = f"{total.turns} turn{'' if total.turns == 1 else 's'}"
    if not used_any(total):
        return turns
    cached = f" and {count(total.cache_read_tokens)} from caches" if total.cache_read_tokens else ""
    return f"{turns}, {tokens(total)} tokens{cached}, {money(total)}"


def task_cells(card: TaskCard) -> list[str]:
    """A task in cells, under the columns of `TASK_COLUMNS`."""
    checks = [f"{name}: {_CHECKS[passed]}" for name, passed in card.checks]
    return [
        f"#{card.id}",
        card.subject,
        state_word(card.state),
        card.by or "",
        str(card.attempt or ""),
        ", ".join([*checks, *card.promises]),
        (card.commit or "")[:_COMMIT_SHOWN],
        money(card.usage) if card.usage is not None and used_any(card.usage) else "",
    ]


TASK_COLUMNS = ("task", "subject", "state", "by", "attempts", "checks", "commit", "cost")


def members(run: Run) -> ReportTable:
    columns = (
        "member", "driver", "model", "state", "done", "turns", "tokens", "cost", "working",
        "waiting",
    )  # fmt: skip
    return ReportTable("Members", columns, [_member(card) for card in run.summary.members])


def _member(card: MemberCard) -> list[str]:
    used = card.usage
    return [
        card.name,
        card.driver or "",
        card.model or "",
        f"{card.outcome}: {card.cause}" if card.cause else card.outcome,
        str(len(card.completed)),
        str(used.turns),
        tokens(used) if used_any(used) else "",
        money(used) if used_any(used) else "",
        duration(card.working_s),
        duration(card.waiting_s),
    ]


def spend(run: Run) -> ReportTable:
    cost = run.cost
    rows = [_spent(f"model {_model(line.name)}", line) for line in cost.models]
    rows += [_spent(_NO_TASKS.get(line.name) or f"task #{line.name}", line) for line in cost.tasks]
    if not any(used_any(line.used) for line in cost.models):
        rows = []
    return ReportTable("Cost", ("for", "requests", "tokens", "from caches", "cost"), rows)


def _model(name: str) -> str:
    return "not known" if name == UNKNOWN_MODEL else name


def _spent(what: str, line: CostLine) -> list[str]:
    used = line.used
    cost = money(used) if used_any(used) else ""
    return [what, str(used.requests), tokens(used), count(used.cache_read_tokens), cost]


def decisions(run: Run) -> ReportTable:
    return ReportTable(
        "Decisions and approvals",
        ("asked", "who", "what", "answer", "by", "answered", "reason"),
        [_decision(run, request) for request in run.decisions],
    )


def _decision(run: Run, request: Request) -> list[str]:
    return [
        run.clock(request.created_ms),
        request.sender,
        asked_for(request),
        ANSWERS.get(request.state, request.state),
        answered_by(request),
        run.clock(request.answered_ms),
        str((request.answer or {}).get("feedback") or ""),
    ]


def merges(run: Run) -> ReportTable:
    return ReportTable(
        "Merges",
        ("commit", "task", "by", "time"),
        [
            [line.commit[:_COMMIT_SHOWN], f"#{line.task}", line.by, run.clock(ms_of(line.at))]
            for line in run.summary.merges
        ],
    )
