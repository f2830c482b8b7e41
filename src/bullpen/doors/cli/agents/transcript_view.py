"""The transcript of an agent on a page."""

from __future__ import annotations

from typing import Any

from bullpen.doors.cli.output.page import Page
from bullpen.view.text import Cell
from bullpen.view.transcript import STYLES, moment, said

_HEAD = 18
"""Columns of time and kind, before the text."""

_LINES_MAX = {"turn": 12, "mail": 12, "request": 2, "result": 12}
"""How many lines of each kind are shown. The model's own text is shown whole."""

_LABELS = {"permitted": "allowed"}
"""A shorter word that fits the column."""


class TranscriptViews:
    """Shows rows of a transcript on a page."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._day: str | None = None
        self._said: Any = None

    def rows(self, rows: list[dict[str, Any]]) -> None:
        """Write rows, each at once: as they are for programs, in lines for people."""
        for row in rows:
            if self._page.json:
                self._page.json_line(row)
            else:
                self._row(row)
        self._page.flush()

    def _row(self, row: dict[str, Any]) -> None:
        kind = str(row.get("kind", "?"))
        if kind == "end" and row.get("text") == self._said:
            # A turn ends with the last thing that was said: once is enough.
            row = {**row, "text": None}
        self._said = row.get("text") if kind == "text" else self._said
        text = said(row)
        if not text:
            return
        day, time = moment(row.get("time"))
        if day and day != self._day:
            self._page.line(Cell(day, "muted"))
            self._day = day
        failed = any(row.get(key) for key in ("error", "failure", "cause"))
        style = "bad" if failed else STYLES.get(kind, "")
        first, *rest = text.split("\n")
        most = _LINES_MAX.get(kind)
        if most is not None and len(rest) >= most:
            rest[most - 1 :] = [f"({len(rest) - most + 1} more lines; --json shows all)"]
        label = _LABELS.get(kind, kind)
        self._page.line(Cell(f"{time:<8}  {label:<7} {first}".rstrip(), style))
        if rest:
            self._page.block("\n".join(rest), indent=_HEAD)
