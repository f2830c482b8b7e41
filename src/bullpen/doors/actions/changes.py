"""What a member changed, as diffs for a screen: its worktree, or the work for one task."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from anyio import to_thread

from bullpen.agents.system import processes
from bullpen.agents.tools.files.safe_open import folder_of, open_in
from bullpen.app.app import App
from bullpen.errors import BullpenError, NotFound
from bullpen.protocol.agent import AgentFacts, Workspace
from bullpen.protocol.clock import iso
from bullpen.protocol.task import Task
from bullpen.protocol.team import Member
from bullpen.view.diff import DiffLine, FileDiff, bounded, edit_lines, parse_diff
from bullpen.view.text import visible
from bullpen.workspace.git.repository import repository_at
from bullpen.workspace.git.run_git import Git, GitFailed
from bullpen.workspace.trees.changes import (
    FILES_MAX,
    TreeChanges,
    branch_point,
    changes_between,
    changes_in_tree,
    commit_at,
)
from bullpen.workspace.trees.current_task import At, at_of

_NEW_FILE_BYTES_MAX = 256 * 1024
_NEW_BYTES_MAX = 2 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Changes:
    """Changed files, and what they are compared with. `note` says what is not shown."""

    title: str
    base: str | None
    files: tuple[FileDiff, ...]
    note: str = ""


async def member_changes(app: App, team: str, member: str, *, task: str | None = None) -> Changes:
    """What a member changed: for a task, or everything in the place where it works.

    Work for a task is compared with the commit where it began; a worktree of its own with the
    branch that it started from, uncommitted changes included; a shared checkout with the commit
    that was there when the agent was started. If the worktree is gone, it is what the member
    handed in last.

    Raises:
        NotFound: no such team, member or task.
        Unavailable: git fails.
    """
    opened = app.teams.open(team)
    config = await opened.agents.config()
    found = config.member(member)
    wanted = None if task is None else await opened.tasks.get(task)
    if found is None and (wanted is None or wanted.facts.merge is None):
        raise NotFound(
            f"There is no member {member!r} in team {team}.", remedy="See: bullpen team show"
        )
    look = _Look(config.name, member, found, processes.host_name())
    if wanted is not None:
        return await to_thread.run_sync(look.of_task, wanted)
    return await to_thread.run_sync(look.of_member, (await opened.tasks.list()).tasks)


@dataclass(frozen=True, slots=True)
class _Look:
    """Looks at the work of one member, on this machine. Its methods block."""

    team: str
    name: str
    member: Member | None
    host: str

    def of_task(self, task: Task) -> Changes:
        """The work for one task: in the worktree while it is at it, else what was handed in."""
        title = f"{self.name}: #{task.id} {task.subject}"
        merge, tree = task.facts.merge, self._tree
        at = self._at(tree)
        is_here = at is not None and at.task == task.id
        in_hand = merge is not None and merge.state != "returned"
        if tree is not None and at is not None and is_here and not in_hand:
            return _shown(title, changes_in_tree(tree, at.base), tree)
        if merge is not None:
            return self._handed_in(task, title)
        if tree is None or is_here or self._own is None:
            return self.of_member(())
        return Changes(title, None, (), f"The worktree of {self.name} is not at #{task.id} yet")

    def of_member(self, tasks: Sequence[Task]) -> Changes:
        """Everything where the member works, else what it handed in last."""
        tree = self._tree
        if tree is not None:
            at = self._at(tree)
            own = self._own
            if own is not None:
                base = branch_point(tree, own, at) or "HEAD"
                return _shown(f"Worktree of {self.name}", changes_in_tree(tree, base), tree)
            return self._in_checkout(tree)
        work = [task for task in tasks if task.facts.merge and task.facts.merge.by == self.name]
        last = max(work, key=_handed_in_ms, default=None)
        if last is not None:
            return self._handed_in(last, f"{self.name}: #{last.id} {last.subject}")
        return Changes(self.name, None, (), self._why_nothing())

    def _in_checkout(self, tree: Path) -> Changes:
        """What changed in a checkout that others work in too, since the agent was started."""
        began_ms = None if self._agent is None else self._agent.began_ms
        base = None if began_ms is None else commit_at(tree, iso(began_ms))
        since = "Since the agent started" if base else "Since the last commit"
        note = f"{since}. Others who work here may have made some of these changes"
        return _shown(f"Changes in {tree.name}", changes_in_tree(tree, base or "HEAD"), tree,
                      note=note)  # fmt: skip

    @property
    def _agent(self) -> AgentFacts | None:
        return None if self.member is None else self.member.agent

    @property
    def _own(self) -> Workspace | None:
        """Its own worktree or clone."""
        return None if self._agent is None else self._agent.spec.own_tree

    @property
    def _is_elsewhere(self) -> bool:
        place = None if self._agent is None else self._agent.process
        return place is not None and place.host != self.host

    @property
    def _tree(self) -> Path | None:
        """The top of the worktree or checkout where it works, if that is on this machine."""
        if self.member is None or self._is_elsewhere:
            return None
        own = self._own
        if own is not None:
            return Path(own.path) if os.path.lexists(os.path.join(own.path, ".git")) else None
        cwd = self._agent.spec.cwd if self._agent else self.member.cwd
        if not cwd or not os.path.isdir(cwd):
            return None
        try:
            return repository_at(Path(cwd)).top
        except BullpenError:
            return None

    def _at(self, tree: Path | None) -> At | None:
        if tree is None or self._own is None:
            return None
        return at_of(Git(tree), self.team, self.name)

    def _handed_in(self, task: Task, title: str) -> Changes:
        merge = task.facts.merge
        if merge is None:
            return Changes(title, None, (), "Nothing was handed in for it")
        said = f"merged as {merge.landed[:10]}" if merge.landed else f"{merge.state} in the queue"
        pairs = [(merge.base, merge.commit)]
        pairs += [(f"{merge.landed}^1", merge.landed)] if merge.landed else []
        for repository in self._repositories:
            for base, commit in pairs:
                try:
                    return _shown(f"{title}, {said}", changes_between(repository, base, commit))
                except GitFailed:
                    continue
        return Changes(f"{title}, {said}", None, (), "Its commits are not on this machine")

    @property
    def _repositories(self) -> list[Path]:
        """Where its commits may be on this machine."""
        own = None if self._agent is None else self._agent.spec.workspace
        named = [] if own is None else [own.repository, own.path]
        named += [self._agent.spec.cwd] if self._agent else []
        named += [self.member.cwd or ""] if self.member else []
        places = [each for each in named if os.path.isabs(each) and os.path.isdir(each)]
        return [Path(each) for each in dict.fromkeys(places)]

    def _why_nothing(self) -> str:
        if self._is_elsewhere and self._agent is not None and self._agent.process is not None:
            return f"{self.name} runs on {self._agent.process.host}: its files are there"
        if self._own is not None:
            return f"The worktree of {self.name} is gone, and nothing was handed in"
        return "Changes cannot be shown: no git repository."


def _handed_in_ms(task: Task) -> int:
    return 0 if task.facts.merge is None else task.facts.merge.at_ms


def _shown(title: str, found: TreeChanges, tree: Path | None = None, *, note: str = "") -> Changes:
    """The changes as a screen shows them; `tree` is where new files are read."""
    diffs = {file.path: file for file in parse_diff(found.diff)}
    files = []
    for changed in found.files:
        path = visible(changed.path)
        if path in diffs:
            files.append(diffs[path])
            continue
        added, removed = changed.added or 0, changed.removed or 0
        files.append(FileDiff(path, added, removed, (), f"{added + removed} more lines"))
    notes = [note] if note else []
    if len(files) > FILES_MAX:
        notes.append(f"{len(files) - FILES_MAX} more changed files")
        files = files[:FILES_MAX]
    if tree is not None and found.untracked:
        new, left_out = _new_files(tree, found.untracked)
        files += new
        notes += [f"{left_out} more new files"] if left_out else []
    files.sort(key=lambda file: file.path)
    return Changes(visible(title), found.base[:12], tuple(files), visible(". ".join(notes)))


def _new_files(tree: Path, paths: Sequence[str]) -> tuple[list[FileDiff], int]:
    """Files that git does not know yet, and how many are left out."""
    files: list[FileDiff] = []
    left = _NEW_BYTES_MAX
    for path in paths[:FILES_MAX]:
        file, size = _new_file(tree, path, most=min(left, _NEW_FILE_BYTES_MAX))
        left -= size
        files.append(file)
    return files, max(0, len(paths) - FILES_MAX)


def _new_file(tree: Path, path: str, *, most: int) -> tuple[FileDiff, int]:
    """A new file as a diff, and how many bytes of it were read. Links are not followed."""
    shown = visible(path)
    empty = FileDiff(shown, 0, 0, (), "new file")
    real = os.path.join(os.path.realpath(tree), path)
    try:
        with folder_of(real) as (folder, name):
            found = os.lstat(name, dir_fd=folder)
            if stat.S_ISLNK(found.st_mode):
                target = os.readlink(name, dir_fd=folder)
                line = DiffLine("added", None, 1, target)
                return bounded(path, [line], "new link"), len(target)
            if not stat.S_ISREG(found.st_mode):
                return replace(empty, note="new, not a regular file"), 0
            if found.st_size > most:
                return replace(empty, note=f"new file, {found.st_size} bytes, not shown"), 0
            with open(open_in(folder, name, os.O_RDONLY | os.O_NONBLOCK, real=real), "rb") as file:
                data = file.read(most)
    except (OSError, BullpenError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        return replace(empty, note=f"new file, cannot be read: {why}"), 0
    if b"\0" in data:
        return replace(empty, note="new file, binary"), len(data)
    text = data.decode("utf-8", "replace")
    return bounded(path, edit_lines("", text, first=1), "new file"), len(data)
