"""Every guarantee names the tests that fail when it is broken, and they are there."""

from __future__ import annotations

import re

from support.runs.reading import ROOT, page_text

PAGE = "docs/guarantees.md"
ROW = re.compile(r"^\| (?!guarantee |---)(.+?) \| (.+) \|$", re.MULTILINE)
LINK = re.compile(r"\[([^]]+)\]\(\.\./((?:tests|src)/[^)]+\.py)\)")
PROMISES = 45


def is_there(name: str, text: str) -> bool:
    """Whether a file has a test of this name, or a class of tests."""
    words = name.replace(" ", "_")
    found = re.search(rf"def test_(r_\d+[a-z]?_)?{words}\(|^class {words}\(", text, re.MULTILINE)
    return found is not None


def test_every_guarantee_names_tests_that_are_there() -> None:
    rows = ROW.findall(page_text(PAGE))
    assert len(rows) == PROMISES
    wrong = [promise for promise, tests in rows if not LINK.search(tests)]
    for promise, tests in rows:
        for name, path in LINK.findall(tests):
            if not is_there(name, (ROOT / path).read_text("utf-8")):
                wrong.append(f"{promise} {path}: {name}")
    assert wrong == []
