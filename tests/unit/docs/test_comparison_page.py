"""The page that compares the native agent with others has a source for every word."""

from __future__ import annotations

import re

from support.runs.reading import ROOT, page_text

PAGE = "docs/comparison.md"
OTHERS = 5
LINK = re.compile(r"\[(yes|partly|no)\]\(https://github\.com/[^)\s]+/[0-9a-f]{8,40}/[^)\s]+\)")


def compared() -> dict[str, list[str]]:
    """The cells of each row after what is expected, by the row's name."""
    tables = page_text(PAGE).split("## What shows it")[0]
    rows = re.findall(r"^\| `([a-z-]+)` \| (.*) \|$", tables, re.MULTILINE)
    return {name: cells.split(" | ")[1:] for name, cells in rows}


def shown() -> dict[str, str]:
    """The test that shows each row."""
    table = page_text(PAGE).split("## What shows it")[1]
    return dict(re.findall(r"^\| `([a-z-]+)` \| `([^`]+)` \|$", table, re.MULTILINE))


def test_what_is_said_of_another_program_names_its_source_at_one_commit() -> None:
    rows = compared()
    assert len(rows) >= 30
    for name, cells in rows.items():
        assert len(cells) == OTHERS + 1, name
        for cell in cells[:OTHERS]:
            assert cell == "–" or LINK.fullmatch(cell), f"{name}: {cell}"


def test_what_is_said_of_ours_is_shown_by_a_test_that_is_there() -> None:
    claimed = {name for name, cells in compared().items() if cells[-1] in ("yes", "partly")}
    missing = {name for name, cells in compared().items() if cells[-1] == "no (yet)"}
    assert claimed | missing == set(compared())
    assert set(shown()) == claimed
    for name, place in shown().items():
        path, _, test = place.partition("::")
        text = (ROOT / path).read_text(encoding="utf-8")
        assert re.search(rf"def {test}\(", text), f"{name}: {place}"
