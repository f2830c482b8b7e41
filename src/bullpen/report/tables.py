"""The tables of a report, as plain text in cells: what HTML and Markdown have in common. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import compress

from bullpen.report.run import Run
from bullpen.team.cost import UNKNOWN_MODEL, Line
from bullpen.unattended.summary import MemberLine, TaskLine
from bullpen.view.agent_words import count, duration, money, tokens, used_any
from bullpen.view.scene import TaskCard

STATES = {
    "merged": "merged",
    "done": "done",
    "given_up": "given up",
    "queued": "waits to be merged",
    "unproven": "completed without its checks",
    "in_progress": "in progress",
    "blocked": "blocked",
    "pending": "open",
}
OUTCOMES = {
    "done": "everything is done",
    "unfinished": "it ended with work left",
    "running": "it is running",
}
ANSWERS = {"approved": "yes", "denied": "no", "expired": "nobody answered", "pending": "waits"}
_CHECKS = {True: "passed", False: "failed", None: "not looked at"}
_COMMIT_SHOWN = 12


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under column names, each cell a text of one line or more."""

    name: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    @property
    def compact(self) -> Table:
        """The table without columns in which no row has anything."""
        used = [any(row[at] for row in self.rows) for at in range(len(self.columns))]
        return Table(
            self.name,
            list(compress(self.columns, used)),
            [list(compress(row, used)) for row in self.rows],
        )


def facts(run: Run) -> Iterator[tuple[str, str]]:
    """What there is to say about the whole run, in pairs."""
    summary = run.summary
    counts = ", ".join(f"{n} {STATES[state]}" for state, n in summary.counts.items())
    began = summary.began or ""
    until = "now" if not run.over else summary.until
    nothing = not summary.tasks and summary.status == "done" and run.scene.result is None
    outcome = OUTCOMES.get(summary.status, summary.status)
    yield "Outcome", "there was nothing to do" if nothing else outcome
    yield "Time", f"{duration(summary.seconds)}, from {began} to {until}" if began else ""
    yield "Tasks", counts or "none"
    yield "Used", _used(run)
    yield "Made from", summary.file or ""


def source(run: Run) -> str:
    """What the page is made of."""
    count = run.story.seq
    return f"Told from the team's log of {count} event{'' if count == 1 else 's'}. Times are UTC."


def _used(run: Run) -> str:
    total = run.cost.total
    turns = f"{total.turns} turn{'' if total.turns == 1 else 's'}"
    if not used_any(total):
        return turns
    cached = f" and {count(total.cache_read_tokens)} from caches" if total.cache_read_tokens else ""
    return f"{turns}, {tokens(total)} tokens{cached}, {money(total)}"


def task_rows(run: Run) -> Iterator[tuple[TaskLine, TaskCard]]:
    """The tasks: how each went, and how it stands."""
    cards = {card.id: card for card in run.scene.tasks}
    yield from ((line, cards[line.id]) for line in run.summary.tasks)


def task_cells(line: TaskLine, card: TaskCard) -> list[str]:
    """A task in cells, under the columns of `TASK_COLUMNS`."""
    checks = ", ".join(f"{name}: {_CHECKS[passed]}" for name, passed in card.checks)
    return [
        f"#{line.id}",
        line.subject,
        STATES[line.state],
        line.by or "",
        str(line.attempts or ""),
        checks,
        (line.commit or "")[:_COMMIT_SHOWN],
        money(line.used) if used_any(line.used) else "",
    ]


TASK_COLUMNS = ("task", "subject", "state", "by", "tries", "checks", "commit", "cost")


def members(run: Run) -> Table:
    """Who took part, what they did and used."""
    columns = (
        "member", "program", "model", "state", "done", "turns", "tokens", "cost", "at work",
        "waited",
    )  # fmt: skip
    return Table("Members", columns, [_member(line) for line in run.summary.members])


def _member(line: MemberLine) -> list[str]:
    used = line.used
    return [
        line.name,
        line.driver or "",
        line.model or "",
        f"{line.state}: {line.cause}" if line.cause else line.state,
        str(len(line.tasks)),
        str(used.turns),
        tokens(used) if used_any(used) else "",
        money(used) if used_any(used) else "",
        duration(line.working_s),
        duration(line.waiting_s),
    ]


def spend(run: Run) -> Table:
    """What was used, by model and by task."""
    cost = run.cost
    rows = [_spent(f"model {_model(line.name)}", line) for line in cost.models]
    rows += [
        _spent("coordination" if line.name == "-" else f"task #{line.name}", line)
        for line in cost.tasks
    ]
    if not any(used_any(line.used) for line in cost.models):
        rows = []
    return Table("Spend", ("for", "requests", "tokens", "from caches", "cost"), rows)


def _model(name: str) -> str:
    return "not known" if name == UNKNOWN_MODEL else name


def _spent(what: str, line: Line) -> list[str]:
    used = line.used
    shown = used_any(used)
    return [
        what,
        str(used.requests),
        tokens(used),
        count(used.cache_read_tokens),
        money(used) if shown else "",
    ]


def decisions(run: Run) -> Table:
    """What was asked for, and what came of it."""
    return Table(
        "Decisions and approvals",
        ("asked", "who", "what", "answer", "by", "answered", "words"),
        [
            [
                run.clock(each.asked_ms),
                each.sender,
                each.about,
                ANSWERS.get(each.state, each.state),
                each.by or "",
                run.clock(each.answered_ms),
                each.words or "",
            ]
            for each in run.decisions
        ],
    )


def merges(run: Run) -> Table:
    """What landed on the target, in order."""
    return Table(
        "Merges",
        ("commit", "task", "by", "time"),
        [
            [line.commit[:_COMMIT_SHOWN], f"#{line.task}", line.by, run.when(line.at)]
            for line in run.summary.merges
        ],
    )
