"""The rows of the page, and the mark that ties a check to one."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/from-claude-code.md"
VERDICTS = ("same", "better", "differs", "partly")

_ROW = re.compile(r"^\| `([a-z0-9-]+)` \| (.+?) \| (.+?) \| (\w[\w ]*) \|$", re.MULTILINE)
_MARK = "_row_of_the_page"


@dataclass(frozen=True, slots=True)
class PageRow:
    """A row: what it is about there, what it is here, and how the two compare."""

    id: str
    there: str
    here: str
    verdict: str


def page_rows() -> list[PageRow]:
    """Every row of the page, in its order."""
    return [PageRow(*found) for found in _ROW.findall(PAGE.read_text("utf-8"))]


def shows(row: str) -> Callable[[F], F]:
    """Say which row of the page a test runs."""

    def marked(check: F) -> F:
        setattr(check, _MARK, row)
        return check

    return marked


def row_of(check: object) -> str | None:
    """The row that a test runs, if it runs one."""
    row = getattr(check, _MARK, None)
    return row if isinstance(row, str) else None
