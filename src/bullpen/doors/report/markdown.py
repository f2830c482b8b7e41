"""The report as Markdown that fits into a comment on a pull request.

Text from the log is never markup: no HTML, links or table cells, no mentions and no issue numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from bullpen.doors.report import tables
from bullpen.doors.report.run_facts import Run
from bullpen.doors.report.tables import ReportTable
from bullpen.view.news import sender_of
from bullpen.view.sentences import body
from bullpen.view.text import visible

BYTES_MAX = 60_000
"""Sites cut comments at some 65,000 characters."""

_SIZES = ((1000, 600), (400, 400), (150, 300), (60, 240), (25, 160), (10, 120), (3, 80), (0, 60))
"""The most rows of a table and characters of a text, from large to small."""

_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "|": "&#124;", "`": "&#96;"}
_MARKUP = re.compile(
    # A zero-width space after these keeps names, numbers and addresses from becoming links.
    r"(?P<broken>@|#(?=\w)|:(?=//)|\bGH-(?=\d)|\bwww(?=\.))"
    r"|(?P<entity>[&<>|`])"
    r"|(?P<mark>[\\*_~\[\]$])",
    re.IGNORECASE,
)
_LINE_MARKS = re.compile(r"^(\d*)([-+=.:#)])")


def markdown_page(run: Run) -> str:
    """The whole report, cut so that it fits; it says where it was cut."""
    page = ""
    for rows_max, text_max in _SIZES:
        page = "\n".join(_lines(run, rows_max, text_max)) + "\n"
        if len(page.encode("utf-8")) <= BYTES_MAX:
            break
    return page


def _lines(run: Run, rows_max: int, text_max: int) -> Iterator[str]:
    summary = run.summary
    yield f"# Report of team {_line(summary.team, text_max)}"
    yield ""
    if summary.goal:
        yield from _quoted(summary.goal, text_max * 4)
        yield ""
    if run.scene.result is not None:
        yield "**Result**"
        yield ""
        yield from _quoted(run.scene.result, text_max * 8)
        yield ""
    for name, value in tables.facts(run):
        if value:
            yield f"- **{name}**: {_line(value, text_max)}"
    if summary.needs:
        yield ""
        yield "## Needs your attention"
        yield ""
        needs = (_line(need, text_max) for need in summary.needs[:rows_max])
        yield from (f"- {_LINE_MARKS.sub(_stopped, need)}" for need in needs)
        yield from _more(len(summary.needs), rows_max)
    yield from _notes(run, rows_max, text_max)
    for table in _tables(run):
        yield ""
        yield f"## {table.name}"
        yield ""
        if not table.rows:
            yield "None."
            continue
        yield from _table(table, rows_max, text_max)
    yield ""
    yield tables.source(run)


def _notes(run: Run, rows_max: int, text_max: int) -> Iterator[str]:
    if run.notes:
        yield ""
        yield "## Notes"
    for note in run.notes[:rows_max]:
        yield ""
        about = f"version {note.version} by {_line(note.author, text_max)}"
        yield f"**{_line(note.name, text_max)}**, {about}"
        yield ""
        yield from _quoted(note.text.rstrip(), text_max * 4)
    yield from _more(len(run.notes), rows_max)


def _tables(run: Run) -> Iterator[ReportTable]:
    rows = [tables.task_cells(card) for card in run.summary.tasks]
    yield ReportTable("Tasks", tables.TASK_COLUMNS, rows)
    yield tables.members(run)
    if (spend := tables.spend(run)).rows:
        yield spend
    yield tables.decisions(run)
    if run.summary.merges:
        yield tables.merges(run)
    yield _said(run)


def _said(run: Run) -> ReportTable:
    rows = []
    for notices, said in run.conversation():
        first = said[0]
        if notices:
            senders = ", ".join(dict.fromkeys(sender_of(each.message) for each in said))
            count = f"({len(said)} notice{'' if len(said) == 1 else 's'})"
            rows.append([run.clock(first.at_ms), senders, "", count])
        else:
            to = ", ".join(first.to)
            rows.append([run.clock(first.at_ms), sender_of(first.message), to, body(first.message)])
    return ReportTable("Messages", ("time", "from", "to", "text"), rows)


def _table(table: ReportTable, rows_max: int, text_max: int) -> Iterator[str]:
    table = table.compact
    shown = table.rows[:rows_max]
    if shown:
        yield f"| {' | '.join(table.columns)} |"
        yield f"|{' --- |' * len(table.columns)}"
    for row in shown:
        yield f"| {' | '.join(_line(cell, text_max) for cell in row)} |"
    yield from _more(len(table.rows), rows_max)


def _more(count: int, rows_max: int) -> Iterator[str]:
    if count > rows_max:
        yield ""
        yield f"({count - rows_max} of {count} are not shown here; the HTML report has all.)"


def _quoted(text: str, text_max: int) -> Iterator[str]:
    for line in visible(_cut(text, text_max)).strip().split("\n"):
        yield f"> {_LINE_MARKS.sub(_stopped, _escaped(line.strip()))}  "


def _stopped(match: re.Match[str]) -> str:
    return f"{match[1]}\\{match[2]}"


def _line(text: str, text_max: int) -> str:
    """A text on one line, without markup."""
    return _escaped(_cut(" ".join(visible(text).split()), text_max))


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _escaped(text: str) -> str:
    return _MARKUP.sub(_harmless, text)


def _harmless(found: re.Match[str]) -> str:
    if found["broken"]:
        return f"{found[0]}&#8203;"
    return _ENTITIES[found[0]] if found["entity"] else f"\\{found[0]}"
