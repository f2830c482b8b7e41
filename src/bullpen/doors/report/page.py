"""The report as one HTML page without scripts or external resources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from bullpen.doors.report import tables
from bullpen.doors.report.run_facts import Run
from bullpen.doors.report.style import STYLE
from bullpen.doors.report.tables import ReportTable
from bullpen.protocol import json_text
from bullpen.protocol.clock import iso
from bullpen.protocol.request import Request
from bullpen.team.requests.question_rules import question_lines
from bullpen.view.cards import TaskCard
from bullpen.view.drawings.graph import graph_of
from bullpen.view.drawings.svg import gantt_svg, graph_svg, spend_svg
from bullpen.view.news import sender_of
from bullpen.view.sentences import body
from bullpen.view.story import Said, SpendingOverTime
from bullpen.view.text import visible

SAID_MAX = 2000
"""The most messages and log lines on a page, so that a browser can open it."""

GRAPH_MAX = 400
"""A graph of more tasks cannot be read."""

_FOLDED_ABOVE = 1200
_CSP = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_WIDE = frozenset({"subject", "what", "reason", "state"})


def html_page(run: Run) -> str:
    title = f"Report of team {run.summary.team}"
    sections = list(_sections(run))
    links = "".join(f'<li><a href="#{key}">{_text(name)}</a></li>' for key, name, _ in sections)
    parts = [
        "<!doctype html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_CSP}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="referrer" content="no-referrer">',
        f"<title>{_text(title)}</title>",
        f"<style>\n{STYLE}</style>",
        "</head>",
        "<body>",
        *_head(run),
        f'<nav aria-label="Sections"><ul>{links}</ul></nav>',
        "<main>",
    ]
    for key, name, content in sections:
        parts += [f'<section id="{key}">', f"<h2>{_text(name)}</h2>", *content, "</section>"]
    parts += [
        "</main>",
        f"<footer>{_text(tables.source(run))}</footer>",
        "</body>",
        "</html>",
    ]
    return "\n".join(parts) + "\n"


def _head(run: Run) -> Iterator[str]:
    summary = run.summary
    yield "<header>"
    yield f'<p class="kicker">Report of team {_text(summary.team)}</p>'
    goal = summary.goal or f"Team {summary.team}"
    first, _, rest = visible(goal).partition("\n")
    yield f"<h1>{_text(first)}</h1>"
    if rest.strip():
        yield f'<p class="goal">{_text(rest.strip())}</p>'
    if run.scene.result is not None:
        yield f'<div class="result" role="note">{_text(run.scene.result)}</div>'
    yield "<dl>"
    for name, value in tables.facts(run):
        if value:
            yield f"<dt>{_text(name)}</dt><dd>{_text(value)}</dd>"
    yield "</dl>"
    if summary.needs:
        yield '<div class="needs"><p>Needs your attention:</p><ul>'
        yield from (f"<li>{_text(need)}</li>" for need in summary.needs)
        yield "</ul></div>"
    yield "</header>"


def _sections(run: Run) -> Iterator[tuple[str, str, Iterable[str]]]:
    yield "tasks", "Tasks", _tasks(run)
    if run.notes:
        yield "notes", "Notes", _notes(run)
    yield "timeline", "Timeline", _timeline(run)
    yield "members", "Members and cost", _members(run)
    yield "decisions", "Decisions and approvals", _decisions(run)
    if run.summary.merges:
        yield "merges", "Merges", _table(tables.merges(run))
    yield "said", "Messages", _said(run)
    yield "log", "Log", _log(run)


def _notes(run: Run) -> Iterator[str]:
    for note in run.notes:
        about = f"version {note.version} by {note.author}, {run.clock(note.time_ms)}"
        yield f"<h3>{_text(note.name)}</h3>"
        yield f'<p class="none">{_text(about)}</p>'
        yield f"<pre>{_text(note.text.rstrip())}</pre>"


def _tasks(run: Run) -> Iterator[str]:
    cards = run.summary.tasks
    if not cards:
        yield '<p class="none">There were no tasks.</p>'
        return
    keys = {card.id: f"task-{number}" for number, card in enumerate(cards, 1)}
    if any(card.after for card in cards):
        if len(cards) <= GRAPH_MAX:
            drawn = graph_svg(graph_of(cards), links=lambda task_id: f"#{keys[task_id]}")
            yield f"<figure>{_scrolled('Graph of tasks', drawn)}"
            yield "<figcaption>Dependencies of tasks, from left to right.</figcaption></figure>"
        else:
            yield f'<p class="none">A graph of {len(cards)} tasks would be too large to read.</p>'
    table = ReportTable("Tasks", tables.TASK_COLUMNS, [tables.task_cells(card) for card in cards])
    table = table.compact
    rows = [
        _task(card, table.columns, cells, keys[card.id])
        for card, cells in zip(cards, table.rows, strict=True)
    ]
    yield _grid("Tasks", table.columns, rows)


def _task(card: TaskCard, columns: Sequence[str], cells: Sequence[str], key: str) -> str:
    more = [
        ("Description", card.description),
        ("Waits for", ", ".join(f"#{each}" for each in card.waits_for)),
        ("Why", card.why or card.note or ""),
        ("Returned by the merge queue", _times(card.returned)),
        ("Taken from", ", ".join(card.relieved)),
        ("Report", card.report or ""),
    ]
    facts = "".join(
        f'<dt>{name}</dt><dd class="text">{_text(value)}</dd>' for name, value in more if value
    )
    details = f"<details><summary>more</summary><dl>{facts}</dl></details>" if facts else ""
    shown = []
    for column, cell in zip(columns, cells, strict=True):
        if column == "subject":
            shown.append(f'<td class="wide">{_text(cell)}{details}</td>')
        elif column == "state":
            state = f'<span class="state is-{card.state}">{_text(cell)}</span>'
            shown.append(f"<td>{state}</td>")
        else:
            shown.append(f"<td>{_text(cell)}</td>")
    return f'<tr id="{key}">{"".join(shown)}</tr>'


def _times(count: int) -> str:
    return f"{count} time{'' if count == 1 else 's'}" if count else ""


def _timeline(run: Run) -> Iterator[str]:
    names = [name for name in run.story.spans if run.story.spans[name]]
    if not names:
        yield '<p class="none">There is no record of what members did.</p>'
        return
    drawn = gantt_svg(run.story, names=names, now_ms=run.now_ms)
    yield f"<figure>{_scrolled('Timeline of members', drawn)}"
    states = dict.fromkeys(span.state for name in names for span in run.story.spans[name])
    legend = " ".join(f'<span class="state state-{each}">{each}</span>' for each in states)
    yield f"<figcaption>States of members over time: {legend}</figcaption></figure>"
    if run.story.spending:
        # From the start of the run, as the drawing above it.
        points = [SpendingOverTime(run.story.began_ms or 0, 0.0, 0), *run.story.spending]
        drawn = spend_svg(points, now_ms=run.now_ms)
        yield f"<figure>{_scrolled('Cost over time', drawn)}"
        yield "<figcaption>What the team had used so far.</figcaption></figure>"


def _members(run: Run) -> Iterator[str]:
    members, spend = tables.members(run), tables.spend(run)
    if not members.rows:
        yield '<p class="none">No agent took part.</p>'
    yield from _table(members)
    if spend.rows:
        yield "<h3>Cost by model and task</h3>"
        yield from _table(spend)
    elif members.rows:
        yield '<p class="none">No tokens were reported.</p>'


def _decisions(run: Run) -> Iterator[str]:
    if not run.decisions:
        yield '<p class="none">There were no requests.</p>'
        return
    table = tables.decisions(run)
    column = table.columns.index("what")
    rows = []
    for cells, request in zip(table.rows, run.decisions, strict=True):
        shown = [_cell(name, cell) for name, cell in zip(table.columns, cells, strict=True)]
        shown[column] = (
            f'<td class="wide">{_text(cells[column])}'
            f"<details><summary>exactly</summary><pre>{_text(_content(request))}</pre></details></td>"
        )
        rows.append(f"<tr>{''.join(shown)}</tr>")
    yield _grid(table.name, table.columns, rows)


def _content(request: Request) -> str:
    """All of what was asked: a plan, or the input of a call."""
    if request.kind == "plan":
        return str(request.subject.get("plan", ""))
    if request.kind == "question":
        return "\n".join(question_lines(request))
    return json_text.dumps(request.subject.get("input")).decode()


def _said(run: Run) -> Iterator[str]:
    if not run.story.said:
        yield '<p class="none">There were no messages.</p>'
        return
    left = SAID_MAX
    yield '<ol class="said">'
    for notices, said in run.conversation():
        shown = said[:left]
        left -= len(shown)
        if not shown:
            break
        if notices:
            count = f"{len(said)} notice{'' if len(said) == 1 else 's'}"
            yield f'<li class="notices"><details><summary>{count}</summary>'
            yield from (_message(each, run) for each in shown)
            yield "</details></li>"
        else:
            yield f"<li>{_message(shown[0], run)}</li>"
    yield "</ol>"
    yield from _left_out(len(run.story.said), "messages")


def _message(said: Said, run: Run) -> str:
    text = body(said.message)
    summary = said.message.summary
    shown = f'<div class="text">{_text(text)}</div>'
    if len(text) > _FOLDED_ABOVE:
        about = summary or text[:200]
        shown = f"<details><summary>{_text(about)} …</summary>{shown}</details>"
    head = f"<b>{_text(sender_of(said.message))}</b> to <b>{_text(', '.join(said.to))}</b>"
    return f"<article><header>{_time(said.at_ms, run)} {head}</header>{shown}</article>"


def _log(run: Run) -> Iterator[str]:
    told = run.story.told
    yield f"<details><summary>{len(told)} entries, in order</summary>"
    rows = [
        f"<tr><td>{_time(each.at_ms, run)}</td>{_cell('what', each.text)}</tr>"
        for each in told[:SAID_MAX]
    ]
    yield _grid("Log", ("time", "what"), rows)
    yield from _left_out(len(told), "entries")
    yield "</details>"


def _left_out(count: int, what: str) -> Iterator[str]:
    if count > SAID_MAX:
        yield (
            f'<p class="none">These are the first {SAID_MAX} of {count} {what}.'
            " For all of them, run: bullpen events</p>"
        )


def _table(table: ReportTable) -> Iterator[str]:
    table = table.compact
    if table.rows:
        rows = [f"<tr>{''.join(map(_cell, table.columns, row))}</tr>" for row in table.rows]
        yield _grid(table.name, table.columns, rows)


def _grid(name: str, columns: Sequence[str], rows: Sequence[str]) -> str:
    head = "".join(f'<th scope="col">{_text(column)}</th>' for column in columns)
    return _scrolled(
        name,
        "\n".join([f"<table><thead><tr>{head}</tr></thead><tbody>", *rows, "</tbody></table>"]),
    )


def _cell(column: str, text: str) -> str:
    wide = ' class="wide"' if column in _WIDE and len(text) > 30 else ""
    return f"<td{wide}>{_text(text)}</td>"


def _scrolled(name: str, content: str) -> str:
    """Content that may be wider than the screen; the keyboard can scroll it too."""
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{_text(name)}">{content}</div>'
    )


def _time(at_ms: int, run: Run) -> str:
    clock = run.clock(at_ms)
    return f'<time datetime="{_text(iso(at_ms))}">{clock}</time>' if clock else ""


def _text(text: str) -> str:
    """A text without markup, safe in attributes too."""
    return escape(visible(text))
