"""The transcript of an agent on a page."""

from __future__ import annotations

import re
from typing import Any

from bullpen.doors.cli.output.page import Page
from bullpen.view.text import Cell
from bullpen.view.transcript import STYLES, moment, said

_HEAD = 18
"""Columns of time and kind, before the text."""

_LINES_MAX = {"turn": 12, "mail": 12, "request": 2, "result": 12}
"""How many lines of each kind are shown. The model's own text is shown whole."""

_DIGEST = re.compile(r"<team-digest>.*?(</team-digest>\s*|\Z)", re.DOTALL)
"""What every turn tells a model about its team, which people see elsewhere."""

_LABELS = {"permitted": "allowed"}
"""A shorter word that fits the column."""


class TranscriptViews:
    """Shows rows of a transcript on a page."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._day: str | None = None
        self._said: Any = None
        # What the turn that is shown now began with.
        self._given: list[str] = []

    def whole(self, rows: list[dict[str, Any]], *, agent: str, team: str) -> None:
        """Write rows for programs: one object, or a line for each."""
        if self._page.jsonl:
            self.rows(rows)
        else:
            self._page.value("transcript/1", {"agent": agent, "team": team, "rows": rows})

    def rows(self, rows: list[dict[str, Any]]) -> None:
        """Write rows, each at once: as they are for programs, in lines for people."""
        for row in rows:
            if self._page.json:
                self._page.json_line("transcript-row/1", row)
            else:
                self._row(row)
        self._page.flush()

    def _row(self, row: dict[str, Any]) -> None:
        kind = str(row.get("kind", "?"))
        shown = self._without_repeats(kind, row)
        if shown is None:
            return
        text = _DIGEST.sub("", said(shown)).rstrip()
        if not text:
            return
        day, time = moment(row.get("time"))
        if day and day != self._day:
            self._page.line(Cell(day, "muted"))
            self._day = day
        failed = any(shown.get(key) for key in ("error", "failure", "cause"))
        style = "bad" if failed else STYLES.get(kind, "")
        first, *rest = text.split("\n")
        most = _LINES_MAX.get(kind)
        if most is not None and len(rest) >= most:
            rest[most - 1 :] = [f"({len(rest) - most + 1} more lines; --json shows all)"]
        label = _LABELS.get(kind, kind)
        self._page.line(Cell(f"{time:<8}  {label:<7} {first}".rstrip(), style))
        if rest:
            self._page.block("\n".join(rest), indent=_HEAD)

    def _without_repeats(self, kind: str, row: dict[str, Any]) -> dict[str, Any] | None:
        """A row without what was shown just before; None if that is all of it."""
        text = str(row.get("text") or "")
        match kind:
            case "end" if row.get("text") == self._said:
                # A turn ends with the last thing that was said.
                return {**row, "text": None}
            case "text":
                self._said = row.get("text")
            case "request" if any(part in text for part in self._given):
                # What a model is asked is what its turn began with, or its mail.
                return None
            case "mail":
                self._given = [text] if text else []
            case "turn":
                rest = text
                for mail in self._given:
                    rest = rest.replace(mail, "")
                self._given += [text] if text else []
                return {**row, "text": rest.strip()}
            case _:
                pass
        return row
