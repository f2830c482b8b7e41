"""What `mkdocs` needs to know of this project: pages and links that lie outside of docs/.

Pages there are part of the site, below project/. Links to other files, which no site shows, lead
to the repository.
"""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Navigation

ROOT = Path(__file__).parents[1]
OUTSIDE = ("CHANGELOG.md", "CONTRIBUTING.md", "benchmarks/README.md", "examples/README.md")
DECISIONS = "decisions/"
# A link or a picture; not one to another site, nor within the page.
_LINK = re.compile(r"(!?\[[^\]]*\])\((?![a-z]+:|#)([^)\s#]+)(#[^)]*)?\)")
_FENCE = re.compile(r"^(```.*?^```)", re.DOTALL | re.MULTILINE)


def on_files(files: Files, *, config: Any) -> Files:
    """Add the pages that lie outside of docs/."""
    for path in _outside():
        text = (ROOT / path).read_text(encoding="utf-8")
        files.append(File.generated(config, f"project/{path}", content=text))
    return files


def on_nav(nav: Navigation, *, config: Any, files: Files) -> Navigation:
    """Show each decision where their list is, so that a reader of one keeps the navigation."""
    listed = [file.page for file in files.documentation_pages() if file.page is not None]
    (top,) = (page for page in listed if page.url == f"{DECISIONS}index.html")
    before = top
    for page in listed:
        if page.url.startswith(DECISIONS) and page is not top:
            page.parent, page.previous_page, before.next_page = top.parent, before, page
            before = page
    return nav


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Files) -> str:
    """Let links lead where their targets are in the site."""
    here = page.file.src_uri
    return "".join(
        part
        if part.startswith("```")
        else _LINK.sub(lambda found: _link(found, here, config["repo_url"]), part)
        for part in _FENCE.split(markdown)
    )


def on_page_content(html: str, *, page: Any, config: Any, files: Files) -> str:
    """Give tables the room of the table of contents where that would be empty."""
    if "<table" in html and not any(heading.children for heading in page.toc):
        page.meta["hide"] = ["toc"]
    return html


def _link(found: re.Match[str], here: str, repository: str) -> str:
    words, target, anchor = found[1], found[2], found[3] or ""
    at = posixpath.normpath(posixpath.join(posixpath.dirname(_in_project(here)), target))
    if at.startswith("docs/"):
        uri = at.removeprefix("docs/")
    elif at in _outside():
        uri = f"project/{at}"
    else:
        kind = "tree" if (ROOT / at).is_dir() else "blob"
        return f"{words}({repository.rstrip('/')}/{kind}/main/{at}{anchor})"
    return f"{words}({os.path.relpath(uri, posixpath.dirname(here) or '.')}{anchor})"


def _in_project(uri: str) -> str:
    """Where a page of the site lies in the project."""
    return uri.removeprefix("project/") if uri.startswith("project/") else f"docs/{uri}"


def _outside() -> list[str]:
    examples = sorted(ROOT.glob("examples/*/README.md"))
    return [*OUTSIDE, *(path.relative_to(ROOT).as_posix() for path in examples)]
