"""Every link of a page leads somewhere, and pages that list others list all of them."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

from support.rows import each_row
from support.runs.reading import PAGES, ROOT, page_text

LINK = re.compile(r"\]\((?![a-z]+:|#)([^)#\s]+)(?:#([^)]+))?\)")
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


@each_row("page", PAGES)
def test_every_link_leads_somewhere(page: str) -> None:
    for target, anchor in LINK.findall(page_text(page)):
        there = (ROOT / page).parent / target
        assert there.exists(), target
        if anchor and there.suffix == ".md":
            assert anchor in anchors(there), f"{target}#{anchor}"


@each_row("page", PAGES)
def test_every_link_within_a_page_leads_to_one_of_its_headings(page: str) -> None:
    for anchor in re.findall(r"\]\(#([^)]+)\)", page_text(page)):
        assert anchor in anchors(ROOT / page), anchor


@each_row("page", PAGES)
def test_every_link_to_another_site_is_a_whole_address(page: str) -> None:
    text = FENCED.sub("", page_text(page))
    for address in re.findall(r"\]\(([a-z]+:[^)]*)\)", text):
        parts = urlsplit(address)
        assert parts.scheme == "https", address
        assert re.fullmatch(r"[a-z0-9.-]+\.[a-z]{2,}", parts.netloc), address
        assert not re.search(r"\s", address), address


def anchors(page: Path) -> set[str]:
    """The anchors that the headings of a page get."""
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", each.lower()).strip().replace(" ", "-") for each in headings}


def test_every_decision_is_listed() -> None:
    listed = page_text("docs/decisions/README.md")
    for page in sorted((ROOT / "docs" / "decisions").glob("0*.md")):
        title = page.read_text(encoding="utf-8").splitlines()[0].partition(". ")[2]
        assert f"[{title}]({page.name})" in listed


def test_every_example_is_listed() -> None:
    listed = page_text("examples/README.md")
    for path in sorted((ROOT / "examples").iterdir()):
        if path.name not in {"README.md", "__pycache__"}:
            target = f"{path.name}/README.md" if path.is_dir() else path.name
            assert f"]({target})" in listed, target


def test_the_page_for_agents_is_short() -> None:
    assert len(page_text("AGENTS.md").splitlines()) < 80
