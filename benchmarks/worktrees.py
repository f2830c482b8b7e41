"""Compare an agent's worktree with a bare `git worktree add`, in a big repository.

    python benchmarks/worktrees.py                        # 50,000 files, 20 trees of each kind
    python benchmarks/worktrees.py --files 2000 --trees 4

The benchmark creates the repository twice. Then it adds one worktree after another: to one with
`plan` and `prepare`, which also check for changes, submodules and LFS, and to the other with git
alone, in turns and in changing order. All worktrees stay until the end, as a team's would.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import machine
from bullpen.workspace.git.marks import MARK
from bullpen.workspace.trees.slots import give_back
from bullpen.workspace.trees.tree import plan, prepare
from figures import Row, at_most, figure_of
from git_scenery import first_commit, git, repository, use_git_defaults
from report import options_parser, report, scratch

RATIO_MAX = 1.3
_GIT = "git worktree add"


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
    git(repository, "worktree", "add", "--quiet", "-b", f"side/agent-{number}", str(path))
    return {_GIT: time.perf_counter() - begun}


def _measure(folder: Path, files: int, count: int) -> dict[str, list[float]]:
    stream = b"".join(first_commit(files))
    kinds: dict[str, Callable[[Path, int], dict[str, float]]] = {"ours": _ours, "bare": _bare}
    repositories = {name: repository(folder / name, stream) for name in kinds}
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
