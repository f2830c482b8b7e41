"""A tree that is brought to a task: nothing of another in it, nothing lost, its own work there."""

from __future__ import annotations

from pathlib import Path

import pytest

from bullpen.errors import Refused
from bullpen.protocol.names import LEAD
from bullpen.store.memory import MemoryStore
from bullpen.workspace.handover.hand_in import begin
from bullpen.workspace.snapshots.save import saved
from bullpen.workspace.trees.restore import restore
from support.git.repositories import add_submodule, commit, git, make_repository, write
from support.git.yard import TEAM, Yard, add_line


async def test_a_task_begins_at_the_newest_target_on_the_agents_branch(yard: Yard) -> None:
    newest = yard.user_commits({"u.txt": "u\n"})
    await yard.take("ann")
    assert git(yard.tree("ann"), "rev-parse", "HEAD") == newest
    assert git(yard.tree("ann"), "symbolic-ref", "HEAD") == "refs/heads/bullpen/crew/ann"
    assert saved(yard.project) == []


async def test_what_is_left_in_the_tree_is_saved_and_is_not_in_the_next_task(
    yard: Yard, tmp_path: Path
) -> None:
    first = await yard.take("ann", "first")
    tree = yard.tree("ann")
    commit(tree, {"done.txt": "half\n"}, "half of it")
    write(tree, {"numbers.txt": "changed\n", "new/deep.txt": "new\n"})
    await yard.team.tasks.release(first.id, by="ann")
    second = await yard.team.tasks.add("second", by=LEAD)
    _, note = await yard.retake("ann", second.id)
    assert git(tree, "status", "--porcelain") == ""
    assert git(tree, "rev-parse", "HEAD") == yard.target
    assert note is not None
    (found,) = saved(yard.project)
    assert found.ref in note
    restore(yard.project, found.ref, tmp_path / "back")
    assert (tmp_path / "back" / "numbers.txt").read_text() == "changed\n"
    assert (tmp_path / "back" / "new" / "deep.txt").read_text() == "new\n"
    assert (tmp_path / "back" / "done.txt").read_text() == "half\n"


async def test_commits_that_nobody_handed_in_are_saved(yard: Yard) -> None:
    first = await yard.take("ann")
    lost = commit(yard.tree("ann"), {"done.txt": "half\n"})
    await yard.team.tasks.release(first.id, by="ann")
    await yard.take("ann")
    (found,) = saved(yard.project)
    assert git(yard.project, "merge-base", "--is-ancestor", lost, found.commit) == ""


async def test_a_rebase_that_was_left_half_way_does_not_stay(yard: Yard) -> None:
    first = await yard.take("ann")
    tree = yard.tree("ann")
    commit(tree, {"numbers.txt": "one\n"})
    git(tree, "checkout", "--quiet", "-b", "side", "HEAD~1")
    commit(tree, {"numbers.txt": "two\n"})
    git(tree, "rebase", "--quiet", "bullpen/crew/ann", ok=False)
    await yard.team.tasks.release(first.id, by="ann")
    await yard.take("ann")
    assert "rebas" not in git(tree, "status")
    assert git(tree, "rev-parse", "HEAD") == yard.target


async def test_what_is_ignored_stays_unless_the_target_has_it(yard: Yard, tmp_path: Path) -> None:
    yard.user_commits({".gitignore": "*.log\n"})
    await yard.work("ann", {"a.txt": "a\n"})
    await yard.queue().step()
    tree = yard.tree("ann")
    write(tree, {"build.log": "kept\n", "clash.log": "mine\n"})
    write(yard.project, {"clash.log": "the target's\n"})
    git(yard.project, "add", "--force", "clash.log")
    git(yard.project, "commit", "--quiet", "-m", "track it")
    await yard.take("ann")
    assert (tree / "build.log").read_text() == "kept\n"
    assert (tree / "clash.log").read_text() == "the target's\n"
    (found,) = saved(yard.project)
    restore(yard.project, found.ref, tmp_path / "back")
    assert (tmp_path / "back" / "clash.log").read_text() == "mine\n"


