"""Making a tree ready, step by step. What was done is marked, so that the rest is done later."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bullpen.errors import Refused, Unavailable
from bullpen.protocol.workspace import Workspace
from bullpen.workspace.git import TREE_S, Git, GitFailed
from bullpen.workspace.marks import Mark, put_mark
from bullpen.workspace.modules import fetch_modules, fill_modules
from bullpen.workspace.surroundings import run_in

# With less than this left, that is why a file could not be written.
_ROOM_MIN = 16 << 20
_ROOM_FILES_MIN = 16

HOOK_S = 600.0
"""How long the user's hook may take."""


@dataclass(frozen=True, slots=True)
class Filling:
    """What is done in one tree.

    `env` is what its agent is told of its surroundings; commands of the user's get it on top of
    `environ`. `held` is the lock of the tree: git and those commands hold it as long as they run.
    """

    workspace: Workspace
    git_dir: Path
    env: Mapping[str, str]
    environ: Mapping[str, str] | None
    held: int

    @property
    def tree(self) -> Path:
        """The top of the tree."""
        return Path(self.workspace.path)

    def fill(self, mark: Mark) -> Mark:
        """Do all that is left to do but the set-up; the new mark.

        Raises:
            Refused: a submodule cannot be had (submodule_missing), or the user's hook failed
                (hook_failed).
            Unavailable: git failed, or there is no room.
        """
        steps = {
            "files": self._files,
            "restore": self._restore,
            "modules": self._modules,
            "hook": self._hook,
        }
        while mark.todo and mark.todo[0] in steps:
            try:
                steps[mark.todo[0]]()
            except GitFailed as error:
                raise no_room(error, self.tree) from None
            mark = put_mark(self.git_dir, mark.evolve(todo=mark.todo[1:]))
        return mark

    def set_up(self, mark: Mark) -> Mark:
        """Run the user's command that makes a tree ready, if it was not yet; the new mark.

        Raises:
            Refused: it failed, or took too long (setup_failed).
        """
        if "setup" not in mark.todo:
            return mark
        command, limit_s = self.workspace.setup, self.workspace.setup_s
        if command is not None:
            what = f"The set-up command {command!r}"
            self._run(["/bin/sh", "-c", command], what, "setup_failed", limit_s)
        return put_mark(self.git_dir, mark.evolve(todo=[]))

    def _files(self) -> None:
        # Git writes the index last: with one, all files were there once and may be changed by now.
        if (self.git_dir / "index").exists():
            return
        self._drop_dead_lock()
        self._git("reset", "--hard", "--quiet", seconds=TREE_S)

    def _restore(self) -> None:
        """Bring back what the index names, staged changes too, but no files in conflict."""
        self._drop_dead_lock()
        words = ("checkout-index", "--all", "--force", "--index", "--quiet")
        ran = self._git.run(*words, seconds=TREE_S)
        if not ran.ok and not self._git("ls-files", "--unmerged"):
            raise GitFailed(words, ran.code, ran.err, str(self.tree))

    def _modules(self) -> None:
        users = Path(self.workspace.repository)
        if users.is_absolute():
            fill_modules(self.tree, users, (self.held,))
        else:
            fetch_modules(self.tree)

    def _hook(self) -> None:
        """Run the user's hook as `git worktree add` would have."""
        git = Git(self.tree, hooks=True)
        place = git("rev-parse", "--path-format=absolute", "--git-path", "hooks/post-checkout")
        if not os.path.exists(place):
            return
        head = git("rev-parse", "HEAD")
        words = ["git", "hook", "run", "post-checkout", "--"]
        argv = [*words, "0" * len(head), head, "1"]
        self._run(argv, "The hook post-checkout", "hook_failed", HOOK_S)

    @property
    def _git(self) -> Git:
        return Git(self.tree, keep=(self.held,))

    def _drop_dead_lock(self) -> None:
        """Remove what a git left that was killed: nobody else works in a tree that is not ready."""
        with suppress(FileNotFoundError):
            os.unlink(self.git_dir / "index.lock")

    def _run(self, argv: Sequence[str], what: str, reason: str, limit_s: float) -> None:
        ran = run_in(
            self.tree, argv, env=self.env, environ=self.environ, seconds=limit_s, held=self.held
        )
        if ran.code == 0:
            return
        how = f"took longer than {limit_s:g} s" if ran.code is None else f"failed with {ran.code}"
        raise Refused(
            f"{what} {how} in {self.tree}: {ran.said or 'it said nothing'}",
            reason=reason,
            remedy="See to what it says, then try again.",
        )


def no_room(error: Unavailable, tree: Path) -> Unavailable:
    """What to say about a git that failed: that there is no room, if that is why."""
    said = error.said if isinstance(error, GitFailed) else ""
    told = "No space left on device" in said or "Disk quota exceeded" in said
    # About files of a tree, git does not say why it could not write them.
    if told or ("unable to write file" in said and _is_full(tree)):
        return Unavailable(
            f"There is no room on the disk for a tree at {tree}.",
            remedy="Make room, or choose a root on another disk, then try again.",
        )
    return error


def _is_full(tree: Path) -> bool:
    there = next(each for each in (tree, *tree.parents) if each.exists())
    found = os.statvfs(there)
    full = found.f_bavail * found.f_frsize < _ROOM_MIN
    return full or (found.f_files > 0 and found.f_favail < _ROOM_FILES_MIN)
