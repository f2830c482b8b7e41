"""Compare a merge in the queue with the git commands that do the same.

    python benchmarks/merge_queue.py                      # 200 and 50,000 files, 20 merges of each
    python benchmarks/merge_queue.py --files 2000 --merges 5 --batch 1

The benchmark creates the repository twice, with branches of one commit that start at the first
commit. Then it merges one branch after another into the target: in one repository with a step of
the queue, with its records on disk and `true` as its merge gate; in the other with `git rebase` in
a linked worktree, `git clean`, `sh -c true` and `git merge --ff-only`. The two take turns in
changing order. With a batch of 4, the default, a step merges 4 branches; bare git merges them one
by one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import anyio

import machine
from bullpen.agents.work.merge_checks import open_queue
from bullpen.protocol.names import LEAD
from bullpen.protocol.task import Check
from bullpen.protocol.team import MergeSettings
from bullpen.store.files.store import FileStore
from bullpen.team.tasks.merge_rules import HandIn
from bullpen.team.team import Teams
from bullpen.workspace.merge_queue.queue import Queue
from figures import Row, at_most, figure_of
from git_scenery import WHO, file_row, first_commit, git, repository, use_git_defaults
from report import options_parser, report, scratch

RATIO_MAX = 1.3


def _stream(files: int, branches: int) -> bytes:
    """A commit with this many small files, and branches that change one each."""
    lines = list(first_commit(files))
    for number in range(branches):
        lines += [f"commit refs/work/{number}\n".encode(), WHO, b"from :1\n"]
        lines.append(file_row(number * (files // branches), f"# Changed {number}\n".encode() * 9))
    return b"".join(lines)


async def _queue(folder: Path, repository: Path, branches: int, batch: int) -> Queue:
    """A team with all branches in its merge queue."""
    teams = Teams(FileStore(folder / "home"))
    await teams.create("bench", cwd=str(repository))
    team = teams.open("bench")
    gate = [Check.new(name="gate", kind="command", run="true").raw]
    settings = MergeSettings.new(repository=str(repository), target="main", gate=gate, batch=batch)
    base = git(repository, "rev-parse", "main")
    for number in range(branches):
        task = await team.tasks.add(f"work {number}", by=LEAD)
        commit = git(repository, "rev-parse", f"refs/work/{number}")
        work = HandIn(commit, base, f"refs/work/{number}")
        await team.tasks.done(task.id, by=LEAD, work=work)
    return await open_queue(team, settings, home=folder / "home", environ=os.environ)


def _bare(repository: Path, scratch: Path, number: int) -> float:
    begun = time.perf_counter()
    git(scratch, "rebase", "--quiet", "main", f"refs/work/{number}")
    git(scratch, "checkout", "--quiet", "--detach")
    git(scratch, "clean", "-ffdxq")
    subprocess.run(["/bin/sh", "-c", "true"], cwd=scratch, check=True)
    git(repository, "merge", "--quiet", "--ff-only", git(scratch, "rev-parse", "HEAD"))
    return time.perf_counter() - begun


async def _ours(queue: Queue, batch: int) -> float:
    begun = time.perf_counter()
    stepped = await queue.step()
    took = time.perf_counter() - begun
    assert stepped is not None
    assert len(stepped.merged) == batch
    return took


async def _measure(folder: Path, files: int, merges: int, batch: int) -> dict[str, list[float]]:
    """Seconds per merge; with a batch, its share of the total."""
    # The first merge of each creates the worktree that the others are tested in.
    steps = merges // batch + 1
    stream = _stream(files, steps * batch)
    bare = repository(folder / "bare" / "project", stream)
    scratch = folder / "bare" / "scratch"
    git(bare, "worktree", "add", "--quiet", "--detach", str(scratch))
    ours = repository(folder / "ours" / "project", stream)
    queue = await _queue(folder / "ours", ours, steps * batch, batch)
    took: dict[str, list[float]] = {"ours": [], "bare": []}
    with queue.locked():
        for step in range(steps):
            for name in sorted(took, reverse=step % 2 == 0):
                os.sync()  # nobody pays for what the one before has left to be written
                if name == "ours":
                    seconds = await _ours(queue, batch)
                else:
                    seconds = sum(_bare(bare, scratch, step * batch + n) for n in range(batch))
                took[name].append(seconds / batch)
    trees = [git(folder / name / "project", "rev-parse", "main^{tree}") for name in took]
    assert trees[0] == trees[1], "they did not come to the same"
    return {name: times[1:] for name, times in took.items()}


def _row(took: dict[str, list[float]], files: int, batch: int, load: float) -> Row:
    ours, bare = (figure_of([1000 * each for each in took[name]], "ms") for name in took)
    goal = at_most(ours, bare, "bare git", times=RATIO_MAX)
    work = f"a merge in batches of {batch}, {files:,} files"
    return Row(batch, work, ours, goal, (None, None, bare), load=load)


def main() -> None:
    """Measure, print a table, and write the figures if requested."""
    parser = options_parser("Compare a merge in the queue with bare git.")
    parser.add_argument("--files", type=int, nargs="+", default=[200, 50_000])
    parser.add_argument("--merges", type=int, default=20)
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 4])
    options = parser.parse_args()
    use_git_defaults()
    rows = []
    for files in options.files:
        for batch in options.batch:
            load = machine.load()
            with scratch(options, "merge-queue") as folder:
                took = anyio.run(_measure, folder, files, options.merges, batch)
            rows.append(_row(took, files, batch, load))
    report(options, rows)
    sys.exit(1 if any(row.verdict == "FAIL" for row in rows) else 0)


if __name__ == "__main__":
    main()