async def test_after_a_restart_the_tree_of_a_task_is_left_alone(yard: Yard) -> None:
    task = await yard.take("ann")
    write(yard.tree("ann"), {"numbers.txt": "half\n"})
    yard.user_commits({"u.txt": "u\n"})
    assert begin(yard.trees["ann"], task, yard.settings, team=TEAM, agent="ann") is None
    assert (yard.tree("ann") / "numbers.txt").read_text() == "half\n"


async def test_who_takes_the_same_task_again_goes_on_with_its_tree(yard: Yard) -> None:
    task = await yard.take("ann")
    write(yard.tree("ann"), {"numbers.txt": "half\n"})
    await yard.team.tasks.release(task.id, by="ann")
    again, note = await yard.retake("ann", task.id)
    assert again.facts.attempt == 2
    assert note is not None
    assert (yard.tree("ann") / "numbers.txt").read_text() == "half\n"
    handed = await yard.finish("ann", again)
    assert handed is not None
    assert handed.work.ref.endswith("/2")


async def test_work_that_came_back_in_conflict_lies_in_the_tree_with_both_sides_marked(
    yard: Yard,
) -> None:
    task = await yard.take("ann")
    yard.user_commits({"numbers.txt": "# the user's\n"})
    await yard.finish("ann", task, {"numbers.txt": "# ann's\n", "other.txt": "fine\n"})
    await yard.queue().step()
    again, note = await yard.retake("ann", task.id)
    tree = yard.tree("ann")
    assert (tree / "numbers.txt").read_text() == (
        "<<<<<<< the target\n# the user's\n=======\n# ann's\n>>>>>>> task #1\n"
    )
    assert (tree / "other.txt").read_text() == "fine\n"
    assert note is not None
    assert "numbers.txt" in note
    assert git(tree, "rev-parse", "HEAD") == yard.target
    with pytest.raises(Refused) as refused:
        await yard.finish("ann", again)
    assert refused.value.reason == "conflict_markers"
    await yard.finish("ann", again, {"numbers.txt": "# both\n"})
    await yard.queue().step()
    assert yard.at_target("numbers.txt") == "# both"
    assert yard.at_target("other.txt") == "fine"


async def test_files_without_lines_that_contradict_are_told_of(yard: Yard) -> None:
    yard.user_commits({"gone.txt": "x\n", "bin": "\0one"})
    task = await yard.take("ann")
    (yard.project / "gone.txt").unlink()
    yard.user_commits({"bin": "\0user"})
    await yard.finish("ann", task, {"gone.txt": "y\n", "bin": "\0ann"})
    await yard.queue().step()
    again, note = await yard.retake("ann", task.id)
    assert note is not None
    assert "bin" in note
    assert "gone.txt" in note
    record = await yard.record(task.id)
    assert f"git show {record.commit[:12]}:PATH" in note
    assert await yard.finish("ann", again, {"gone.txt": "y\n", "bin": "\0both"}) is not None


async def test_work_that_came_back_red_lies_in_the_tree_as_commits_on_the_newest_target(
    yard: Yard,
) -> None:
    task = await yard.take("ann")
    commit(yard.tree("ann"), {"a.txt": "a\n"}, "first part")
    await yard.finish("ann", task, {"numbers.txt": "BROKEN\n"})
    yard.user_commits({"u.txt": "u\n"})
    await yard.queue(retries=0).step()
    again, note = await yard.retake("ann", task.id)
    tree = yard.tree("ann")
    assert note is not None
    assert git(tree, "status", "--porcelain") == ""
    assert git(tree, "log", "--format=%s", f"{yard.target}..").splitlines() == [
        "work",
        "first part",
    ]
    await yard.finish("ann", again, {"numbers.txt": "ok=1\n"})
    await yard.queue().step()
    assert yard.at_target("numbers.txt") == "ok=1"


