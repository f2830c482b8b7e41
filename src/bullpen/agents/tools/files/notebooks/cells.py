"""The cells of a Jupyter notebook, and changes to one of them that keep every other byte. Pure."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from bullpen.errors import Invalid, NotFound

CellType = Literal["code", "markdown"]

_SPACE = re.compile(r"[ \t\r\n]*")
_INDENT = re.compile(r"\{(\r?\n)([ \t]+)\"")
_INDEX = re.compile(r"(?:cell-)?(\d{1,6})")
_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell, and where it begins and ends in the text of the file."""

    index: int
    begin: int
    end: int
    fields: dict[str, Any]

    @property
    def id(self) -> str:
        """Its id, or `cell-N` if it has none."""
        own = self.fields.get("id")
        return own if isinstance(own, str) and own else f"cell-{self.index}"

    @property
    def type(self) -> str:
        """The kind of cell: `code`, `markdown` or `raw`."""
        return str(self.fields.get("cell_type", "raw"))

    @property
    def source(self) -> str:
        """Its text."""
        return joined(self.fields.get("source"))


def joined(text: Any) -> str:
    """A text of a notebook, which is stored as one string or as its lines."""
    if isinstance(text, list):
        return "".join(part for part in text if isinstance(part, str))
    return text if isinstance(text, str) else ""


class Notebook:
    """A notebook as its file has it."""

    def __init__(self, text: str) -> None:
        """Raises Invalid if the text is not a notebook."""
        self.text = text
        self.fields: dict[str, Any] = {}
        self.cells: list[Cell] = []
        # Where the list of cells begins.
        self._list = -1
        try:
            end = self._entries(self._skip(int(text.startswith("\ufeff"))), "{}", self._field)
            if self._list < 0 or self._skip(end) != len(text):
                raise ValueError("it has no list of cells, or text after its end")
        except (ValueError, RecursionError) as error:
            raise Invalid(
                f"The file is not a valid notebook: {str(error)[:200]}.",
                remedy="Repair its JSON with Write, or with a program.",
            ) from None
        found = _INDENT.search(text)
        self._newline, self._indent = found.groups() if found is not None else ("", "")

    @property
    def has_ids(self) -> bool:
        """Whether its format gives each cell an id."""
        major, minor = self.fields.get("nbformat"), self.fields.get("nbformat_minor")
        return isinstance(major, int) and isinstance(minor, int) and (major, minor) >= (4, 5)

    def cell(self, named: str) -> Cell:
        """The cell of an id, or of an index as `3` or `cell-3`. Raises NotFound."""
        for cell in self.cells:
            if cell.id == named:
                return cell
        index = _INDEX.fullmatch(named)
        if index is not None and int(index.group(1)) < len(self.cells):
            return self.cells[int(index.group(1))]
        known = ", ".join(cell.id for cell in self.cells[:20])
        more = f" and {len(self.cells) - 20} more" if len(self.cells) > 20 else ""
        raise NotFound(
            f"The notebook has no cell {named[:80]!r}.",
            remedy=f"Its cells are: {known or 'none'}{more}.",
        )

    def replaced(self, cell: Cell, source: str, kind: CellType | None) -> str:
        """The file with a new source in a cell. What it printed is no longer true."""
        fields = dict(cell.fields)
        kept = joined(fields.get("source")) == source and kind in (None, cell.type)
        fields["source"] = _lines(source)
        if kind is not None:
            fields["cell_type"] = kind
        if fields.get("cell_type") != "code":
            fields.pop("execution_count", None)
            fields.pop("outputs", None)
        elif not kept:
            fields["execution_count"], fields["outputs"] = None, []
            fields.pop("attachments", None)
        return self.text[: cell.begin] + self._written(fields) + self.text[cell.end :]

    def inserted(self, after: Cell | None, source: str, kind: CellType) -> tuple[str, str]:
        """The file with a new cell after another, or as its first; and the id of the new cell."""
        fields: dict[str, Any] = {"cell_type": kind}
        if self.has_ids:
            fields["id"] = secrets.token_hex(4)
        if kind == "code":
            fields["execution_count"] = None
        fields["metadata"] = {}
        if kind == "code":
            fields["outputs"] = []
        fields["source"] = _lines(source)
        place = self._newline + self._indent * 2
        new = self._written(fields)
        text = self.text
        if after is not None:
            text = f"{text[: after.end]},{place or ' '}{new}{text[after.end :]}"
        elif self.cells:
            first = self.cells[0].begin
            text = f"{text[:first]}{new},{place or ' '}{text[first:]}"
        else:
            at = self._list + 1
            text = f"{text[:at]}{place}{new}{self._newline}{self._indent}{text[self._skip(at) :]}"
        index = 0 if after is None else after.index + 1
        return text, fields.get("id", f"cell-{index}")

    def removed(self, cell: Cell) -> str:
        """The file without a cell."""
        if cell.index + 1 < len(self.cells):
            return self.text[: cell.begin] + self.text[self.cells[cell.index + 1].begin :]
        if cell.index:
            return self.text[: self.cells[cell.index - 1].end] + self.text[cell.end :]
        return self.text[: self._list + 1] + self.text[self._skip(cell.end) :]

    def _skip(self, at: int) -> int:
        found = _SPACE.match(self.text, at)
        return at if found is None else found.end()

    def _entries(self, at: int, signs: str, read: Callable[[int], int]) -> int:
        """Read each entry of an object or a list; returns where it ends."""
        if self.text[at : at + 1] != signs[0]:
            raise ValueError(f"there is no {signs[0]} at character {at}")
        at = self._skip(at + 1)
        if self.text[at : at + 1] == signs[1]:
            return at + 1
        while True:
            at = self._skip(read(at))
            sign, at = self.text[at : at + 1], at + 1
            if sign == signs[1]:
                return at
            if sign != ",":
                raise ValueError(f"a comma is missing at character {at - 1}")
            at = self._skip(at)

    def _field(self, at: int) -> int:
        name, at = _DECODER.raw_decode(self.text, at)
        at = self._skip(at)
        if not isinstance(name, str) or self.text[at : at + 1] != ":":
            raise ValueError(f"a field is damaged at character {at}")
        at = self._skip(at + 1)
        if name == "cells":
            # Of fields with one name, the last one counts.
            self._list, self.cells = at, []
            return self._entries(at, "[]", self._cell)
        self.fields[name], at = _DECODER.raw_decode(self.text, at)
        return at

    def _cell(self, at: int) -> int:
        fields, end = _DECODER.raw_decode(self.text, at)
        if not isinstance(fields, dict):
            raise ValueError(f"cell {len(self.cells)} is not an object")
        self.cells.append(Cell(len(self.cells), at, end, fields))
        return end

    def _written(self, fields: dict[str, Any]) -> str:
        """A cell as text, in the form of the others."""
        # Half a character can only be stored with an escape.
        ascii_only = self.text.isascii() and "\\u" in self.text
        halves = any(
            "\ud800" <= char <= "\udfff" for char in json.dumps(fields, ensure_ascii=False)
        )
        made = json.dumps(fields, ensure_ascii=ascii_only or halves, indent=self._indent or None)
        return made.replace("\n", self._newline + self._indent * 2) if self._newline else made


def _lines(source: str) -> list[str]:
    """A source as notebooks store it: its lines, each with its end."""
    return re.findall(r"[^\n]*\n|[^\n]+", source)
