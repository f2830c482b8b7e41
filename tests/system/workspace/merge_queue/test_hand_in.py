"""What is handed in with a task: all that is in the tree and not ignored, or a refusal by name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bullpen.errors import Refused
from bullpen.protocol.task import Task
from bullpen.store.memory import MemoryStore
from bullpen.workspace.git.run_git import GitFailed
from bullpen.workspace.handover.hand_in import hand_in
from support.git.repositories import add_submodule, commit, git, make_repository, make_sparse, write
from support.git.yard import TEAM, Yard, add_line


async def refused(yard: Yard, task: Task, name: str = "ann") -> str:
    """Why a tree is not handed in."""
    with pytest.raises(Refused) as error:
        await yard.finish(name, task)
    assert error.value.remedy
    return error.value.reason


async def test_what_is_not_committed_is_committed_with_the_task_as_its_message(yard: Yard) -> None:
    task = await yard.take("ann", "Count  to\nten")
    handed = await yard.finish("ann", task, {"numbers.txt": "a=1\n", "new/b.txt": "b\n"})
    assert handed is not None
    assert sorted(handed.committed) == ["new/b.txt", "numbers.txt"]
    said = git(yard.project, "log", "-1", "--format=%an <%ae>%n%B", handed.work.commit)
    assert said.splitlines() == [
        "Una User <una@example.org>",
        "Count to ten",
        "",
        "Bullpen-Task: 1",
        "Bullpen-Agent: ann",
        "Co-authored-by: ann <ann@agents.bullpen.invalid>",
    ]
    assert yard.refs()[handed.work.ref] == handed.work.commit
    assert git(yard.tree("ann"), "status", "--porcelain") == ""


async def test_without_an_identity_the_agent_is_the_author(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    task = await yard.take("ann")
    handed = await yard.finish("ann", task, {"numbers.txt": "a=1\n"})
    assert handed is not None
    said = git(yard.project, "log", "-1", "--format=%an <%ae> %cn", handed.work.commit)
    assert said == "ann <ann@agents.bullpen.invalid> ann"


async def test_own_commits_are_handed_in_as_they_are(yard: Yard) -> None:
    task = await yard.take("ann")
    commit(yard.tree("ann"), {"a.txt": "a\n"}, "one")
    last = commit(yard.tree("ann"), {"a.txt": "b\n"}, "two")
    handed = await yard.finish("ann", task)
    assert handed is not None
    assert (handed.work.commit, handed.committed) == (last, [])
    await yard.queue().step()
    assert yard.log()[1:] == ["one", "two", "Merge task 1: work"]
    assert git(yard.project, "rev-parse", "main^2") == last


async def test_own_commits_keep_their_words_and_the_merge_commit_has_the_trailers(
    yard: Yard,
) -> None:
    task = await yard.take("ann", "Fix  the\nparser")
    first = commit(yard.tree("ann"), {"a.txt": "a\n"}, "one\n\nBullpen-Task: 9")
    await yard.finish("ann", task)
    before = yard.target
    await yard.queue(author="Robot <robot@example.org>").step()
    said = git(yard.project, "log", "-1", "--format=%P%n%an <%ae> %cn%n%B", "main")
    assert said.splitlines() == [
        f"{before} {first}",
        "Robot <robot@example.org> Robot",
        "Merge task 1: Fix the parser",
        "",
        "Bullpen-Task: 1",
        "Bullpen-Agent: ann",
        "Co-authored-by: ann <ann@agents.bullpen.invalid>",
    ]
    told = git(yard.project, "log", "-1", "--format=%(trailers:key=Bullpen-Task,valueonly)", "main")
    assert told.strip() == "1"


async def test_the_author_of_the_team_is_the_author_of_what_bullpen_commits(yard: Yard) -> None:
    task = await yard.take("ann")
    yard.edit("ann", {"a.txt": "a\n"})
    author = "Zoë the Robot <robot+1@example.org>"
    handed = hand_in(yard.trees["ann"], task, team=TEAM, agent="ann", author=author)
    assert handed is not None
    said = git(yard.project, "log", "-1", "--format=%an <%ae>|%cn <%ce>", handed.work.commit)
    assert said == f"{author}|{author}"


async def test_nothing_to_merge_is_nothing_handed_in(yard: Yard) -> None:
    task = await yard.take("ann")
    assert await yard.finish("ann", task) is None
    assert (await yard.team.tasks.get(task.id)).status == "completed"
    assert await yard.team.merges.line() == []


async def test_commits_that_change_nothing_are_nothing(yard: Yard) -> None:
    task = await yard.take("ann")
    commit(yard.tree("ann"), {"a.txt": "a\n"})
    (yard.tree("ann") / "a.txt").unlink()
    commit(yard.tree("ann"), {}, "undone")
    commit(yard.tree("ann"), {}, "empty")
    assert await yard.finish("ann", task) is None


async def test_empty_commits_among_others_are_dropped_on_the_target(yard: Yard) -> None:
    task = await yard.take("ann")
    commit(yard.tree("ann"), {}, "empty")
    await yard.finish("ann", task, {"a.txt": "a\n"})
    await yard.queue().step()
    assert yard.log()[1:] == ["work"]


async def test_who_wrote_what_and_when_stays_on_the_target(yard: Yard) -> None:
    task = await yard.take("ann")
    tree = yard.tree("ann")
    git(tree, "config", "i18n.commitEncoding", "ISO-8859-1")
    write(tree, {"a.txt": "a\n"})
    git(tree, "add", "a.txt")
    said = "Für Zoë\n\n  indented\n# no comment\n".encode("iso-8859-1").decode(
        "utf-8", "surrogateescape"
    )
    author = "--author=Zo\udceb <zoe@example.org>"
    words = ("--quiet", "--cleanup=verbatim", "--date=2001-02-03T04:05:06+0700", author, "-F", "-")
    git(tree, "commit", *words, given=said)
    git(tree, "config", "--unset", "i18n.commitEncoding")
    await yard.finish("ann", task)
    yard.user_commits({"u.txt": "u\n"})
    await yard.queue().step()
    form = "--format=%an <%ae> %aI %cn %cI%n%B"
    assert git(yard.project, "log", "-1", form, "main^2") == (
        "Zoë <zoe@example.org> 2001-02-03T04:05:06+07:00 Una User 2001-02-03T04:05:06+07:00\n"
        "Für Zoë\n\n  indented\n# no comment\n"
    )


async def test_ignored_files_are_not_handed_in(yard: Yard) -> None:
    yard.user_commits({".gitignore": "*.log\n"})
    task = await yard.take("ann")
    handed = await yard.finish("ann", task, {"a.log": "x\n", "a.txt": "x\n"})
    assert handed is not None
    assert handed.committed == ["a.txt"]


async def test_what_is_half_way_is_refused(yard: Yard) -> None:
    task = await yard.take("ann")
    tree = yard.tree("ann")
    commit(tree, {"numbers.txt": "one\n"})
    git(tree, "checkout", "--quiet", "-b", "side", "HEAD~1")
    commit(tree, {"numbers.txt": "two\n"})
    git(tree, "merge", "--quiet", "bullpen/crew/ann", ok=False)
    assert await refused(yard, task) == "detached_or_rebase"
    git(tree, "merge", "--abort")
    # Away from its branch, whose commits it does not have.
    assert await refused(yard, task) == "detached_or_rebase"
    git(tree, "checkout", "--quiet", "bullpen/crew/ann")
    assert await yard.finish("ann", task) is not None


async def test_another_branch_that_has_everything_is_as_good(yard: Yard) -> None:
    task = await yard.take("ann")
    git(yard.tree("ann"), "checkout", "--quiet", "-b", "feature")
    last = commit(yard.tree("ann"), {"a.txt": "a\n"})
    handed = await yard.finish("ann", task)
    assert handed is not None
    assert handed.work.commit == last


async def test_a_target_that_the_agent_merged_itself_is_not_handed_in_again(yard: Yard) -> None:
    task = await yard.take("ann")
    tree = yard.tree("ann")
    commit(tree, {"numbers.txt": "# ann\n"}, "ann's")
    yard.user_commits({"numbers.txt": "# user\n"}, "the user's")
    git(tree, "merge", "--quiet", "main", ok=False)
    commit(tree, {"numbers.txt": "# ann and user\n"}, "merged")
    yard.user_commits({"u.txt": "u\n"}, "later")
    await yard.finish("ann", task)
    stepped = await yard.queue().step()
    assert stepped is not None
    assert stepped.merged == [task.id]
    assert yard.at_target("numbers.txt") == "# ann and user"
    assert git(yard.project, "rev-list", "--merges", "main") == ""
    assert yard.log()[1:] == ["the user's", "later", "ann's"]
    assert "\n\nBullpen-Task: 1\n" in git(yard.project, "log", "-1", "--format=%B", "main")


async def test_what_the_user_took_back_from_the_target_does_not_come_again(yard: Yard) -> None:
    before = yard.target
    yard.user_commits({"mistake.txt": "x\n"})
    task = await yard.take("ann")
    git(yard.project, "reset", "--quiet", "--hard", before)
    await yard.finish("ann", task, {"a.txt": "a\n"})
    await yard.queue().step()
    assert yard.log()[1:] == ["work"]
    assert not (yard.project / "mistake.txt").exists()


async def test_a_repository_inside_the_tree_is_refused_by_name(yard: Yard) -> None:
    task = await yard.take("ann")
    make_repository(yard.tree("ann") / "deep" / "inner")
    assert await refused(yard, task) == "nested_repository"
    assert git(yard.tree("ann"), "diff", "--cached", "--name-only") == ""
    git(yard.tree("ann"), "init", "--quiet", "bare-new")
    assert await refused(yard, task) == "nested_repository"


async def test_submodules_are_handed_in_only_if_others_can_have_them(tmp_path: Path) -> None:
    library = make_repository(tmp_path / "library")
    yard = await Yard.make(tmp_path, MemoryStore())
    add_submodule(yard.project, library, "lib")
    await yard.join("ann")
    task = await yard.take("ann")
    module = yard.tree("ann") / "lib"
    write(module, {"a.txt": "dirty\n"})
    assert await refused(yard, task) == "submodule_changed"
    commit(module, {"a.txt": "committed\n"})
    assert await refused(yard, task) == "submodule_changed"
    git(module, "push", "--quiet", "origin", "HEAD:refs/heads/more")
    git(yard.project / "lib", "fetch", "--quiet", "origin")
    assert await yard.finish("ann", task) is not None
    stepped = await yard.queue(retries=0).step()
    assert stepped is not None
    assert stepped.merged == [task.id]


async def test_a_submodule_that_the_user_cannot_have_comes_back(tmp_path: Path) -> None:
    library = make_repository(tmp_path / "library")
    yard = await Yard.make(tmp_path, MemoryStore())
    add_submodule(yard.project, library, "lib")
    await yard.join("ann", "bob")
    task = await yard.take("ann")
    module = yard.tree("ann") / "lib"
    commit(module, {"a.txt": "committed\n"})
    git(module, "push", "--quiet", "origin", "HEAD:refs/heads/more")
    await yard.finish("ann", task)
    other = await yard.work("bob", {"b.txt": "b\n"})
    stepped = await yard.queue(retries=0).step()
    assert stepped is not None
    assert stepped.returned == {task.id: "checks"}
    stepped = await yard.queue(retries=0).step()
    assert stepped is not None
    assert stepped.merged == [other]


async def test_a_sparse_tree_loses_nothing_of_the_rest(tmp_path: Path) -> None:
    files = {"in/a.txt": "a\n", "out/b.txt": "b\n"}
    yard = await Yard.make(tmp_path, MemoryStore(), files=files, gate="true")
    make_sparse(yard.project, "in")
    await yard.join("ann")
    task = await yard.take("ann")
    handed = await yard.finish("ann", task, {"in/a.txt": "changed\n", "out/new.txt": "new\n"})
    assert handed is not None
    assert sorted(handed.committed) == ["in/a.txt", "out/new.txt"]
    await yard.queue().step()
    assert yard.at_target("out/b.txt") == "b"
    assert yard.at_target("out/new.txt") == "new"


async def test_work_of_another_task_is_not_handed_in_with_this(yard: Yard) -> None:
    first = await yard.take("ann")
    yard.edit("ann", add_line("numbers.txt", "a=1"))
    second = await yard.team.tasks.add("second", by="team-lead")
    claimed = await yard.team.tasks.claim(second.id, by="ann", also=True)
    with pytest.raises(Refused) as error:
        hand_in(yard.trees["ann"], claimed, team=TEAM, agent="ann")
    assert error.value.reason == "tree_elsewhere"
    assert hand_in(yard.trees["ann"], first, team=TEAM, agent="ann") is not None


async def test_a_push_that_is_refused_says_what_git_said(yard: Yard) -> None:
    from support.git.repositories import add_hook, add_remote

    server = add_remote(yard.project, "origin", yard.project.parent / "server.git")
    await yard.join("cleo", kind="clone", remote="origin")
    task = await yard.take("cleo")
    add_hook(server, "pre-receive", "echo not today; exit 1")
    with pytest.raises(GitFailed, match="not today"):
        await yard.finish("cleo", task, {"c.txt": "c\n"})
    assert (await yard.team.tasks.get(task.id)).status == "in_progress"
