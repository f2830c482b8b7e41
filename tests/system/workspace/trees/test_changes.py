"""What a member changed, as a screen shows it: from real worktrees."""

from __future__ import annotations

from pathlib import Path

import pytest

from bullpen.app.app import App
from bullpen.app.settings import settings_from
from bullpen.doors.actions import changes as member_diffs
from bullpen.doors.actions.changes import Changes, member_changes
from bullpen.errors import NotFound
from bullpen.protocol.agent import AgentSpec, ProcessRecord
from bullpen.protocol.names import LEAD
from bullpen.sandbox import git_box
from bullpen.store.memory import MemoryStore
from bullpen.workspace.removal.remove import remove
from bullpen.workspace.trees import changes as tree_changes
from bullpen.workspace.trees.changes import changes_in_tree
from bullpen.workspace.trees.tree import plan, prepare
from support.git.canaries import Scene
from support.git.repositories import commit, git, write
from support.git.yard import OWNER, TEAM, Yard


class Desk:
    """A team with one agent in a worktree, and what a screen shows of its work."""

    def __init__(self, yard: Yard, app: App) -> None:
        self.yard, self.app = yard, app

    async def changes(self, name: str = "ann", task: str | None = None) -> Changes:
        return await member_changes(self.app, TEAM, name, task=task)

    async def agent(self, name: str, *, kind: str = "worktree", host: str | None = None) -> None:
        yard = self.yard
        workspace = plan(kind, yard.project, team=TEAM, agent=name)  # type: ignore[arg-type]
        ready = prepare(workspace, team=TEAM, agent=name, owner=OWNER)
        yard.trees[name] = workspace
        spec = AgentSpec.new(
            driver="native", backend="subprocess", cwd=ready.cwd, workspace=workspace
        )
        made = await yard.team.agents.register(name, spec, by=LEAD, nonce=f"nonce-{name}")
        if host is not None:
            place = ProcessRecord.new(backend="subprocess", host=host)
            await yard.team.agents.placed(name, nonce=made.agent.nonce, place=place)


@pytest.fixture
async def desk(tmp_path: Path) -> Desk:
    store = MemoryStore()
    files = {"a.txt": "one\ntwo\n", "gone.txt": "x\n"}
    yard = await Yard.make(tmp_path, store, files=files, gate="true")
    home = tmp_path / "home"
    settings = settings_from({"BULLPEN_HOME": str(home)}, home=home)
    made = Desk(yard, App(settings, {}, store=store))
    await made.agent("ann")
    return made


def shown(found: Changes) -> dict[str, tuple[str, str]]:
    return {file.path: (file.counts, file.note) for file in found.files}


async def test_a_worktree_shows_commits_edits_and_new_files_since_its_base(desk: Desk) -> None:
    tree = desk.yard.tree("ann")
    commit(tree, {"b.txt": "b\n"})
    write(tree, {"a.txt": "one\n2\n", "new/c.txt": "c\nd", "bin": "\0", ".gitignore": "ignored\n"})
    write(tree, {"ignored": "x", "odd\u202e\n.txt": "x\n"})
    (tree / "gone.txt").unlink()
    (tree / "link").symlink_to("/etc/passwd")
    # What others merge since is not this member's work.
    desk.yard.user_commits({"theirs.txt": "t\n"})
    found = await desk.changes()
    assert found.title == "Worktree of ann"
    assert found.base == git(desk.yard.project, "rev-parse", "main~1")[:12]
    assert shown(found) == {
        ".gitignore": ("+1 -0", "new file"),
        "a.txt": ("+1 -1", ""),
        "b.txt": ("+1 -0", "new file"),
        "bin": ("+0 -0", "new file, binary"),
        "gone.txt": ("+0 -1", "deleted"),
        "link": ("+1 -0", "new link"),
        "new/c.txt": ("+2 -0", "new file"),
        "odd\\u202e\n.txt": ("+1 -0", "new file"),
    }
    a = next(file for file in found.files if file.path == "a.txt")
    assert [(line.kind, line.old, line.new, line.text) for line in a.lines[1:]] == [
        ("context", 1, 1, "one"), ("removed", 2, None, "two"), ("added", None, 2, "2"),
    ]  # fmt: skip


