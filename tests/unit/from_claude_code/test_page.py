"""The page and the checks agree, and no row is without a check or a reason."""

from __future__ import annotations

import importlib
import re
from collections import Counter
from pathlib import Path

from .elsewhere import ELSEWHERE
from .page import PAGE, ROOT, VERDICTS, page_rows, row_of

HERE = Path(__file__).parent


def checks() -> list[str]:
    """The rows that the tests of this folder run."""
    found = []
    for path in sorted(HERE.glob("test_*.py")):
        module = importlib.import_module(f"{__package__}.{path.stem}")
        found += [row for each in vars(module).values() if (row := row_of(each)) is not None]
    return found


def test_every_row_of_a_table_is_read() -> None:
    """A row that is written otherwise would go unchecked."""
    lines = re.findall(r"^\| `[a-z0-9-]+` \|", PAGE.read_text("utf-8"), re.MULTILINE)
    assert len(page_rows()) == len(lines) > 100


def test_every_row_has_its_own_name_and_a_known_verdict() -> None:
    rows = page_rows()
    assert [row for row, times in Counter(row.id for row in rows).items() if times > 1] == []
    assert {row.verdict for row in rows} <= set(VERDICTS)


def test_what_is_called_the_same_is_run_and_nothing_else_is() -> None:
    same = sorted(row.id for row in page_rows() if row.verdict == "same")
    assert sorted([*checks(), *ELSEWHERE]) == same


def test_checks_that_need_more_than_this_folder_are_where_they_are_said_to_be() -> None:
    for row, place in ELSEWHERE.items():
        path, _, name = place.partition("::")
        text = (ROOT / path).read_text("utf-8")
        assert re.search(rf"def {name}\(", text), f"{row}: {place}"


def test_what_differs_or_is_missing_says_why() -> None:
    for row in page_rows():
        if row.verdict in ("differs", "partly"):
            why = row.here.rpartition("Why:")[2] if "Why:" in row.here else ""
            assert len(why.split()) >= 4, f"{row.id} needs a reason after `Why:`"
