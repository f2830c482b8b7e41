"""The documentation is a site that can be built: every page is in it, no link is broken."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from .reading import ROOT


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as it is built."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_page_is_in_the_site_and_in_its_list(site: Path) -> None:
    front = (site / "index.html").read_text(encoding="utf-8")
    for page in ROOT.glob("docs/**/*.md"):
        name = page.relative_to(ROOT / "docs").with_suffix(".html").as_posix()
        name = re.sub(r"README\.html$", "index.html", name)
        assert (site / name).is_file(), name
        assert f'href="{name}"' in front, name


def test_the_site_fetches_nothing_from_anywhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        fetched = re.findall(r"<(?:script|link|img)[^>]+(?:src|href)=\"(https?:[^\"]+)", text)
        assert fetched == [], page.name


def test_no_code_of_the_documentation_is_in_the_site(site: Path) -> None:
    assert list(site.rglob("*.py")) == []
