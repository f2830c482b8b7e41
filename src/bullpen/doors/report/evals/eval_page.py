"""The report of an eval as one HTML page without scripts or external resources, and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from bullpen.doors.report.evals import eval_tables, plots
from bullpen.doors.report.style import STYLE
from bullpen.doors.report.tables import ReportTable
from bullpen.runs.eval.eval_report import EvalReport
from bullpen.view.text import visible

_CSP = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"

_TRIALS = (
    "A trial works in a fresh clone with one commit and no later history. Every arm with agents has"
    " the same limit of money per trial. When all agents have ended, the change is put into a"
    " second fresh clone, and the hidden tests run there in a sandbox without a network."
)
_NUMBERS = (
    "Intervals are Wilson's, for 95 %. Trials of one task are not independent of each other, so"
    " that the real uncertainty about other tasks is larger. Arms are compared task by task, with a"
    " sign test; p is corrected for the number of pairs of arms with agents, by Holm's method."
    " Trials that could not be run count for no arm."
)
METHOD = (_TRIALS, _NUMBERS)


def eval_html(report: EvalReport) -> str:
    """The page for a browser."""
    title = f"Eval of {report.suite}"
    parts = [
        "<!doctype html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_CSP}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="referrer" content="no-referrer">',
        f"<title>{_text(title)}</title>",
        f"<style>\n{STYLE}{plots.STYLE}</style>",
        "</head>",
        "<body>",
        f"<header><h1>{_text(title)}</h1>",
        "<dl>",
        *(f"<dt>{_text(a)}</dt><dd>{_text(b)}</dd>" for a, b in eval_tables.facts(report)),
        "</dl></header>",
        "<main>",
        f"<h2>Pass rate</h2>{plots.rates_svg(report.arms)}",
        f"<h2>Money</h2>{plots.money_svg(report.arms)}",
    ]
    for table in eval_tables.all_tables(report):
        parts += _html_table(table)
    parts.append("<h2>Method</h2>")
    parts += [f"<p>{_text(each)}</p>" for each in METHOD]
    return "\n".join([*parts, "</main>", "</body>", "</html>"]) + "\n"


def _html_table(table: ReportTable) -> Iterator[str]:
    table = table.compact
    yield f'<h2>{_text(table.name)}</h2><div class="scroll" tabindex="0"><table>'
    yield f"<tr>{''.join(f'<th>{_text(each)}</th>' for each in table.columns)}</tr>"
    for row in table.rows:
        yield f"<tr>{''.join(f'<td>{_text(each)}</td>' for each in row)}</tr>"
    yield "</table></div>"


def _text(text: str) -> str:
    return escape(visible(text))


def eval_markdown(report: EvalReport) -> str:
    """The page for a pull request."""
    lines = [f"# Eval of {_cell(report.suite)}", ""]
    lines += [f"- {name}: {_cell(value)}" for name, value in eval_tables.facts(report)]
    for table in eval_tables.all_tables(report):
        lines += ["", f"## {table.name}", "", *_markdown_table(table)]
    lines += ["", "## Method", ""]
    for each in METHOD:
        lines += [each, ""]
    return "\n".join(lines)


def _markdown_table(table: ReportTable) -> Sequence[str]:
    table = table.compact
    head = [f"| {' | '.join(map(_cell, table.columns))} |", f"|{' --- |' * len(table.columns)}"]
    return [*head, *(f"| {' | '.join(_cell(each) for each in row)} |" for row in table.rows)]


def _cell(text: str) -> str:
    """A text that stays in its cell, and that Markdown shows as it is."""
    flat = " ".join(visible(text).split())
    for mark in ("\\", "|", "`", "*", "_", "[", "]", "<", "#", "@"):
        flat = flat.replace(
            mark, f"\\{mark}" if mark not in "<@" else {"<": "&lt;", "@": "&#64;"}[mark]
        )
    return flat
