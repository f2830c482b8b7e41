"""Ticks the box of a task in the file that it came from, in the commit that merges its work."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from bullpen.protocol.task import Task
from bullpen.workspace.git.checkboxes import file_in, with_text
from bullpen.workspace.git.run_git import Git
from bullpen.workspace.git.task_commits import with_author
from bullpen.workspace.merge_queue.land import Target


@dataclass(frozen=True, slots=True)
class Box:
    """Where the box of a task is: a path in the repository, and how its text is ticked.

    `ticked` returns None if the text has no such box, or it is not empty.
    """

    path: str
    ticked: Callable[[str], str | None]


Boxes = Callable[[Task], Box | None]
"""Returns the box that a task came from; None if it came from none."""


def no_boxes(task: Task) -> Box | None:
    """Tick nothing."""
    return None


@dataclass(slots=True)
class Ticks:
    """The boxes of a team's tasks, and the checkout in which the target is, if any.

    A file with uncommitted changes there is left alone: a tick would be in their way.
    """

    boxes: Boxes
    checkout: Path | None
    # The files in which a box was ticked.
    paths: set[str]
    _changed: dict[str, bool] = field(default_factory=dict)

    def tree_with(self, git: Git, tree: str, task: Task) -> str | None:
        """Return a tree with the box of a task ticked; None if there is nothing to tick."""
        box = self.boxes(task)
        file = None if box is None else file_in(git, tree, box.path)
        text = None if box is None or file is None else box.ticked(file.text)
        if box is None or text is None or self._is_changed(box.path):
            return None
        self.paths.add(box.path)
        return with_text(git, tree, box.path, text)

    def _is_changed(self, path: str) -> bool:
        if self.checkout is None:
            return False
        if path not in self._changed:
            words = ("--literal-pathspecs", "status", "--porcelain", "-z", "--", path)
            # Without the optional lock, git does not rewrite the index, which is the user's.
            ran = Git(self.checkout).with_env(GIT_OPTIONAL_LOCKS="0").run(*words)
            self._changed[path] = not ran.ok or bool(ran.out)
        return self._changed[path]


def late_ticks(
    git: Git, target: Target, tasks: Iterable[Task], boxes: Boxes, *, author: str | None
) -> str | None:
    """Return a commit on the target that ticks what is open of these tasks; None if nothing is.

    Raises:
        GitFailed: git fails.
        Invalid: the configured author is not `Name <address>`.
    """
    ticks, tree = Ticks(boxes, target.tree, set()), target.commit_tree
    for task in tasks:
        tree = ticks.tree_with(git, tree, task) or tree
    if tree == target.commit_tree:
        return None
    words = ("-p", target.commit, "-m", "Tick the boxes of finished tasks")
    return with_author(git, author, agent="bullpen")("commit-tree", tree, *words)
