"""Moving the target while its user is at work: between any two calls of git anything may happen."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from bullpen.errors import Unavailable
from bullpen.sandbox import git_box
from bullpen.store.contract import Committed, Decide
from bullpen.store.memory import MemoryStore
from support.git.repositories import git
from support.git.yard import Yard


def before_git(monkeypatch: pytest.MonkeyPatch, folder: Path, words: str, what: str) -> Path:
    """Have something done by the user just before git is run with certain words, once."""
    real = shutil.which("git")
    done = folder / "done"
    program = folder / "bin" / "git"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\ncase "$*" in *"{words}"*)\n'
        f"if mkdir {done} 2>/dev/null; then ( unset GIT_REFLOG_ACTION; {what} ) >&2; fi;;\n"
        f'esac\nexec {real} "$@"\n'
    )
    program.chmod(0o755)
    # What the user does is not done in the sandbox of Bullpen's git.
    monkeypatch.setattr(git_box, "_program", lambda path: None)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    return done


async def test_a_commit_in_the_last_moment_is_not_lost(
    yard: Yard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(yard.project, "checkout", "--quiet", "-b", "elsewhere")
    await yard.work("ann", {"a.txt": "a\n"})
    commit = "$(git commit-tree -p main -m mine main^{tree})"
    done = before_git(
        monkeypatch, tmp_path, "update-ref -m", f"git update-ref refs/heads/main {commit}"
    )
    stepped = await yard.queue().step()
    assert done.exists()
    assert stepped is not None
    assert stepped.merged == ["1"]
    assert yard.log()[1:] == ["mine", "work"]


async def test_a_commit_in_the_tree_in_the_last_moment_is_not_lost(
    yard: Yard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await yard.work("ann", {"a.txt": "a\n"})
    what = f"cd {yard.project}; git commit -q --allow-empty -m mine"
    done = before_git(monkeypatch, tmp_path, "merge --ff-only", what)
    stepped = await yard.queue().step()
    assert done.exists()
    assert stepped is not None
    assert stepped.merged == ["1"]
    assert yard.log()[1:] == ["mine", "work"]


async def test_a_branch_that_is_switched_in_the_last_moment_is_told_of(
    yard: Yard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await yard.work("ann", {"a.txt": "a\n"})
    what = f"cd {yard.project}; git checkout -q -b other"
    before_git(monkeypatch, tmp_path, "merge --ff-only", what)
    before = yard.target
    with pytest.raises(Unavailable, match="was switched away from main"):
        await yard.queue().step()
    assert yard.target == before
    assert [task.id for task in await yard.team.merges.line()] == ["1"]


async def test_a_branch_that_was_switched_during_the_tests_stays_where_it_is(
    yard: Yard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await yard.work("ann", {"a.txt": "a\n"})
    before_git(
        monkeypatch, tmp_path, "clean -ffdxq", f"cd {yard.project}; git checkout -q -b other"
    )
    before = yard.target
    stepped = await yard.queue().step()
    assert stepped is not None
    assert stepped.merged == ["1"]
    assert git(yard.project, "rev-parse", "other") == before
    assert git(yard.project, "status", "--porcelain") == ""


class BrokenOnce(MemoryStore):
    """A store that cannot be reached for the next commit of one kind."""

    broken: str | None = None

    async def commit(self, team: str, decide: Decide, *, actor: str, op: str) -> Committed:
        if op == self.broken:
            self.broken = None
            raise Unavailable("The store is away.")
        return await super().commit(team, decide, actor=actor, op=op)


async def test_what_is_on_the_target_is_merged_though_nobody_wrote_that_down(
    tmp_path: Path,
) -> None:
    store = BrokenOnce()
    yard = await Yard.make(tmp_path, store)
    await yard.join("ann", "bob")
    await yard.work("ann", {"numbers.txt": "# ann's\n"})
    await yard.work("bob", {"b.txt": "b\n"})
    store.broken = "merge.land"
    told = tmp_path / "told"
    with pytest.raises(Unavailable):
        await yard.queue().step()
    landed = yard.target
    assert yard.log()[1:] == ["work", "work"]
    assert {task.id for task in await yard.team.merges.line()} == {"1", "2"}
    # By now it looks different, and laid there again the work would contradict it.
    yard.user_commits({"numbers.txt": "# the user's\n"})
    stepped = await yard.queue(after=f'echo "$BULLPEN_TASKS" > {told}').step()
    assert stepped is not None
    assert (stepped.merged, stepped.returned) == (["1", "2"], {})
    assert (await yard.record("2")).landed == landed
    assert told.read_text() == "1 2\n"
    assert await yard.queue().step() is None


async def test_the_command_is_run_again_if_nobody_wrote_down_that_it_was(tmp_path: Path) -> None:
    store = BrokenOnce()
    yard = await Yard.make(tmp_path, store)
    await yard.join("ann")
    await yard.work("ann", {"a.txt": "a\n"})
    store.broken = "merge.after"
    queue = yard.queue(after=f'echo "$BULLPEN_TASKS" >> {tmp_path}/told')
    with pytest.raises(Unavailable):
        await queue.step()
    assert (await yard.record("1")).told == "due"
    assert await queue.step() is not None
    assert (tmp_path / "told").read_text() == "1\n1\n"
    assert (await yard.record("1")).told == "ran"
    assert await queue.step() is None
