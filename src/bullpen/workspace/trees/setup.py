"""Prepares a worktree step by step. Finished steps are recorded, so that the rest can follow."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bullpen.errors import Refused, Unavailable
from bullpen.protocol.agent import Workspace
from bullpen.workspace.git.marks import TreeMark, put_mark
from bullpen.workspace.git.repository import common_dir, users_hooks
from bullpen.workspace.git.run_git import TREE_S, Git, GitFailed
from bullpen.workspace.git.submodules import fetch_modules, fill_modules
from bullpen.workspace.trees.slots import run_in

# With less space than this, a full disk is why a file could not be written.
_ROOM_MIN = 16 << 20
_ROOM_FILES_MIN = 16

HOOK_S = 600.0
"""How long the user's hook may take."""


@dataclass(frozen=True, slots=True)
class WorktreeSetup:
    """The setup of one worktree.

    `env` is what its agent is told; the user's commands get it in addition to `environ`. `held` is
    the lock of the worktree: git and those commands hold it while they run.
    """

    workspace: Workspace
    git_dir: Path
    env: Mapping[str, str]
    environ: Mapping[str, str] | None
    held: int

    @property
    def tree(self) -> Path:
        """Return the top of the worktree."""
        return Path(self.workspace.path)

    def fill(self, mark: TreeMark) -> TreeMark:
        """Do all remaining steps except the setup command. Returns the new mark.

        Raises:
            Refused: a submodule is not available (submodule_missing), or the user's hook failed
                (hook_failed).
            Unavailable: git failed, or there is no space.
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

    def set_up(self, mark: TreeMark) -> None:
        """Run the user's setup command if it has not run. Raises Refused (setup_failed)."""
        if "setup" not in mark.todo:
            return
        command, limit_s = self.workspace.setup, self.workspace.setup_s
        if command is not None:
            what = f"The setup command {command!r}"
            self._run(["/bin/sh", "-c", command], what, "setup_failed", limit_s)
        put_mark(self.git_dir, mark.evolve(todo=[]))

    def _files(self) -> None:
        # Git writes the index last: if there is one, all files were there once and may have
        # changed.
        if (self.git_dir / "index").exists():
            return
        self._drop_dead_lock()
        self._git("reset", "--hard", "--quiet", seconds=TREE_S)

    def _restore(self) -> None:
        """Restore what the index names, including staged changes, but no conflicting files."""
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
        """Run the user's hook as `git worktree add` would.

        It is the hook in the git dir, or in the folder that the user configured for all
        repositories. A folder that the repository's settings name is most often in the worktree,
        where agents write.
        """
        folder = users_hooks(self.tree) or common_dir(self.tree) / "hooks"
        hook = folder / "post-checkout"
        if not os.access(hook, os.X_OK):
            return
        head = self._git("rev-parse", "HEAD")
        argv = [str(hook), "0" * len(head), head, "1"]
        self._run(argv, "The post-checkout hook", "hook_failed", HOOK_S)

    @property
    def _git(self) -> Git:
        return Git(self.tree, keep=(self.held,))

    def _drop_dead_lock(self) -> None:
        """Remove the lock of a killed git: nobody else works in an unready worktree."""
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
            f"{what} {how} in {self.tree}: {ran.said or 'it printed nothing'}",
            reason=reason,
            remedy="Fix what it reports, then try again.",
        )


def no_room(error: Unavailable, tree: Path) -> Unavailable:
    """Return the error for a failed git: that the disk is full, if that is the cause."""
    said = error.said if isinstance(error, GitFailed) else ""
    told = "No space left on device" in said or "Disk quota exceeded" in said
    # For files of a worktree, git does not say why it could not write them.
    if told or ("unable to write file" in said and _is_full(tree)):
        return Unavailable(
            f"There is no disk space for a worktree at {tree}.",
            remedy="Free some space, or choose a root on another disk, then try again.",
        )
    return error


def _is_full(tree: Path) -> bool:
    there = next(each for each in (tree, *tree.parents) if each.exists())
    found = os.statvfs(there)
    full = found.f_bavail * found.f_frsize < _ROOM_MIN
    return full or (found.f_files > 0 and found.f_favail < _ROOM_FILES_MIN)
