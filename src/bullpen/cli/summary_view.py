"""What a team did, for people: as text, or as a Markdown page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bullpen.cli.render import Page
from bullpen.unattended.summary import MemberLine, Summary, TaskLine
from bullpen.view.agent_words import duration, money, tokens

_STATES = {
    "merged": "merged",
    "done": "done",
    "given_up": "given up",
    "queued": "waits to be merged",
    "unproven": "completed without its checks",
    "in_progress": "in progress",
    "blocked": "blocked",
    "pending": "open",
}
_LIMITS = {"turns": "turns", "tokens": "tokens", "usd": "US dollars", "wall_s": "time"}

_TASKS = ("task", "state", "by", "tries", "came back", "cost", "subject")
_MEMBERS = (
    *("member", "driver", "state", "done", "turns", "tokens", "cost"),
    *("at work", "waited", "restarts"),
)
_MERGES = ("commit", "task", "by", "time")


class SummaryViews:
    """The account of a team, as the reader of a command wants it."""

    def __init__(self, page: Page) -> None:
        self._page = page

    def whole(self, summary: Summary, *, markdown: bool) -> None:
        """Show all of it."""
        if self._page.json:
            self._page.value(summary.row)
        elif markdown:
            for line in markdown_of(summary):
                self._page.drawing([line])
        else:
            self._text(summary)

    def _text(self, summary: Summary) -> None:
        page = self._page
        page.fields(list(_head(summary)))
        for title, columns, rows in _tables(summary):
            page.line()
            page.title(title)
            page.table(columns, rows)
        if summary.needs:
            page.line()
            page.title("For you to see to")
            for need in summary.needs:
                page.line(f"  {need}")


def markdown_of(summary: Summary) -> Iterator[str]:
    """The account as the lines of a Markdown page."""
    yield f"# Team {_escaped(summary.team)}"
    yield ""
    for name, value in _head(summary):
        if value and name != "team":
            yield f"- **{name}**: {_escaped(value)}"
    for title, columns, rows in _tables(summary):
        yield ""
        yield f"## {title}"
        yield ""
        yield f"| {' | '.join(columns)} |"
        yield f"|{'---|' * len(columns)}"
        for row in rows:
            yield f"| {' | '.join(_escaped(cell) or '-' for cell in row)} |"
    if summary.needs:
        yield ""
        yield "## For you to see to"
        yield ""
        for need in summary.needs:
            yield f"- {_escaped(need)}"


def _escaped(text: str) -> str:
    """A text of one line in which nothing is markup."""
    line = " ".join(text.split())
    return "".join(f"\\{char}" if char in "\\|*_`<>[]#" else char for char in line)


def _head(summary: Summary) -> Iterator[tuple[str, str]]:
    counts = ", ".join(f"{n} {_STATES[state]}" for state, n in summary.counts.items())
    yield "team", summary.team
    yield "goal", summary.goal or ""
    yield "file", summary.file or ""
    yield "outcome", summary.status
    yield "cause", summary.cause or ""
    yield "time", f"{duration(summary.seconds)}, since {summary.began}" if summary.began else ""
    yield "tasks", counts
    used = summary.used
    yield "used", f"{used.turns} turns, {tokens(used)} tokens, {money(used)}"
    for limit in summary.limits:
        unit = _LIMITS.get(limit.limit, limit.limit)
        amounts = [
            duration(amount) if limit.limit == "wall_s" else f"{amount:g}"
            for amount in (limit.used, limit.most)
        ]
        yield f"limit on {unit}", " of ".join(amounts)


def _tables(summary: Summary) -> Iterator[tuple[str, Sequence[str], list[list[str]]]]:
    if summary.tasks:
        yield "Tasks", _TASKS, [_task(line) for line in summary.tasks]
    if summary.merges:
        rows = [[line.commit[:12], f"#{line.task}", line.by, line.at] for line in summary.merges]
        yield "Merged, in order", _MERGES, rows
    if summary.members:
        yield "Members", _MEMBERS, [_member(line) for line in summary.members]


def _task(line: TaskLine) -> list[str]:
    state = _STATES[line.state]
    if line.commit is not None:
        state = f"{state} as {line.commit[:12]}"
    subject = f"{line.subject} ({line.why})" if line.why else line.subject
    return [
        f"#{line.id}",
        state,
        line.by or "",
        str(line.attempts),
        str(line.returned),
        money(line.used) if line.used.requests or line.used.cost_usd else "",
        subject,
    ]


def _member(line: MemberLine) -> list[str]:
    return [
        line.name,
        line.driver or "",
        line.state,
        str(len(line.tasks)),
        str(line.used.turns),
        tokens(line.used),
        money(line.used),
        duration(line.working_s),
        duration(line.waiting_s),
        str(line.restarts),
    ]
