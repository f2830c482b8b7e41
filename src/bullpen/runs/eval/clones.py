"""The repositories of a trial: where agents work, and where their change is judged.

Both have one commit, with the files where the work begins. No later commit of the source is in
them, nor its refs or its address.
"""

from __future__ import annotations

import errno
import fnmatch
import os
import shutil
import stat
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from bullpen.errors import Invalid, Unavailable
from bullpen.runs.eval.suite import BASE, SOLUTION, SOLUTION_PATCH, EvalTask
from bullpen.workspace.git.run_git import TREE_S, Git, GitFailed

BRANCH = "main"
_WHO = {
    "GIT_AUTHOR_NAME": "Bullpen eval",
    "GIT_AUTHOR_EMAIL": "eval@bullpen.invalid",
    "GIT_AUTHOR_DATE": "2000-01-01T00:00:00Z",
    "GIT_COMMITTER_NAME": "Bullpen eval",
    "GIT_COMMITTER_EMAIL": "eval@bullpen.invalid",
    "GIT_COMMITTER_DATE": "2000-01-01T00:00:00Z",
}
_NOT_LEFT = ("FETCH_HEAD", "ORIG_HEAD", "shallow", "packed-refs", "logs", "description", "hooks")
_FILES_MAX = 200_000
BYTES_MAX = 8_000_000_000
"""How large all files of a project may be: one with holes is small until it is copied."""

_OURS = frozenset(
    (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.ENOMEM, errno.EMFILE, errno.ENFILE)
)
"""What is wrong with this machine, whatever the files are."""


class NotCopied(Invalid):
    """The files of a project cannot be copied, because of what they are."""


def make_clone(task: EvalTask, folder: Path) -> None:
    """Make a repository with one commit: the files where the work begins. Raises Unavailable."""
    folder.mkdir(parents=True)
    git = Git(folder, env=_WHO)
    git("init", "--quiet", f"--initial-branch={BRANCH}", "--template=", ".")
    try:
        tree = _fetched(git, task) if task.repository is not None else _from_folder(git, task)
    except GitFailed as error:
        raise Unavailable(
            f"Task {task.name!r} cannot begin: {error.message}",
            remedy="Check `repository` and `base` in its task.toml.",
        ) from error
    commit = git("commit-tree", tree, "-m", "Base")
    git("update-ref", f"refs/heads/{BRANCH}", commit)
    git("reset", "--quiet", "--hard", commit, seconds=TREE_S)
    for name in _NOT_LEFT:
        remove_file(folder / ".git" / name)
    # The commit that was fetched is needed no more; its message may tell what comes next.
    git("repack", "-a", "-d", "-q", seconds=TREE_S)
    git("prune", "--expire=now", seconds=TREE_S)
    for name in ("user.name", "user.email"):
        part = "NAME" if name.endswith("name") else "EMAIL"
        git("config", name, _WHO[f"GIT_AUTHOR_{part}"])


def _fetched(git: Git, task: EvalTask) -> str:
    if task.repository is None or not task.repository.is_dir() or task.base is None:
        raise Invalid(
            f"Task {task.name!r} begins in {task.repository}, which is not there.",
            remedy="Clone the repository there, or correct `repository` in suite.toml.",
        )
    source = Git(task.repository)
    commit = source("rev-parse", "--verify", "--end-of-options", f"{task.base}^{{commit}}")
    where = source("rev-parse", "--absolute-git-dir")
    git("fetch", "--quiet", "--depth=1", "--no-tags", f"file://{where}", commit, seconds=TREE_S)
    return git("rev-parse", "FETCH_HEAD^{tree}")


def _from_folder(git: Git, task: EvalTask) -> str:
    copy_files(task.folder / BASE, git.where)
    git("add", "--all", "--force", ".", seconds=TREE_S)
    return git("write-tree")


def copy_files(source: Path, target: Path) -> int:
    """Copy all files of a folder over those of another, without `.git`; how many there were.

    Links are copied as links and never followed: the source may be an agent's.

    Raises:
        NotCopied: the files are too many or too large, or their names too long.
    """
    try:
        return _copy_files(source, target)
    except OSError as error:
        if error.errno in _OURS:
            raise
        raise _not_copied(source, error.strerror or type(error).__name__) from None


def replace_files(source: Path, target: Path) -> int:
    """Make the files of a folder those of another one, without `.git`. Raises NotCopied."""
    for entry in target.iterdir():
        if entry.name != ".git":
            remove_file(entry)
    return copy_files(source, target)


def _not_copied(source: Path, why: str) -> NotCopied:
    return NotCopied(
        f"The files in {source} cannot be copied: {why}.",
        remedy="Remove what is generated, and what cannot be read.",
    )


def _copy_files(source: Path, target: Path) -> int:
    count, room = 0, BYTES_MAX
    for relative, kind in _tree(source):
        where, copy = source / relative, target / relative
        if kind == "dir":
            if copy.is_symlink() or (copy.exists() and not copy.is_dir()):
                remove_file(copy)
            copy.mkdir(parents=True, exist_ok=True)
            continue
        remove_file(copy)
        if kind == "link":
            os.symlink(os.readlink(where), copy)
        else:
            room -= _copy_file(where, copy, room)
        count += 1
        if count > _FILES_MAX:
            raise _not_copied(source, f"there are more than {_FILES_MAX}")
        if room < 0:
            raise _not_copied(source, f"they have more than {BYTES_MAX} bytes")
    return count


