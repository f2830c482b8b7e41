"""An open request as a page shows it: its diff, its plan or its command, and how to answer it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from bullpen.doors.actions.answer import shown_input
from bullpen.protocol.request import Request
from bullpen.team.requests import question_rules
from bullpen.view.diff import DiffLine, FileDiff
from bullpen.view.scene import AskCard
from bullpen.view.text import Cell, visible

_ROWS_MAX = 24
_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")


@dataclass(frozen=True, slots=True)
class Option:
    """One answer that a question offers."""

    number: int
    label: str
    about: str


@dataclass(frozen=True, slots=True)
class ShownRequest:
    """A request, where its forms lead back to, and the options if it is one question."""

    card: AskCard
    back: str
    options: tuple[Option, ...] = ()

    @property
    def diff(self) -> FileDiff | None:
        """The change that is asked for, if it is one to files."""
        cells = self.card.lines
        heads = [cell.text for cell in cells if cell.style == "strong"]
        if self.card.kind != "permission" or not heads or cells[0].style != "strong":
            return None
        lines = tuple(_diff_lines(cell for cell in cells if cell.style != "strong"))
        added = sum(line.kind == "added" for line in lines)
        removed = sum(line.kind == "removed" for line in lines)
        return FileDiff("; ".join(heads), added, removed, lines)

    @property
    def plan(self) -> str | None:
        """The plan in Markdown, if it is one."""
        if self.card.kind != "plan":
            return None
        return "\n".join(cell.text for cell in self.card.lines)

    @property
    def command(self) -> str | None:
        """The command that can be edited by itself, if it is one."""
        given = self.card.input or {}
        command = given.get("command")
        alone = set(given) <= {"command", "description", "timeout", "run_in_background"}
        # A field would change what it cannot hold, such as control characters.
        plain = isinstance(command, str) and visible(command) == command
        return command if plain and alone else None

    @property
    def input(self) -> str | None:
        """The input that can be edited, as JSON."""
        return None if self.card.input is None else shown_input(self.card.input)

    @property
    def rows(self) -> int:
        """How many lines a field for the input needs."""
        text = self.command if self.command is not None else self.input
        return min(_ROWS_MAX, 2 + (text or "").count("\n"))


def shown_request(card: AskCard, request: Request | None, *, back: str) -> ShownRequest:
    """A request on the page `back`."""
    return ShownRequest(card, back, () if request is None else tuple(_options(request)))


def _options(request: Request) -> Iterator[Option]:
    """The options of a request that is one question with one answer."""
    asked = question_rules.questions_of(request) if request.kind == "question" else []
    if len(asked) != 1 or asked[0].get("multiSelect") is True:
        return
    options: Any = asked[0].get("options")
    rows = [row for row in options if isinstance(row, dict)] if isinstance(options, list) else []
    for number, row in enumerate(rows, 1):
        yield Option(number, str(row.get("label", "")), str(row.get("description") or ""))


def _diff_lines(cells: Iterable[Cell]) -> Iterator[DiffLine]:
    """The lines of a unified diff with their numbers."""
    old = new = 0
    in_hunk = False
    for text, style in cells:
        match style, text[:1]:
            case "good", _ if in_hunk:
                yield DiffLine("added", None, new, text[1:])
                new += 1
            case "bad", _ if in_hunk:
                yield DiffLine("removed", old, None, text[1:])
                old += 1
            case "", " " if in_hunk:
                yield DiffLine("context", old, new, text[1:])
                old, new = old + 1, new + 1
            case _:
                # The header of a hunk or a file, or a note.
                found = _HUNK.match(text)
                in_hunk = found is not None
                old, new = (int(found[1]), int(found[2])) if found else (0, 0)
                yield DiffLine("hunk", None, None, text)
