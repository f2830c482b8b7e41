"""One random state, taken through stops, deletions, resumes and the doctor; nothing may be lost."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bullpen.agents.work.tree_cleanup import TreeEnd
from bullpen.errors import BullpenError, Refused
from bullpen.protocol.names import LEAD
from bullpen.workspace.removal.remove import remove
from bullpen.workspace.snapshots.save import save, saved
from bullpen.workspace.trees.restore import restore
from bullpen.workspace.trees.set_aside import aside_of, done_with
from support.git.repositories import git

from .census import Census, census, differences
from .scenery import TEAM, Scene
from .troubles import TROUBLES

_OPS = ("stop", "save", "resume", "doctor", "remove", "delete", "trouble")


@dataclass
class Play:
    """One state: its scene, its dice, and who is in which tree."""

    scene: Scene
    dice: random.Random
    notes: list[str] = field(default_factory=list)
    users: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    locked: set[str] = field(default_factory=set)
    # What was found after the last step, of the trees and of the user's things.
    known: dict[str, tuple[int, Census]] = field(default_factory=dict)
    before: Mapping[str, object] | None = None
    checked: int = 0

    async def run(self) -> None:
        """Make the trees, bring them into trouble, clean up in random order."""
        dice = self.dice
        kinds = {f"a{n}": dice.choice(("worktree", "worktree", "clone")) for n in range(2)}
        await self.scene.make_team(kinds)
        for name in kinds:
            self._into_trouble(name)
        with self._company():
            for op in dice.choices(_OPS, k=dice.randrange(1, 4)):
                await self._step(op)
            await self._step("delete")
            await self._step("doctor")
        for name in self.locked:
            git(self.scene.project, "worktree", "unlock", self.scene.trees[name].path)
        self.locked.clear()
        await self._step("doctor")
        assert not self._there(), (self._there(), self.notes)

    def _there(self) -> list[str]:
        """Whose trees there are."""
        return [name for name, tree in self.scene.trees.items() if os.path.lexists(tree.path)]

    def _into_trouble(self, name: str) -> None:
        path = Path(self.scene.trees[name].path)
        for trouble in self.dice.sample(TROUBLES, self.dice.randrange(0, 6)):
            self.notes.append(f"{name}: {trouble.__name__}")
            trouble(self.dice, path)

    @contextmanager
    def _company(self) -> Iterator[None]:
        """Some trees are locked, and in some there is somebody."""
        for name, tree in self.scene.trees.items():
            if self.dice.random() < 0.15 and tree.kind == "worktree":
                git(self.scene.project, "worktree", "lock", "--reason", "mine", tree.path)
                self.locked.add(name)
                self.notes.append(f"{name}: locked")
            if self.dice.random() < 0.25:
                self.users[name] = _somebody(self.dice, Path(tree.path))
                self.notes.append(f"{name}: in use")
        try:
            yield
        finally:
            for user in self.users.values():
                user.kill()
                user.wait(10)
            self.users.clear()

    async def _step(self, op: str) -> None:
        scene = self.scene
        if op == "trouble":
            for name in self._there():
                self._into_trouble(name)
            self.known.clear()
            self.before = None
            return
        before = {name: self._seen(name) for name in scene.trees}
        users = self.before or scene.users
        self.notes.append(op)
        await self._do(op)
        self.before = scene.users
        assert self.before == users, _changed(users, self.before)
        for name, found in before.items():
            if found is not None:
                self._nothing_lost(name, *found)

    def _seen(self, name: str) -> tuple[int, Census] | None:
        """What is in a tree now. A step that left it in its place was seen to change nothing."""
        path = Path(self.scene.trees[name].path)
        if not path.is_dir():
            return None
        inode = path.stat().st_ino
        known = self.known.get(name)
        if known is None or known[0] != inode:
            self.known[name] = (inode, census(path))
        return self.known[name]

    async def _do(self, op: str) -> None:
        scene = self.scene
        if op == "delete":
            await scene.app.delete_team(TEAM, by=LEAD, force=True, told=self._told)
        elif op == "doctor":
            findings = await scene.app.examine(None, fix=True)
            self.notes += [each.action for each in findings if not each.fixed]
        elif op == "stop" and await scene.app.teams.names():
            await scene.app.supervisor(TEAM).stop_all(by=LEAD, reason="a test")
        elif op == "resume" and await scene.app.teams.names():
            for name, tree in scene.trees.items():
                scene.prepare(name, tree)
        elif op == "save":
            for name in self._there():
                save(Path(scene.trees[name].path), team=TEAM, agent=name, why="a test")
        elif op == "remove":
            name = self.dice.choice(list(scene.trees))
            expected = name in self.users or name in self.locked
            try:
                remove(scene.trees[name], team=TEAM, agent=name, owner=scene.owner, why="a test")
            except Refused as error:
                assert expected and error.reason in ("tree_in_use", "tree_locked"), error
            else:
                assert name not in self._there()

    def _told(self, end: TreeEnd) -> None:
        if end.removed is None:
            self.notes.append(end.why)

    def _nothing_lost(self, name: str, inode: int, was: Census) -> None:
        """What was in a tree is still there, or is brought back byte for byte."""
        self.checked += 1
        path = Path(self.scene.trees[name].path)
        if path.is_dir() and path.stat().st_ino == inode:
            found = differences(was, census(path))
            assert not found, "\n".join(["changed in place", *found])
            return
        assert name not in self.users and name not in self.locked, f"{name} was taken away"
        assert not os.path.lexists(aside_of(path)) and not os.path.lexists(done_with(path))
        git(self.scene.project, "prune", "--expire=now")
        back = self.scene.folder / f"back-{self.checked}"
        rows = saved(self.scene.project, TEAM, name)
        tried = []
        for row in reversed(rows):
            restored = restore(self.scene.project, row.ref, back)
            found = differences(was, census(restored.path))
            _forget(self.scene.project, back)
            if not found:
                return
            tried += [row.ref, *found]
        found = _by_git_alone(self.scene.project, was, back)
        assert not found, "\n".join(["lost", *tried, "by git alone", *found])


def _by_git_alone(project: Path, was: Census, back: Path) -> list[str]:
    """How a tree that had nothing of its own differs from what git checks out."""
    head = was.says["the tree: head"]
    git(project, "worktree", "add", "--quiet", "--detach", str(back), head)
    git(back, "submodule", "--quiet", "update", "--init", "--recursive", ok=False)
    _modules_without_a_list(project, back)
    again = census(back)
    _forget(project, back)
    # A sparse tree has less than git checks out.
    files = {name: again.files.get(name, ("nothing", b"")) for name in was.files}
    return differences(
        Census(was.files, was.folders, {}), Census(files, again.folders & was.folders, {})
    )


def _modules_without_a_list(project: Path, back: Path) -> None:
    """Fill submodules from where the user's repository keeps them, if `.gitmodules` is no list."""
    if (back / ".gitmodules").is_file():
        return
    for row in git(back, "ls-files", "--stage").splitlines():
        about, _, name = row.partition("\t")
        mode, commit, _ = about.split(" ")
        kept, there = project / ".git" / "modules" / name, back / name
        if mode == "160000" and kept.is_dir() and not any(there.iterdir()):
            apart = back.with_name(f"{back.name}-{name}.git")
            words = ("--quiet", "--no-checkout", f"--separate-git-dir={apart}")
            git(back, "clone", *words, str(kept), str(there))
            git(there, "checkout", "--quiet", "--detach", commit)


def _forget(project: Path, back: Path) -> None:
    if (back / ".git").is_file():
        git(project, "worktree", "remove", "--force", str(back))
    else:
        shutil.rmtree(back)


def _somebody(dice: random.Random, tree: Path) -> subprocess.Popen[bytes]:
    """A process in a tree: it stands there, or has a file open."""
    if dice.random() < 0.5:
        return subprocess.Popen(["sleep", "300"], cwd=tree)
    with open(tree / "held", "wb") as file:
        return subprocess.Popen(["sleep", "300"], stdin=file, cwd="/")


def _changed(before: object, after: object) -> str:
    if isinstance(before, dict) and isinstance(after, dict):
        parts = [
            f"{key}: {_changed(before.get(key), after.get(key))}"
            for key in before.keys() | after.keys()
            if before.get(key) != after.get(key)
        ]
        return "the user's things changed: " + "; ".join(parts)
    return f"{before!r} -> {after!r}"


def said(error: BaseException) -> str:
    """What went wrong, for the message of a test."""
    return str(error) if isinstance(error, BullpenError | AssertionError) else repr(error)