def _tree(source: Path) -> Iterator[tuple[Path, str]]:
    """Yield the folders, links and files below a folder, without sockets, pipes and devices."""
    waiting = [Path()]
    while waiting:
        at = waiting.pop()
        with os.scandir(source / at) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
        for entry in found:
            if entry.name.lower() == ".git":
                continue
            path = at / entry.name
            if entry.is_symlink():
                yield path, "link"
            elif entry.is_dir(follow_symlinks=False):
                yield path, "dir"
                waiting.append(path)
            elif entry.is_file(follow_symlinks=False):
                yield path, "file"


def _copy_file(source: Path, target: Path, room: int) -> int:
    """Copy a file if there is room for it; its size."""
    descriptor = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        about = os.fstat(descriptor)
        mode = about.st_mode
        if not stat.S_ISREG(mode):
            return 0
        if about.st_size > room:
            return about.st_size
        with target.open("wb") as copy:
            shutil.copyfileobj(file, copy)
    target.chmod(0o755 if mode & 0o111 else 0o644)
    return about.st_size


def take_change(worked: Path, judged: Path) -> tuple[str, list[str]]:
    """Put the files of a clone into a fresh one; the change as a patch, and what it touches.

    What the change itself ignores is left out: caches, environments, built files.

    Raises:
        NotCopied, GitFailed: its files are not what can be judged.
    """
    replace_files(worked, judged)
    git = Git(judged, env=_WHO)
    git("add", "--all", ".", seconds=TREE_S)
    patch = git("diff", "--cached", "--binary", "--no-renames", "HEAD", seconds=TREE_S)
    touched = git.lines("diff", "--cached", "--name-only", "--no-renames", "-z", "HEAD")
    git("clean", "-ffdxq", seconds=TREE_S)
    return patch and patch + "\n", touched


def put_back(judged: Path, touched: Sequence[str], patterns: Sequence[str]) -> list[str]:
    """Restore the files that decide how tests run. Returns those that were changed."""
    found = [path for path in touched if _matches(path, patterns)]
    git = Git(judged, env=_WHO)
    known = set(git.lines("ls-tree", "-r", "-z", "--name-only", "HEAD")) if found else set()
    for path in found:
        _make_way(judged, path)
        if path in known:
            git("checkout", "--quiet", "HEAD", "--", f":(literal){path}")
    return found


def _make_way(judged: Path, path: str) -> None:
    """Remove a file. An agent may have put a link or a file in place of a folder above it."""
    at = judged
    for part in PurePosixPath(path).parts[:-1]:
        at /= part
        if at.is_symlink() or not at.is_dir():
            at.unlink(missing_ok=True)
            return
    remove_file(judged / path)


def _matches(path: str, patterns: Sequence[str]) -> bool:
    name = path.rpartition("/")[2]
    return any(fnmatch.fnmatchcase(path if "/" in each else name, each) for each in patterns)


def apply_solution(task: EvalTask, folder: Path) -> None:
    """Make the known change in a clone. Raises Invalid."""
    patch, overlay = task.folder / SOLUTION_PATCH, task.folder / SOLUTION
    if not patch.is_file() and not overlay.is_dir():
        raise Invalid(
            f"Task {task.name!r} has no known solution.",
            remedy=f"Add {SOLUTION_PATCH} or a folder {SOLUTION}/, or leave out the arm oracle.",
        )
    if patch.is_file():
        apply_patch(folder, patch)
    if overlay.is_dir():
        copy_files(overlay, folder)


def apply_patch(folder: Path, patch: Path) -> None:
    """Apply a patch to the files of a repository. Raises GitFailed."""
    Git(folder, env=_WHO)("apply", "--whitespace=nowarn", str(patch))


def touched_by_solution(task: EvalTask) -> set[str]:
    """Return the files that the known solution changes, as its patch or folder names them."""
    overlay, patch = task.folder / SOLUTION, task.folder / SOLUTION_PATCH
    found = (
        {str(path) for path, kind in _tree(overlay) if kind != "dir"} if overlay.is_dir() else set()
    )
    if patch.is_file():
        for line in patch.read_text("utf-8", "surrogateescape").splitlines():
            if line.startswith(("+++ b/", "--- a/")):
                found.add(line[6:].split("\t")[0])
    return found


def remove_file(path: Path) -> None:
    """Remove a file, link or folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        remove_tree(path)
    else:
        path.unlink(missing_ok=True)


def remove_tree(path: Path) -> None:
    """Remove a folder, if it is there. Agents made it: it may be very deep. Raises OSError."""
    try:
        shutil.rmtree(path)
    except FileNotFoundError:
        return
    except (OSError, RecursionError):
        _remove_deep(path)


def _remove_deep(path: Path) -> None:
    """Remove a folder whose depth is more than Python's own function can do."""
    words = ["rm", "-rf", "--", str(path)]
    try:
        done = subprocess.run(  # noqa: S603 - no shell, our own words
            words, stdin=subprocess.DEVNULL, capture_output=True, timeout=TREE_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise OSError(f"{path} could not be removed within {TREE_S:g} s.") from None
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip()
        raise OSError(f"{path} could not be removed: {said[-300:]}")
