"""A command of a page exists, and is run somewhere or there is a reason."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from support.rows import each_row
from support.runs.page_lists import ELSEWHERE, NOT_TYPED
from support.runs.reading import PAGES, ROOT, mentioned, scripted, shown, unknown_in

NOT_RUN = tomllib.loads(
    Path(__file__).parents[2].joinpath("docs/not_run.toml").read_text(encoding="utf-8")
)
"""Commands of pages that are not typed here: by reason, and then by page."""


def listed(page: str) -> list[str]:
    """The commands of a page that are not run, for one reason or another."""
    return [command for pages in NOT_RUN.values() for command in pages.get(page, ())]


@each_row("page", PAGES)
def test_a_command_of_a_page_is_run_or_there_is_a_reason(page: str) -> None:
    not_run = [*shown(page), *(scripted(page) if page in NOT_TYPED else ())]
    assert sorted(set(not_run)) == sorted(set(listed(page))), "see tests/docs/not_run.toml"


def test_the_reasons_are_about_pages_that_there_are() -> None:
    assert {page for pages in NOT_RUN.values() for page in pages} <= set(PAGES)
    assert all((ROOT / test).is_file() for test in ELSEWHERE.values())
    for reason in NOT_RUN:
        for test in re.findall(r"tests/\S+\.py", reason):
            assert (ROOT / test).is_file(), test


@each_row("page", PAGES)
def test_every_command_that_a_page_names_is_there_with_its_options(page: str) -> None:
    for line in mentioned(page):
        unknown = unknown_in(line)
        assert unknown is None, f"{line!r}: there is no {unknown}"


def test_what_is_installed_is_there() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = set(project["optional-dependencies"])
    for page in PAGES:
        for named in re.findall(r"\b(?:bullpen|\.)\[([a-z,]+)\]", (ROOT / page).read_text("utf-8")):
            assert {*named.split(",")} <= extras, f"{page}: {named}"
