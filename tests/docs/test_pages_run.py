"""Quickstart, how-tos and other pages are typed as they are printed, into the built wheel."""

from __future__ import annotations

import re
import shutil

import pytest

from support.runs.page_lists import ELSEWHERE, NOT_TYPED
from support.runs.reading import PAGES, Reader, blocks

# The README has more than commands; those of an example are the example.
TYPED = [
    page
    for page in PAGES
    if blocks(page, "sh")
    and page not in {*ELSEWHERE, *NOT_TYPED, "README.md"}
    and not page.startswith("examples/")
]


@pytest.mark.pages
@pytest.mark.parametrize("page", TYPED)
def test_every_command_of_a_page_works(page: str, newcomer: Reader) -> None:
    script = "set -e\n" + "\n".join(blocks(page, "sh"))
    for program in ("tmux", "jq", "git"):
        if re.search(rf"\b{program}\b", script) and shutil.which(program) is None:
            pytest.skip(f"needs {program}")
    said = newcomer.run(["bash", "-s"], script)
    assert "Traceback" not in said
