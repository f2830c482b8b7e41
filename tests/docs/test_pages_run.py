"""Quickstart, how-tos and other pages are typed as they are printed, into the built wheel."""

from __future__ import annotations

import re
import shutil
import tomllib
from pathlib import Path

import pytest

from .reading import PAGES, ROOT, Reader, blocks, mentioned, scripted, shown, unknown_in

NOT_RUN = tomllib.loads(Path(__file__).with_name("not_run.toml").read_text(encoding="utf-8"))
"""Commands of pages that are not typed here: by reason, and then by page."""

ELSEWHERE = {
    "docs/protocol.md": "tests/protocol/test_protocol_page.py",
    "docs/reference/scripts.md": "tests/docs/test_readme_run.py",
}
"""Pages whose blocks another test runs."""

NOT_TYPED = ["docs/howto/claude-code-teams.md"]
"""Pages whose blocks for a shell are listed with a reason, too."""

# The README has more than commands; those of an example are the example.
TYPED = [
    page
    for page in PAGES
    if blocks(page, "sh")
    and page not in {*ELSEWHERE, *NOT_TYPED, "README.md"}
    and not page.startswith("examples/")
]


def listed(page: str) -> list[str]:
    """The commands of a page that are not run, for one reason or another."""
    return [command for pages in NOT_RUN.values() for command in pages.get(page, ())]


@pytest.mark.parametrize("page", TYPED)
def test_every_command_of_a_page_works(page: str, newcomer: Reader) -> None:
    script = "set -e\n" + "\n".join(blocks(page, "sh"))
    for program in ("tmux", "jq", "git"):
        if re.search(rf"\b{program}\b", script) and shutil.which(program) is None:
            pytest.skip(f"needs {program}")
    said = newcomer.run(["bash", "-s"], script)
    assert "Traceback" not in said


@pytest.mark.parametrize("page", PAGES)
def test_a_command_of_a_page_is_run_or_there_is_a_reason(page: str) -> None:
    not_run = [*shown(page), *(scripted(page) if page in NOT_TYPED else ())]
    assert sorted(set(not_run)) == sorted(set(listed(page))), "see tests/docs/not_run.toml"


def test_the_reasons_are_about_pages_that_there_are() -> None:
    assert {page for pages in NOT_RUN.values() for page in pages} <= set(PAGES)
    assert all((ROOT / test).is_file() for test in ELSEWHERE.values())
    for reason in NOT_RUN:
        for test in re.findall(r"tests/\S+\.py", reason):
            assert (ROOT / test).is_file(), test


@pytest.mark.parametrize("page", PAGES)
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
