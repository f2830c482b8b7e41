"""Finding files, and looking in them with both engines."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from bullpen.agents.tools.files import search

if TYPE_CHECKING:
    from support.agents.tools_fixtures import Bench

RG = shutil.which("rg")
needs_rg = pytest.mark.skipif(RG is None, reason="needs ripgrep")


def plant(root: Path, files: dict[str, str | bytes]) -> None:
    for index, (name, content) in enumerate(files.items()):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        # The first is the oldest.
        os.utime(path, (1_000_000 + index, 1_000_000 + index))


def without_ripgrep(bench: Bench, folder: Path) -> None:
    """Give a bench a PATH on which there is git, and nothing else."""
    folder.mkdir()
    git = shutil.which("git")
    assert git is not None
    (folder / "git").symlink_to(git)
    bench.desk.env = {**bench.desk.env, "PATH": str(folder)}


async def test_links_to_directories_are_not_followed(ann: Bench, tmp_path: Path) -> None:
    plant(ann.cwd, {"real/a.py": "needle"})
    (ann.cwd / "real" / "loop").symlink_to(ann.cwd)
    (ann.cwd / "elsewhere").symlink_to(tmp_path)
    assert await ann.ok("Glob", pattern="**/*.py") == "real/a.py"
    assert await ann.ok("Grep", pattern="needle") == "real/a.py"


FILES: dict[str, str | bytes] = {
    "a.py": "import os\n\ndef f():\n    return os.name\n\n\n# the END\n",
    "src/b.py": "def g(): pass\n# end\ndef h(): pass",
    "src/c.ts": "const x = { a: 1 };\nend\r\nEnd of line\r\n",
    "doc/d.md": "Ünïcode ende\nfoo\nbar\nfoo\nbar\n",
    "e.bin": b"\0\1end",
    "f.txt": b"caf\xe9 end\nlast",
    "empty": "",
    "-dash": "end\n",
}

CASES: list[dict[str, Any]] = [
    {"pattern": "end"},
    {"pattern": "end", "-i": True, "output_mode": "content"},
    {"pattern": "end", "-i": True, "output_mode": "count"},
    {"pattern": "end", "output_mode": "content", "-n": False},
    {"pattern": "end$", "output_mode": "content"},
    {"pattern": "^$", "output_mode": "count"},
    {"pattern": "def", "output_mode": "content", "-C": 1},
    {"pattern": "return", "output_mode": "content", "-B": 2, "-A": 1},
    {"pattern": "def|end", "output_mode": "content", "-A": 1, "glob": "*.py"},
    {"pattern": "end", "glob": "src/**"},
    {"pattern": "end", "glob": "*.{ts,md}"},
    {"pattern": "end", "glob": "!*.py"},
    {"pattern": "end", "path": "src"},
    {"pattern": "end", "path": "src/c.ts", "output_mode": "content"},
    {"pattern": r"\bos\.\w+", "output_mode": "content"},
    {"pattern": "ünï", "-i": True, "output_mode": "content"},
    {"pattern": r"foo\nbar", "multiline": True, "output_mode": "content"},
    {"pattern": "def.*pass", "multiline": True, "output_mode": "count"},
    {"pattern": r"\s+", "multiline": True, "output_mode": "count"},
    {"pattern": "foo$", "multiline": True, "output_mode": "content"},
    {"pattern": "^foo\nbar$", "multiline": True, "output_mode": "content", "-A": 1},
    {"pattern": "(?<=def )g", "output_mode": "content"},
    {"pattern": "{ a", "output_mode": "content"},
    {"pattern": "nothing like it"},
    {"pattern": "-dash"},
    {"pattern": "e", "output_mode": "content", "head_limit": 3},
    {"pattern": "(unclosed"},
    {"pattern": "(unclosed", "glob": "*.none"},
]


@needs_rg
@pytest.mark.parametrize("case", CASES, ids=str)
async def test_both_engines_give_the_same_answers(
    ann: Bench, bob: Bench, tmp_path: Path, case: dict[str, Any]
) -> None:
    plant(ann.cwd, FILES)
    without_ripgrep(bob, tmp_path / "bin")
    quick, slow = await ann.call("Grep", **case), await bob.call("Grep", **case)
    assert quick[1] == slow[1]
    if not quick[1]:
        assert quick == slow


@pytest.mark.parametrize("engine", ["python", pytest.param("ripgrep", marks=needs_rg)])
async def test_each_way_of_showing_matches(ann: Bench, tmp_path: Path, engine: str) -> None:
    plant(ann.cwd, FILES)
    if engine == "python":
        without_ripgrep(ann, tmp_path / "bin")
    assert await ann.ok("Grep", pattern="end") == "-dash\nf.txt\ndoc/d.md\nsrc/c.ts\nsrc/b.py"
    assert await ann.ok("Grep", pattern="foo", output_mode="count") == "doc/d.md:2"
    shown = await ann.ok("Grep", pattern="^def", output_mode="content", **{"-A": 1})
    assert shown == (
        "a.py:3:def f():\na.py-4-    return os.name\n"
        "src/b.py:1:def g(): pass\nsrc/b.py-2-# end\nsrc/b.py:3:def h(): pass"
    )
    apart = await ann.ok("Grep", pattern="import|END", output_mode="content", **{"-A": 1})
    assert apart == "a.py:1:import os\na.py-2-\n--\na.py:7:# the END"
    both = await ann.ok("Grep", pattern="foo.bar", output_mode="content", multiline=True)
    assert both == "doc/d.md:2:foo\ndoc/d.md:3:bar\ndoc/d.md:4:foo\ndoc/d.md:5:bar"
    cut = await ann.ok("Grep", pattern="e", output_mode="content", head_limit=2)
    assert cut.split("\n")[-1] == "[Only the first 2 lines are shown. There are more.]"
    assert "regular expression" in await ann.refused("Grep", pattern="(unclosed")
    assert "multiline" in await ann.refused("Grep", pattern=r"foo\nbar")


async def test_in_a_git_tree_ignored_files_are_left_out_unless_named(ann: Bench) -> None:
    plant(
        ann.cwd,
        {
            ".gitignore": "build/\n",
            "a.txt": "needle",
            "build/b.txt": "needle",
            "inner/c.txt": "needle",
        },
    )
    for folder in (ann.cwd, ann.cwd / "inner"):
        await anyio.run_process(["git", "init", "-q", str(folder)])
    found = await ann.ok("Grep", pattern="needle")
    assert sorted(found.split("\n")) == ["a.txt", "inner/c.txt"]
    assert await ann.ok("Grep", pattern="needle", path="build") == "build/b.txt"


async def test_a_pattern_that_takes_for_ever_is_ended(
    ann: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(ann.cwd, {"a.txt": "a" * 60 + "!"})
    without_ripgrep(ann, tmp_path / "bin")
    monkeypatch.setattr(search, "GREP_S", 2.0)
    with anyio.fail_after(20):
        text = await ann.refused("Grep", pattern="(a+)+$")
    assert "took longer than 2 seconds" in text


async def test_cancelling_a_search_ends_its_process(
    ann: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(ann.cwd, {"a.txt": "a" * 60 + "!"})
    without_ripgrep(ann, tmp_path / "bin")

    def searching() -> list[str]:
        listed = subprocess.run(
            ["ps", "-eww", "-o", "args"], capture_output=True, text=True, check=True
        )
        return [row for row in listed.stdout.split("\n") if str(ann.cwd) in row]

    monkeypatch.setattr(search, "GREP_S", 600.0)
    with anyio.fail_after(120):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: ann.call("Grep", pattern="(a+)+$"))
            await ann.until(lambda: bool(searching()))
            tasks.cancel_scope.cancel()
    assert searching() == []


async def test_a_search_that_breaks_is_an_error_and_not_nothing(
    ann: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert "The search crashed" in await ann.refused("Grep", pattern="x")