async def test_the_work_for_a_task_is_compared_with_where_it_began(desk: Desk) -> None:
    yard = desk.yard
    first = await yard.take("ann", "First")
    assert shown(await desk.changes(task=first.id)) == {}
    yard.edit("ann", {"a.txt": "1\ntwo\n"})
    assert shown(await desk.changes(task=first.id)) == {"a.txt": ("+1 -1", "")}
    await yard.finish("ann", first)
    second = await yard.take("ann", "Second")
    yard.edit("ann", {"second.txt": "2\n"})
    handed_in = await desk.changes(task=first.id)
    assert handed_in.title == f"ann: #{first.id} First, queued in the queue"
    assert shown(handed_in) == {"a.txt": ("+1 -1", "")}
    assert list(shown(await desk.changes(task=second.id))) == ["second.txt"]


async def test_merged_work_is_shown_when_the_worktree_is_gone(desk: Desk) -> None:
    yard = desk.yard
    task_id = await yard.work("ann", {"a.txt": "1\ntwo\n"}, "First")
    await yard.drain(yard.queue())
    remove(yard.trees["ann"], team=TEAM, agent="ann", owner=OWNER, why="removed")
    landed = (await yard.record(task_id)).landed
    for found in (await desk.changes(), await desk.changes(task=task_id)):
        assert found.title == f"ann: #{task_id} First, merged as {(landed or '')[:10]}"
        assert shown(found) == {"a.txt": ("+1 -1", "")}


async def test_a_shared_checkout_shows_what_changed_since_the_agent_started(desk: Desk) -> None:
    def at(year: int, files: dict[str, str]) -> str:
        # Git's log of HEAD has only seconds.
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("GIT_COMMITTER_DATE", f"{year}-01-01T00:00:00Z")
            return commit(desk.yard.project, files)

    git(desk.yard.project, "reflog", "expire", "--expire=all", "HEAD")
    base = at(2020, {"theirs.txt": "t\n"})
    await desk.agent("bob", kind="shared")
    at(2099, {"b.txt": "b\n"})
    write(desk.yard.project, {"a.txt": "one\n"})
    found = await desk.changes("bob")
    assert shown(found) == {"a.txt": ("+0 -1", ""), "b.txt": ("+1 -0", "new file")}
    assert (found.title, found.base) == ("Changes in project", base[:12])
    assert found.note.startswith("Since the agent started. Others who work here ")
    git(desk.yard.project, "checkout", "--quiet", "--orphan", "other")
    at(2099, {})
    assert (await desk.changes("bob")).note.startswith("Since the last commit.")


async def test_a_screen_is_told_why_there_is_nothing_to_see(desk: Desk) -> None:
    await desk.agent("cal", host="far-away")
    assert (await desk.changes("cal")).note == "cal runs on far-away: its files are there"
    remove(desk.yard.trees["ann"], team=TEAM, agent="ann", owner=OWNER, why="removed")
    assert (await desk.changes()).note == "The worktree of ann is gone, and nothing was handed in"
    with pytest.raises(NotFound):
        await desk.changes("nobody")
    with pytest.raises(NotFound):
        await desk.changes(task="99")


async def test_big_changes_are_counted_but_not_shown(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree_changes, "FILE_LINES_MAX", 5)
    write(desk.yard.tree("ann"), {"a.txt": "x\n" * 10, "gone.txt": "y\n"})
    write(desk.yard.tree("ann"), {"huge.txt": "x" * 300_000})
    assert shown(await desk.changes()) == {
        "a.txt": ("+10 -2", "12 more lines"),
        "gone.txt": ("+1 -1", ""),
        "huge.txt": ("+0 -0", "new file, 300000 bytes, not shown"),
    }
    commit(desk.yard.tree("ann"), {"large": "x\n" * 800_000})
    found = changes_in_tree(desk.yard.tree("ann"), "main")
    assert next(f for f in found.files if f.path == "large").added is None


async def test_a_new_file_behind_a_link_is_not_read(desk: Desk, tmp_path: Path) -> None:
    """Between the list and the look, an agent may put a link in place of a folder."""
    tree = desk.yard.tree("ann")
    (tmp_path / "private").mkdir()
    write(tmp_path / "private", {"key": "secret\n"})
    (tree / "folder").symlink_to(tmp_path / "private")
    (found,), _ = member_diffs._new_files(tree, ["folder/key"])
    assert found.lines == () and "cannot be read" in found.note


@pytest.mark.parametrize("form", ["plain", "linked"])
def test_a_look_runs_no_program_that_the_repository_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.setattr(git_box, "_program", lambda path: None)
    scene = Scene.make(tmp_path / "scene")
    before = (scene.places[form] / "a.txt").read_text()
    found = changes_in_tree(scene.places[form], "HEAD")
    assert "a.txt" in {file.path for file in found.files} and found.diff
    assert scene.canaries.sung == []
    assert (scene.places[form] / "a.txt").read_text() == before
