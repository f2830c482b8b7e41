"""Finding files, and looking in them with both engines."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bullpen.agents.tools.files import search, search_worker

if TYPE_CHECKING:
    from support.agents.tools_fixtures import Bench


def plant(root: Path, files: dict[str, str | bytes]) -> None:
    for index, (name, content) in enumerate(files.items()):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        # The first is the oldest.
        os.utime(path, (1_000_000 + index, 1_000_000 + index))


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("**/*.py", ["src/deep/c.py", "src/b.py", "a.py"]),
        ("*.py", ["a.py"]),
        ("src/*", ["src/b.py"]),
        ("src/**", ["src/deep/c.py", "src/deep/d.ts", "src/b.py"]),
        ("**/*.{ts,md}", ["src/deep/d.ts", ".hidden/e.md"]),
        ("**/[a-b].p?", ["src/b.py", "a.py"]),
        ("**/[!a]*.py", ["src/deep/c.py", "src/b.py"]),
        ("src/deep/c.py", ["src/deep/c.py"]),
        ("**/deep/*.py", ["src/deep/c.py"]),
        ("./src/../a.*", ["a.py"]),
        ("*.[", []),
    ],
)
async def test_files_are_found_by_pattern_newest_first(
    ann: Bench, pattern: str, found: list[str]
) -> None:
    plant(
        ann.cwd,
        {
            ".git/config.py": "",
            "a.py": "",
            ".hidden/e.md": "",
            "src/b.py": "",
            "src/deep/d.ts": "",
            "src/deep/c.py": "",
        },
    )
    text = await ann.ok("Glob", pattern=pattern)
    assert (text.split("\n") if found else text) == (found or "No files found")
    text = await ann.ok("Glob", pattern=f"{ann.cwd}/{pattern}")
    assert (text.split("\n") if found else text) == (found or "No files found")


async def test_of_many_files_the_newest_are_shown_with_their_number(ann: Bench) -> None:
    plant(ann.cwd, {f"{n:03}.txt": "" for n in range(150)})
    rows = (await ann.ok("Glob", pattern="**/*")).split("\n")
    assert rows[0] == "149.txt"
    assert rows[-1] == "[Only the newest 100 of 150 files are shown.]"


async def test_a_glob_that_takes_too_long_says_that_it_is_not_whole(
    ann: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(ann.cwd, {"a/b.py": ""})
    monkeypatch.setattr(search, "GLOB_S", -1)
    assert "Stopped after" in await ann.ok("Glob", pattern="**/*")


async def test_a_place_that_does_not_exist_is_an_error_and_not_nothing(ann: Bench) -> None:
    assert "no directory" in await ann.refused("Glob", pattern="*", path="nowhere")
    assert "There is no" in await ann.refused("Grep", pattern="x", path="nowhere")


def test_braces_expand_also_when_they_nest() -> None:
    assert search_worker.expand_braces("a{b,c{d,e}}f") == ["abf", "acdf", "acef"]
    assert search_worker.expand_braces("{x}") == ["{x}"]
    assert search_worker.expand_braces("a{,b}") == ["a", "ab"]
