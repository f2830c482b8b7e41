"""The pages that lead through the code name only files and folders that exist, each row once."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from support.runs.reading import ROOT, page_text

PACKAGE = ROOT / "src" / "bullpen"
MAPS = ("AGENTS.md", "docs/architecture.md")
SPAN = re.compile(r"`([^`]+)`")
# With a slash, or with the ending of a file that a page would name.
PATH = re.compile(r"[\w.*-]+(?:/[\w.*-]*)+|[\w*-]+\.(?:py|md|toml|txt)")
ENTRY = re.compile(r"(?<![\w/])(?:[a-z_]+/|[a-z_]+\.py)")


@pytest.mark.parametrize("page", MAPS)
def test_no_table_names_a_thing_twice(page: str) -> None:
    for table in tables(page_text(page)):
        first = Counter(cells(row)[0] for row in table)
        assert [name for name, times in first.items() if times > 1] == []


@pytest.mark.parametrize("page", MAPS)
def test_every_file_and_folder_that_a_page_names_exists(page: str) -> None:
    text = page_text(page)
    missing = []
    for table in tables(text):
        base = in_folder(table[0])
        missing += [name for row in table[1:] for name in not_found(row, base)]
    missing += not_found(
        re.sub(r"^```.*?^```$|^\|[^\n]*$", "", text, flags=re.DOTALL | re.MULTILINE)
    )
    assert missing == []


def test_every_entry_of_the_tree_of_folders_exists() -> None:
    (tree,) = re.findall(
        r"^src/bullpen/\n(.*?)^tests/", page_text(MAPS[1]), re.DOTALL | re.MULTILINE
    )
    parents = [PACKAGE]
    seen = 0
    for line in tree.splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        folder = parents[depth - 1]
        named = ENTRY.findall(line)
        around = [folder, *(folder / name for name in named)]
        assert [name for name in named if not any((at / name).exists() for at in around)] == []
        first = line.split()[0]
        parents[depth:] = [folder / first] if first.endswith("/") else [folder]
        seen += len(named)
    assert seen > 60


def tables(text: str) -> list[list[str]]:
    """The tables of a page, each as its lines."""
    found = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    return [table.splitlines() for table in found]


def cells(row: str) -> list[str]:
    return [each.strip() for each in row.strip("|").split("|")]


def in_folder(heading: str) -> Path | None:
    """The folder that the heading of a table says its names are in."""
    named = re.search(r"in `([\w/]+)`", heading)
    return PACKAGE / named[1] if named else None


def not_found(text: str, base: Path | None = None) -> list[str]:
    """What a text names that is not in this folder, in the package or beside an earlier name."""
    places = [base, PACKAGE, ROOT] if base else [PACKAGE, ROOT]
    missing = []
    for span in SPAN.findall(text):
        for name in filter(PATH.fullmatch, span.split()):
            found = [path for place in places for path in place.glob(name.strip("/"))]
            missing += [] if found else [name]
            places += [folder for path in found for folder in (path, path.parent, path.parents[1])]
    return missing