async def test_somebody_else_goes_on_with_what_was_handed_in(yard: Yard) -> None:
    task = await yard.take("ann")
    await yard.finish("ann", task, {"numbers.txt": "BROKEN\n", "a.txt": "a\n"})
    await yard.queue(retries=0).step()
    await yard.team.tasks.assign(task.id, "bob", by=LEAD)
    again, _ = await yard.retake("bob", task.id)
    assert (yard.tree("bob") / "a.txt").read_text() == "a\n"
    await yard.finish("bob", again, {"numbers.txt": "ok=1\n"})
    await yard.queue().step()
    assert yard.at_target("a.txt") == "a"


async def test_what_was_handed_in_but_never_recorded_is_not_forgotten(yard: Yard) -> None:
    task = await yard.take("ann")
    yard.edit("ann", {"a.txt": "a\n"})
    from bullpen.workspace.handover.hand_in import hand_in

    assert hand_in(yard.trees["ann"], task, team=TEAM, agent="ann") is not None
    # Killed here: nobody completed the task, and somebody else takes it.
    await yard.team.tasks.release(task.id, by=LEAD)
    await yard.retake("bob", task.id)
    assert (yard.tree("bob") / "a.txt").read_text() == "a\n"


async def test_a_tree_that_was_deleted_and_made_again_goes_on_at_its_task(yard: Yard) -> None:
    import shutil

    from bullpen.workspace.trees.tree import prepare

    task = await yard.take("ann")
    mine = commit(yard.tree("ann"), {"a.txt": "a\n"})
    shutil.rmtree(yard.tree("ann"))
    prepare(yard.trees["ann"], team=TEAM, agent="ann", owner="tests of crew")
    assert begin(yard.trees["ann"], task, yard.settings, team=TEAM, agent="ann") is None
    assert git(yard.tree("ann"), "rev-parse", "HEAD") == mine


async def test_submodules_go_along_with_the_target(tmp_path: Path) -> None:
    library = make_repository(tmp_path / "library")
    yard = await Yard.make(tmp_path, MemoryStore())
    add_submodule(yard.project, library, "lib")
    await yard.join("ann")
    newest = commit(library, {"l.txt": "new\n"})
    git(yard.project / "lib", "pull", "--quiet", "origin", "main")
    yard.user_commits({}, "move lib")
    await yard.take("ann")
    assert git(yard.tree("ann") / "lib", "rev-parse", "HEAD") == newest
    assert git(yard.tree("ann"), "status", "--porcelain") == ""


async def test_a_clone_begins_at_the_target_of_where_it_came_from(yard: Yard) -> None:
    await yard.join("cleo", kind="clone")
    newest = yard.user_commits({"u.txt": "u\n"})
    task = await yard.take("cleo")
    assert git(yard.tree("cleo"), "rev-parse", "HEAD") == newest
    await yard.finish("cleo", task, add_line("numbers.txt", "BROKEN"))
    await yard.queue(retries=0).step()
    await yard.team.tasks.assign(task.id, "ann", by=LEAD)
    again, _ = await yard.retake("ann", task.id)
    assert "BROKEN" in (yard.tree("ann") / "numbers.txt").read_text()
    await yard.finish("ann", again, {"numbers.txt": "# fine\n"})
    stepped = await yard.queue().step()
    assert stepped is not None
    assert stepped.merged == [task.id]


async def test_a_missing_target_is_refused_and_nothing_is_touched(yard: Yard) -> None:
    task = await yard.team.tasks.add("x", by=LEAD)
    write(yard.tree("ann"), {"numbers.txt": "mine\n"})
    settings = yard.settings.evolve(target="nowhere")
    with pytest.raises(Refused) as refused:
        begin(yard.trees["ann"], task, settings, team=TEAM, agent="ann")
    assert refused.value.reason == "no_target"
    assert (yard.tree("ann") / "numbers.txt").read_text() == "mine\n"
