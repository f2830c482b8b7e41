"""What `mkdocs` needs to know of this project: pages and links that lie outside of docs/.

Pages there are part of the site, below project/. Links to other files, which no site shows, become
their paths.
"""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

DOCS = Path(__file__).parent
ROOT = DOCS.parent
OUTSIDE = ("CHANGELOG.md", "CONTRIBUTING.md", "benchmarks/README.md")
# A link or a picture; not one to another site, nor within the page.
_LINK = re.compile(r"(!?\[[^\]]*\])\((?![a-z]+:|#)([^)\s#]+)(#[^)]*)?\)")
_FENCE = re.compile(r"^(```.*?^```)", re.DOTALL | re.MULTILINE)


SECTIONS = {
    "howto/": "How-to",
    "reference/": "Reference",
    "programs/": "Programs",
    "decisions/": "Decisions",
    "": "More",
}
"""Where pages go that the list of mkdocs.yml does not name, by their folders."""


def on_config(config: Any) -> Any:
    """Add to the list of pages what it does not name."""
    named = set(_named(config["nav"]))
    pages = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
    pages += [f"project/{path}" for path in _outside()]
    sections = {title: each for entry in config["nav"] for title, each in entry.items()}
    for page in pages:
        if page not in named:
            title = next(title for folder, title in SECTIONS.items() if page.startswith(folder))
            if title not in sections:
                sections[title] = []
                config["nav"].append({title: sections[title]})
            # The page that says which others there are comes first.
            at = 0 if page.endswith("/README.md") and title != "More" else len(sections[title])
            sections[title].insert(at, page)
    return config


def on_files(files: Files, *, config: Any) -> Files:
    """Add the pages that lie outside of docs/."""
    for path in _outside():
        text = (ROOT / path).read_text(encoding="utf-8")
        files.append(File.generated(config, f"project/{path}", content=text))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Files) -> str:
    """Let links lead where their targets are in the site."""
    here = page.file.src_uri
    return "".join(
        part if part.startswith("```") else _LINK.sub(lambda found: _link(found, here), part)
        for part in _FENCE.split(markdown)
    )


def _link(found: re.Match[str], here: str) -> str:
    words, target, anchor = found[1], found[2], found[3] or ""
    at = posixpath.normpath(posixpath.join(posixpath.dirname(_in_project(here)), target))
    if at.startswith("docs/"):
        uri = at.removeprefix("docs/")
    elif at in _outside():
        uri = f"project/{at}"
    else:
        return f"{words.strip('![]')} (`{at}`)"
    return f"{words}({os.path.relpath(uri, posixpath.dirname(here) or '.')}{anchor})"


def _in_project(uri: str) -> str:
    """Where a page of the site lies in the project."""
    return uri.removeprefix("project/") if uri.startswith("project/") else f"docs/{uri}"


def _named(entries: Any) -> list[str]:
    if isinstance(entries, str):
        return [entries]
    each = entries.values() if isinstance(entries, dict) else entries
    return [name for entry in each for name in _named(entry)]


def _outside() -> list[str]:
    examples = sorted(ROOT.glob("examples/**/README.md"))
    return [*OUTSIDE, *(path.relative_to(ROOT).as_posix() for path in examples)]
