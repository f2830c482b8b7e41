"""What a team did, for people: as text, or as a Markdown page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bullpen.doors.cli.output.page import Page
from bullpen.view.agent_words import duration, money, tokens
from bullpen.view.cards import MemberCard, TaskCard
from bullpen.view.summary import Summary
from bullpen.view.task_state import state_word

_LIMITS = {"turns": "turns", "tokens": "tokens", "usd": "US dollars", "wall_s": "time"}

_TASKS = ("task", "state", "by", "tries", "returned", "cost", "subject")
_MEMBERS = (
    *("member", "driver", "state", "done", "turns", "tokens", "cost"),
    *("working", "waiting", "restarts"),
)
_MERGES = ("commit", "task", "by", "time")
_WORKTREES = ("member", "branch", "path")
_REMOVE = "Remove these worktrees and branches, after saving what exists only there:"


class SummaryViews:
    """The account of a team, as the reader of a command wants it."""

    def __init__(self, page: Page) -> None:
        self._page = page

    def whole(self, summary: Summary, *, markdown: bool) -> None:
        """Show all of it."""
        if self._page.json:
            self._page.value("summary/1", summary.row)
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
            page.title("Needs your attention")
            for need in summary.needs:
                page.line(f"  {need}")
        if summary.removal is not None:
            page.line()
            page.line(f"{_REMOVE} {summary.removal}")


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
        yield "## Needs your attention"
        yield ""
        for need in summary.needs:
            yield f"- {_escaped(need)}"
    if summary.removal is not None:
        yield ""
        yield f"{_REMOVE} `{summary.removal}`"


def _escaped(text: str) -> str:
    """A text of one line in which nothing is markup."""
    line = " ".join(text.split())
    return "".join(f"\\{char}" if char in "\\|*_`<>[]#" else char for char in line)


def _head(summary: Summary) -> Iterator[tuple[str, str]]:
    counts = ", ".join(f"{n} {state_word(state)}" for state, n in summary.counts.items())
    yield "team", summary.team
    yield "goal", summary.goal or ""
    yield "file", summary.file or ""
    yield "outcome", summary.verdict.sentence
    yield "result", summary.result or ""
    yield "time", f"{duration(summary.seconds)}, since {summary.began}" if summary.began else ""
    yield "tasks", counts
    yield "changed", summary.changed or ""
    used = summary.used
    yield "used", f"{used.turns} turns, {tokens(used)} tokens, {money(used)}"
    yield "saved", "" if summary.saved is None else summary.saved.words
    for limit in summary.limits:
        unit = _LIMITS.get(limit.limit, limit.limit)
        amounts = [
            duration(amount) if limit.limit == "wall_s" else f"{amount:g}"
            for amount in (limit.used, limit.most)
        ]
        yield f"limit on {unit}", " of ".join(amounts)


def _tables(summary: Summary) -> Iterator[tuple[str, Sequence[str], list[list[str]]]]:
    if summary.tasks:
        yield "Tasks", _TASKS, [_task(card) for card in summary.tasks]
    if summary.merges:
        rows = [[line.commit[:12], f"#{line.task}", line.by, line.at] for line in summary.merges]
        yield "Merged, in order", _MERGES, rows
    if summary.members:
        yield "Members", _MEMBERS, [_member(card) for card in summary.members]
    if summary.worktrees:
        trees = [[line.agent, line.branch or "", line.path] for line in summary.worktrees]
        yield "Worktrees that are left", _WORKTREES, trees


def _task(card: TaskCard) -> list[str]:
    state = state_word(card.state)
    if card.commit is not None:
        state = f"{state} as {card.commit[:12]}"
    subject = f"{card.subject} ({card.why})" if card.why else card.subject
    used = card.usage
    return [
        f"#{card.id}",
        state,
        card.by or "",
        str(card.attempt),
        str(card.returned),
        money(used) if used is not None and (used.requests or used.cost_usd) else "",
        subject,
    ]


def _member(card: MemberCard) -> list[str]:
    return [
        card.name,
        card.driver or "",
        card.outcome,
        str(len(card.completed)),
        str(card.usage.turns),
        tokens(card.usage),
        money(card.usage),
        duration(card.working_s),
        duration(card.waiting_s),
        str(card.restarts),
    ]
