"""Everything that Bullpen does with repositories, while all their settings name programs."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest

from bullpen.errors import BullpenError
from bullpen.sandbox import git_box
from bullpen.store.memory import MemoryStore
from bullpen.workspace.git.layout import layout_of, repository_dir
from bullpen.workspace.git.repository import (
    checkout_of,
    commit_of,
    is_changed,
    repository_at,
    superproject,
)
from bullpen.workspace.git.run_git import Git
from bullpen.workspace.git.submodules import check_modules, dirty_modules, fetch_modules
from bullpen.workspace.handover.hand_in import begin, hand_in
from bullpen.workspace.removal.remove import remove
from bullpen.workspace.shared.edits import alias_of, edits, keep
from bullpen.workspace.snapshots.save import save, saved, verify
from bullpen.workspace.trees.describe import report
from bullpen.workspace.trees.restore import restore
from support.git.canaries import DRIVERS, FILTERS, Canaries, Scene, make_old
from support.git.repositories import git, make_repository
from support.git.yard import OWNER, TEAM, Yard


@pytest.fixture
def without_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings alone must hold."""
    monkeypatch.setattr(git_box, "_program", lambda path: None)


@pytest.mark.parametrize("attributes", [DRIVERS, FILTERS], ids=["drivers", "filters"])
@pytest.mark.usefixtures("without_sandbox")
async def test_a_team_works_merges_and_is_removed_and_no_canary_sings(
    tmp_path: Path, attributes: str
) -> None:
    yard = await Yard.make(tmp_path, MemoryStore())
    await yard.join("ann")
    await yard.join("cleo", kind="clone")
    canaries = Canaries.make(tmp_path / "canaries")
    for place in (yard.project, yard.tree("cleo")):
        canaries.lay(place / ".git" / "config", attributes)
        # This one is the user's own, and runs once for a new worktree.
        (place / ".git" / "hooks" / "post-checkout").unlink()
    for name in ("ann", "cleo"):
        make_old(yard.tree(name).glob("*.*"))
    # With the filters, work is refused: the same must hold for what leads to that.
    for name in ("ann", "cleo"):
        with suppress(BullpenError):
            await yard.work(name, {f"{name}.txt": "work\n", "numbers.txt": f"{name}\n"})
    with suppress(BullpenError):
        for _ in range(3):
            await yard.queue().step()
    with suppress(BullpenError):
        await yard.join("bob")
    with suppress(BullpenError):
        await yard.join("dora", kind="clone")
    for name in os.listdir(yard.tree("ann").parent):
        if (tree := yard.trees.get(name)) is None:
            continue
        yard.edit(name, {"left.txt": "left\n"})
        make_old(yard.tree(name).glob("*.*"))
        assert report(tree, team=TEAM, agent=name).trouble is None
        kept = save(yard.tree(name), team=TEAM, agent=name, why="a test")
        assert kept is not None
        place = repository_dir(yard.tree(name))
        verify(place, kept)
        with suppress(BullpenError):
            restore(place, kept.ref, tmp_path / f"restored-{name}")
        with suppress(BullpenError):
            remove(tree, team=TEAM, agent=name, owner=OWNER, why="a test")
    assert canaries.sung == []
    if attributes == DRIVERS:
        assert "work" in git(yard.project, "-c", "core.pager=cat", "log", "--format=%s", "main")


@pytest.mark.usefixtures("without_sandbox")
def test_looking_at_repositories_of_every_form_lets_no_canary_sing(tmp_path: Path) -> None:
    scene = Scene.make(tmp_path / "scene")
    for where in scene.places.values():
        for look in (
            lambda at: repository_at(at),
            lambda at: layout_of(at),
            lambda at: superproject(at),
            lambda at: checkout_of(at, "main"),
            lambda at: commit_of(at, "other"),
            lambda at: is_changed(at),
            lambda at: edits(str(at), ignored=True),
            lambda at: alias_of(str(at), "st"),
            lambda at: keep(str(at), ["a.txt"], team=TEAM, why="a test"),
            lambda at: list(dirty_modules(at)),
            lambda at: check_modules(at, Git(at)("rev-parse", "HEAD")),
            lambda at: saved(at),
            lambda at: save(at, team=TEAM, agent="ann", why="a test"),
            lambda at: fetch_modules(at),
        ):
            with suppress(BullpenError):
                look(where)
            assert scene.canaries.sung == [], where


async def test_links_in_a_git_dir_do_not_make_git_write_elsewhere(tmp_path: Path) -> None:
    """Git follows a link when it adds to a log or writes a message: an agent could aim it."""
    if git_box._program(os.environ["PATH"]) is None:
        pytest.skip("there is no sandbox here")
    yard = await Yard.make(tmp_path, MemoryStore())
    await yard.join("ann")
    task = await yard.take("ann")
    own = layout_of(yard.tree("ann")).own
    victim = tmp_path / "profile"
    victim.write_text("mine\n")
    for name in ("COMMIT_EDITMSG", "logs/HEAD"):
        (own / name).unlink(missing_ok=True)
        (own / name).symlink_to(victim)
    yard.edit("ann", {"a.txt": "a\n"})
    with pytest.raises(BullpenError):
        hand_in(yard.trees["ann"], task, team=TEAM, agent="ann")
    task = await yard.team.tasks.add("next", by="team-lead")
    with suppress(BullpenError):
        begin(yard.trees["ann"], task, yard.settings, team=TEAM, agent="ann")
    assert victim.read_text() == "mine\n"


def test_files_of_a_worktree_may_have_the_names_of_gits_own(tmp_path: Path) -> None:
    project = make_repository(tmp_path / "project", {"config": "1\n", "hooks/a": "1\n"})
    before = commit_of(project, "main")
    (project / "config").write_text("2\n")
    (project / "hooks" / "b").write_text("2\n")
    here = Git(project)
    here("add", "--all")
    here("commit", "--quiet", "-m", "more")
    here("reset", "--quiet", "--hard", before or "")
    assert (project / "config").read_text() == "1\n"
    assert os.listdir(project / "hooks") == ["a"]


@pytest.mark.usefixtures("without_sandbox")
def test_a_repository_that_names_another_worktree_is_refused(tmp_path: Path) -> None:
    scene = Scene.make(tmp_path / "scene")
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "mine.txt").write_text("mine\n")
    nested = scene.project / "nested"
    with (nested / ".git" / "config").open("a") as file:
        file.write(f"[core]\n\tworktree = {victim}\n")
    for words in (("clean", "-ffdxq"), ("reset", "--quiet", "--hard"), ("status",)):
        with pytest.raises(BullpenError, match="name another worktree"):
            Git(nested).run(*words)
    assert os.listdir(victim) == ["mine.txt"]


def test_no_object_stands_for_another(tmp_path: Path) -> None:
    tree = make_repository(tmp_path / "project")
    true = git(tree, "rev-parse", "HEAD")
    git(tree, "commit", "--quiet", "--allow-empty", "--message", "Another")
    git(tree, "replace", true, "HEAD")
    assert git(tree, "show", "--no-patch", "--format=%s", true) == "Another"
    assert Git(tree)("show", "--no-patch", "--format=%s", true) != "Another"
