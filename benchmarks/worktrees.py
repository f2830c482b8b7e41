"""Compare an agent's worktree with a bare `git worktree add`, in a big repository.

    python benchmarks/worktrees.py                        # 50,000 files, 20 trees of each kind
    python benchmarks/worktrees.py --files 2000 --trees 4

The benchmark creates the repository twice. Then it adds one worktree after another: to one with
`plan` and `prepare`, which also check for changes, submodules and LFS, and to the other with git
alone, in turns and in changing order. All worktrees stay until the end, as a team's would.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import machine
from bullpen.workspace.git.marks import MARK
from bullpen.workspace.trees.slots import give_back
from bullpen.workspace.trees.tree import plan, prepare
from figures import Row, at_most, figure_of
from report import options_parser, report, scratch

RATIO_MAX = 1.3
_PER_FOLDER = 50
_GIT = "git worktree add"
_GIT_S = 1_800.0


def _git(where: Path, *words: str, given: bytes | None = None) -> None:
    subprocess.run(["git", *words], cwd=where, input=given, timeout=_GIT_S, check=True)


def _stream(files: int) -> bytes:
    """A commit with this many small files, in the format of `git fast-import`."""
    about = b"committer Ben Chmark <ben@example.org> 0 +0000\ndata 5\nfiles\n"
    return b"".join([b"commit refs/heads/main\n", about, *small_files(files)])


def small_files(count: int) -> Iterator[bytes]:
    """Yield small files, in the format of `git fast-import`."""
    for number in range(count):
        text = f"# File {number}\n".encode() + b"value = 'some text that fills a line'\n" * 8
        yield file_row(number, text)


def file_row(number: int, text: bytes) -> bytes:
    """One file of a commit, by its number."""
    name = f"part{number // 2500}/folder{number // _PER_FOLDER}/file{number}.py"
    return f"M 100644 inline {name}\ndata {len(text)}\n".encode() + text + b"\n"


def _repository(where: Path, stream: bytes) -> Path:
    where.mkdir()
    _git(where, "init", "--quiet", "--initial-branch=main")
    _git(where, "fast-import", "--quiet", given=stream)
    _git(where, "reset", "--hard", "--quiet")
    # Files as old as the index would be read again by every git status.
    time.sleep(1.1)
    _git(where, "update-index", "--really-refresh", "-q")
    return where


def _ours(repository: Path, number: int) -> dict[str, float]:
    agent = f"agent-{number}"
    begun = time.perf_counter()
    workspace = plan("worktree", repository, team="bench", agent=agent)
    planned = time.perf_counter()
    prepare(workspace, team="bench", agent=agent, owner="benchmark")
    ended = time.perf_counter()
    give_back(str(repository / ".git" / "worktrees" / agent / MARK))
    return {"prepare": ended - planned, "plan and prepare": ended - begun}


def _bare(repository: Path, number: int) -> dict[str, float]:
    path = repository.parent / f"{repository.name}.trees" / f"agent-{number}"
    begun = time.perf_counter()
    _git(repository, "worktree", "add", "--quiet", "-b", f"side/agent-{number}", str(path))
    return {_GIT: time.perf_counter() - begun}


def _measure(folder: Path, files: int, count: int) -> dict[str, list[float]]:
    stream = _stream(files)
    kinds: dict[str, Callable[[Path, int], dict[str, float]]] = {"ours": _ours, "bare": _bare}
    repositories = {name: _repository(folder / name, stream) for name in kinds}
    took: dict[str, list[float]] = {"prepare": [], "plan and prepare": [], _GIT: []}
    for number in range(count):
        for name in sorted(kinds, reverse=number % 2 == 0):
            for what, seconds in kinds[name](repositories[name], number).items():
                took[what].append(seconds)
    return took


def _rows(took: dict[str, list[float]], files: int, load: float) -> list[Row]:
    figures = {what: figure_of(times, "s") for what, times in took.items()}
    bare = figures.pop(_GIT)
    work = f"one of {len(took[_GIT])} worktrees of {files:,} files"
    return [
        Row(
            number,
            f"{work}: {what}",
            figure,
            at_most(figure, bare, _GIT, times=RATIO_MAX),
            (None, None, bare),
            load=load,
        )
        for number, (what, figure) in enumerate(figures.items(), start=1)
    ]


def use_git_defaults() -> None:
    """Ignore this machine's settings, so that all use git's defaults."""
    os.environ |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}


def main() -> None:
    """Measure, print a table, and write the figures if requested."""
    parser = options_parser("Compare an agent's worktree with bare git.")
    parser.add_argument("--files", type=int, default=50_000)
    parser.add_argument("--trees", type=int, default=20)
    options = parser.parse_args()
    use_git_defaults()
    with scratch(options, "worktrees") as folder:
        load = machine.load()
        rows = _rows(_measure(folder, options.files, options.trees), options.files, load)
    report(options, rows)


if __name__ == "__main__":
    main()
