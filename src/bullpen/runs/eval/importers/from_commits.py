"""Makes a suite of a repository's own history: `bullpen eval make`.

Each of the last changes becomes a task if it has tests and something else. The work begins at its
parent, so that the change and all later ones are undone; its tests are hidden.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bullpen.errors import Invalid, NotFound
from bullpen.runs.eval.importers.new_suite import (
    MadeSuite,
    NewTask,
    NoTask,
    Skipped,
    task_name,
    write_suite,
)
from bullpen.runs.eval.verdict import is_test_name
from bullpen.workspace.git.run_git import TREE_S, Git

TESTS = ("tests/*", "test/*", "spec/*", "*/tests/*", "*/__tests__/*")
"""Where tests are, unless the caller says something else."""

_TRAILERS = ("co-authored-by:", "signed-off-by:", "change-id:", "reviewed-by:")
_SUBJECT_MAX = 40
_MERGED_MAX = 50


@dataclass(frozen=True, slots=True)
class MakeRequest:
    """A suite to make of a repository."""

    repository: Path
    folder: Path
    test: str
    last: int = 20
    branch: str = "HEAD"
    tests: tuple[str, ...] = TESTS
    # How large a change may be, in lines of what is not a test.
    lines_max: int = 1000
    name: str | None = None


def make_suite(request: MakeRequest) -> MadeSuite:
    """Make a suite of the last changes. A merge counts as one change. Blocks.

    Raises:
        NotFound: there is no repository, or no such branch.
        Conflict: the folder is not empty.
        Invalid: no change can be a task.
    """
    git = Git(request.repository)
    if not request.repository.is_dir() or not git.run("rev-parse", "--git-dir").ok:
        raise NotFound(
            f"There is no git repository in {request.repository}.", remedy="Name one with --cwd."
        )
    branch = git.run("rev-parse", "--verify", "--end-of-options", f"{request.branch}^{{commit}}")
    if not branch.ok:
        raise NotFound(f"There is no commit {request.branch!r}.", remedy="Name a branch.")
    listed = git("rev-list", "--first-parent", f"--max-count={request.last}", branch.out.strip())
    tasks: list[NewTask] = []
    skipped: list[Skipped] = []
    for commit in listed.split():
        found = _task(git, commit, request)
        if isinstance(found, Skipped):
            skipped.append(found)
        else:
            tasks.append(found)
    if not tasks:
        why = f" The first: {skipped[0].why}." if skipped else ""
        raise Invalid(
            f"None of the last {len(skipped)} changes can be a task.{why}",
            remedy="Look at more with --last, or say where tests are with --tests.",
        )
    top = Path(git("rev-parse", "--show-toplevel"))
    return write_suite(
        request.folder,
        request.name or f"{top.name}: its last {request.last} changes",
        tasks,
        skipped,
        defaults={"repository": str(top), "test": request.test},
    )


def _task(git: Git, commit: str, request: MakeRequest) -> NewTask | Skipped:
    message = git("log", "-1", "--format=%B", commit)
    subject = message.partition("\n")[0].strip()
    label = f"{commit[:10]} {subject}"
    base = git.run("rev-parse", "--verify", "--end-of-options", f"{commit}^1")
    if not base.ok:
        return Skipped(label, "it is the first commit")
    parent = base.out.strip()
    changed = _changed(git, parent, commit)
    tests = [path for path, _ in changed if is_test_path(path, request.tests)]
    rest = [path for path, _ in changed if not is_test_path(path, request.tests)]
    deleted = {path for path, state in changed if state == "D"}
    runs = [path for path in tests if is_test_name(Path(path).name) and path not in deleted]
    if not rest:
        return Skipped(label, "it changes only tests")
    if not runs:
        return Skipped(label, "it adds or changes no test that can be run")
    if _lines(git, parent, commit, rest) > request.lines_max:
        return Skipped(label, f"it changes more than {request.lines_max} lines besides tests")
    hidden = _contents(git, commit, [path for path in tests if path not in deleted])
    if isinstance(hidden, str):
        return Skipped(label, hidden)
    solution = _diff(git, parent, commit, rest)
    name = f"{task_name(subject)[:_SUBJECT_MAX].rstrip('-._')}-{commit[:8]}"
    try:
        return NewTask(
            name,
            instructions(message, _merged(git, parent, commit)),
            {"title": subject, "base": parent},
            hidden,
            solution=solution,
        )
    except NoTask as error:
        return Skipped(label, str(error))


def instructions(message: str, merged: Sequence[str] = ()) -> str:
    """Return what commit messages tell somebody who is to make the change.

    The message of a merge often says little: those of its commits follow.
    """
    texts = ["Make this change to the project:", *map(_without_trailers, (message, *merged))]
    return "\n\n".join(text for text in texts if text)


def _without_trailers(message: str) -> str:
    lines = message.strip().splitlines()
    return "\n".join(line for line in lines if not _is_trailer(line)).strip()


def _merged(git: Git, parent: str, commit: str) -> list[str]:
    """Return the messages of the commits that a merge brought, the first one first."""
    if not git.run("rev-parse", "--verify", "--quiet", f"{commit}^2").ok:
        return []
    words = ("log", "--reverse", "--no-merges", "-z", "--format=%B", f"{parent}..{commit}")
    return git.lines(*words)[:_MERGED_MAX]


def _is_trailer(line: str) -> bool:
    return line.strip().lower().startswith(_TRAILERS)


def is_test_path(path: str, patterns: Sequence[str]) -> bool:
    """Return whether a file belongs to the tests, by where it is or what it is called."""
    name = path.rpartition("/")[2]
    is_named = is_test_name(name) and not name.endswith((".md", ".txt"))
    return is_named or any(fnmatch.fnmatchcase(path, each) for each in patterns)


def _changed(git: Git, parent: str, commit: str) -> list[tuple[str, str]]:
    words = git.lines("diff", "--no-renames", "--name-status", "-z", parent, commit)
    return [(words[at + 1], words[at]) for at in range(0, len(words) - 1, 2)]


def _lines(git: Git, parent: str, commit: str, paths: Sequence[str]) -> int:
    """Return how many lines are added and removed; a binary file counts as one."""
    wanted, total = set(paths), 0
    for row in git.lines("diff", "--no-renames", "--numstat", "-z", parent, commit):
        added, removed, path = row.split("\t", 2)
        if path in wanted:
            total += 1 if added == "-" else int(added) + int(removed)
    return total


def _contents(git: Git, commit: str, paths: Sequence[str]) -> dict[str, bytes] | str:
    """Return the content of files in a commit, or why they cannot be hidden tests."""
    found = {}
    for path in paths:
        kind = git("ls-tree", commit, "--", f":(literal){path}").partition(" ")[0]
        if kind not in {"100644", "100755"}:
            return f"{path} is no ordinary file"
        text = git("cat-file", "blob", f"{commit}:{path}")
        # The last line break is not printed.
        size = int(git("cat-file", "-s", f"{commit}:{path}"))
        data = text.encode("utf-8", "surrogateescape")
        found[path] = data + b"\n" if len(data) < size else data
        if len(found[path]) != size:
            return f"{path} cannot be read whole"
    return found


def _diff(git: Git, parent: str, commit: str, paths: Sequence[str]) -> bytes:
    words = [f":(literal){path}" for path in paths]
    text = git("diff", "--binary", "--no-renames", parent, commit, "--", *words, seconds=TREE_S)
    return text.encode("utf-8", "surrogateescape") + b"\n"
