"""The worktree that work is tested in: exactly the files of one commit each time."""

from __future__ import annotations

import json
import os
import shutil
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from bullpen.errors import Refused, Unavailable
from bullpen.workspace.git.marks import locked, write_errors, write_whole
from bullpen.workspace.git.run_git import TREE_S, Git, GitFailed
from bullpen.workspace.git.submodules import fill_modules, links_in

_MARK = "bullpen-merge.json"
_KEPT = "bullpen-kept.json"
_LOCK_S = 10.0
_POLL_S = 0.05


class TestTree:
    """A test worktree at `path`. Only the holder of the queue's lock may use it. It blocks.

    Everything that tests leave behind, ignored files included, is removed before the next commit is
    checked out; what the setup command created stays. Its list is kept where tests cannot write.
    """

    def __init__(self, repository: Git, common: Path, path: Path, *, owner: str) -> None:
        self.path = path
        self._repository = repository
        self._common = common
        self._owner = owner
        self._git = repository.at(path)
        self._dir: Path | None = None

    @property
    def is_set_up(self) -> bool:
        """Return whether the setup command ran in the existing worktree."""
        found = self._found()
        return found is not None and (found / _KEPT).exists()

    def put(self, commit: str) -> None:
        """Check out exactly the files of a commit, and keep what the setup created.

        Raises:
            Unavailable: it is not possible, for example for lack of space.
            Refused: path_taken, if something else is in its place; submodule_missing.
        """
        made = self._found() is None
        with write_errors(self.path):
            if made:
                self._make(commit)
            try:
                self._put(commit)
            except GitFailed as error:
                if made or "No space left" in error.said:
                    raise
                # Whatever is in the way can go: nothing in here belongs to anybody.
                self.remove()
                self._make(commit)
                self._put(commit)

    def keep(self) -> None:
        """Keep everything besides the commit's files: the setup created it."""
        names = self._own("ls-files", "--others", "--directory", "-z").split("\0")
        text = json.dumps([name for name in names if name])
        write_whole(self._dir_there() / _KEPT, text.encode())

    def remove(self) -> None:
        """Remove the worktree, if there is one. Nothing in it belongs to anybody."""
        found = self._found()
        self._dir = None
        if found is None:
            return
        # Moved away in one step: if this is killed, nothing half-removed is left in its place.
        _remove_all(self._aside)
        os.rename(self.path, self._aside)
        _remove_all(found)
        _remove_all(self._aside)

    @property
    def _aside(self) -> Path:
        return self.path.with_name(f"{self.path.name}.old")

    def _put(self, commit: str) -> None:
        self._wait_for_git()
        words = ("checkout", "--quiet", "--force", "--detach", "--no-recurse-submodules", commit)
        self._own(*words, seconds=TREE_S)
        kept = [word for name in self._kept() for word in ("-e", _pattern(name))]
        self._own("clean", "-ffdxq", *kept, seconds=TREE_S)
        # Tests that ask git get true answers, and cannot change this index.
        there = self._dir_there()
        shutil.copyfile(there / "bullpen-index", there / "index.bullpen-new")
        os.replace(there / "index.bullpen-new", there / "index")
        if (self.path / ".gitmodules").exists():
            self._submodules()

    def _own(self, *words: str, seconds: float = TREE_S) -> str:
        index = str(self._dir_there() / "bullpen-index")
        return self._git.with_env(GIT_INDEX_FILE=index)(*words, seconds=seconds)

    def _dir_there(self) -> Path:
        found = self._found()
        if found is None:
            raise Unavailable(
                f"{self.path} disappeared.",
                remedy="Let the queue continue: it creates the worktree again.",
            )
        return found

    def _found(self) -> Path | None:
        """Return the git dir of the worktree, if it exists and is Bullpen's."""
        if self._dir is not None and self._dir.is_dir() and (self.path / ".git").is_file():
            return self._dir
        self._dir = None
        for place in self._common.glob("worktrees/*/gitdir"):
            with suppress(OSError):
                if place.read_text(encoding="utf-8").strip() == str(self.path / ".git"):
                    ours = (place.parent / _MARK).exists()
                    if ours and (self.path / ".git").is_file():
                        self._dir = place.parent
        return self._dir

    def _make(self, commit: str) -> None:
        self._clear_way()
        _remove_all(self._aside)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        words = ("--force", "--force", "--detach", "--no-checkout")
        with locked(self._common / "bullpen.lock", f"the worktrees of {self._repository.where}"):
            self._repository("worktree", "add", *words, str(self.path), commit, seconds=TREE_S)
        own = Path(self._git("rev-parse", "--absolute-git-dir"))
        write_whole(own / _MARK, json.dumps({"owner": self._owner}).encode())
        self._dir = own

    def _clear_way(self) -> None:
        """Make sure that its place is empty, except for what a killed process left."""
        if not self.path.exists():
            return
        names = os.listdir(self.path)
        if names == [".git"] and (self.path / ".git").is_file():
            (self.path / ".git").unlink()
        elif names:
            raise Refused(
                f"{self.path} already exists and is not a worktree of this queue.",
                reason="path_taken",
                remedy="Move it away.",
            )

    def _kept(self) -> list[str]:
        try:
            text = (self._dir_there() / _KEPT).read_text(encoding="utf-8")
            return [str(name) for name in json.loads(text)]
        except FileNotFoundError:
            return []

    def _wait_for_git(self) -> None:
        """Wait for a git that a killed queue left running, and remove its locks."""
        there = self._dir_there()
        until = time.monotonic() + _LOCK_S
        for name in ("bullpen-index.lock", "index.lock", "HEAD.lock"):
            lock = there / name
            while lock.exists() and _age(lock) < _LOCK_S and time.monotonic() < until:
                time.sleep(_POLL_S)
            lock.unlink(missing_ok=True)

    def _submodules(self) -> None:
        """Check out the submodules of the user's checkout at this commit, all fresh."""
        for name, _ in links_in(self.path, "HEAD"):
            _remove_all(self.path / name)
            (self.path / name).mkdir(parents=True)
        _remove_all(self._dir_there() / "modules")
        fill_modules(self.path, self._repository.where, ())


def _age(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return _LOCK_S


def _pattern(name: str) -> str:
    """Return a pattern that matches only this path."""
    escaped = "".join(f"\\{char}" if char in "\\*?[]!# " else char for char in name)
    return f"/{escaped}"


def _remove_all(path: Path) -> None:
    """Remove a folder and everything in it; links are not followed."""

    def make_writable(function: Callable[..., object], name: str, _: object) -> None:
        # Tests create folders that nobody may write to.
        for each in (os.path.dirname(name), name):
            with suppress(OSError):
                if not os.path.islink(each):
                    os.chmod(each, stat.S_IRWXU)
        function(name)

    try:
        shutil.rmtree(path, onerror=make_writable)
    except FileNotFoundError:
        return
    except OSError as error:
        raise Unavailable(
            f"{path} cannot be removed: {error.strerror or error}.", remedy="Remove it."
        ) from None
