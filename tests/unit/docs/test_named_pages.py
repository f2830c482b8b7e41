"""What the installed package says leads to the site: a wheel has no folder `docs`."""

from __future__ import annotations

import re
from pathlib import Path

import bullpen

PACKAGE = Path(bullpen.__file__).parent
ROOT = PACKAGE.parents[1]
SITE = "https://bullpen-dev.github.io/bullpen/latest/"
TEXTS = {".py", ".toml", ".md", ".html", ".js", ".json"}


def texts() -> dict[str, str]:
    """Every text that is installed, by its path."""
    return {
        path.relative_to(PACKAGE).as_posix(): path.read_text("utf-8")
        for path in PACKAGE.rglob("*")
        if path.suffix in TEXTS
    }


def slug(title: str) -> str:
    """The anchor of a title."""
    return re.sub(r"[^\w -]", "", title).strip().lower().replace(" ", "-")


def test_no_text_of_the_package_names_a_file_that_only_a_checkout_has() -> None:
    named = {name: re.findall(r"\bdocs/[\w/-]+\.md", text) for name, text in texts().items()}
    assert {name: found for name, found in named.items() if found} == {}


def test_every_address_of_the_site_is_a_page_of_it() -> None:
    pattern = re.compile(re.escape(SITE) + r"([\w/-]+)\.html(?:#([\w-]+))?")
    found = {each for text in texts().values() for each in pattern.findall(text)}
    assert found
    for page, anchor in found:
        source = (ROOT / "docs" / f"{page}.md").read_text("utf-8")
        titles = re.findall(r"^#+ (.+)$", source, re.MULTILINE)
        assert not anchor or anchor in {slug(title) for title in titles}
