"""The documentation is a site that can be built: every page is in it, no link is broken."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

import bullpen
from support.runs.reading import ROOT

DECISION = re.compile(r"decisions/0\d+-.*\.html")
GROUP_MAX = 9


def test_every_page_is_in_the_site_and_in_its_list(site: Path) -> None:
    front = (site / "index.html").read_text(encoding="utf-8")
    decisions = (site / "decisions/index.html").read_text(encoding="utf-8")
    for page in ROOT.glob("docs/**/*.md"):
        name = page.relative_to(ROOT / "docs").with_suffix(".html").as_posix()
        name = re.sub(r"README\.html$", "index.html", name)
        assert (site / name).is_file(), name
        if DECISION.fullmatch(name):
            assert f'href="{Path(name).name}"' in decisions, name
        else:
            assert f'href="{name}"' in front, name


def test_the_navigation_has_four_tabs_and_no_long_group() -> None:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    (listed,) = re.findall(r"^nav:\n.*", text, re.DOTALL | re.MULTILINE)
    tabs = yaml.safe_load(listed)["nav"]
    assert [title for tab in tabs for title in tab] == [
        "Start", "Guides", "Reference", "Explanation",
    ]  # fmt: skip
    for title, entries in groups(tabs):
        # The page of the group itself is its heading.
        shown = [each for each in entries if not isinstance(each, str)]
        assert len(shown) <= GROUP_MAX, title


def groups(entries: list[Any]) -> list[tuple[str, list[Any]]]:
    """Every group of the navigation with its entries, at every depth."""
    found = []
    for entry in entries:
        for title, below in entry.items() if isinstance(entry, dict) else ():
            if isinstance(below, list):
                found += [(title, below), *groups(below)]
    return found


def test_the_site_fetches_nothing_from_anywhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        fetched = re.findall(r"<(?:script|img)[^>]+src=\"(https?:[^\"]+)", text)
        for link in re.findall(r"<link[^>]+>", text):
            if 'rel="canonical"' not in link:
                fetched += re.findall(r"href=\"(https?:[^\"]+)", link)
        assert fetched == [], page.name


def test_no_code_of_the_documentation_is_in_the_site(site: Path) -> None:
    assert list(site.rglob("*.py")) == []


def test_every_public_name_is_in_the_python_reference(site: Path) -> None:
    page = (site / "reference/python.html").read_text(encoding="utf-8")
    shown = set(re.findall(r'<h3 id="bullpen\.(\w+)"', page))
    assert shown == set(bullpen.__all__)
    for part in ("store.contract.Store", "agents.contracts.driver.Driver"):
        assert f'id="bullpen.{part}"' in page, part


@pytest.mark.parametrize("name", ["team-file.schema.json", "json-output.schema.json"])
def test_the_schemas_are_in_the_site(site: Path, name: str) -> None:
    published = site / "reference" / name
    assert published.read_bytes() == (ROOT / "docs/reference" / name).read_bytes()
