"""What a sandboxed agent writes into repositories: nothing of it runs or counts outside."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from bullpen.workspace.git.repository import is_changed
from bullpen.workspace.git.submodules import dirty_modules
from bullpen.workspace.shared.edits import edits, keep
from bullpen.workspace.snapshots.save import save

from .conftest import Closed, MakeClosed

IDENTITY = {
    "GIT_AUTHOR_NAME": "Ann",
    "GIT_AUTHOR_EMAIL": "a@b",
    "GIT_COMMITTER_NAME": "Ann",
    "GIT_COMMITTER_EMAIL": "a@b",
}

# A repository inside, with a filter in its own settings, and files that look changed.
NESTED = """
set -e
mkdir sub; cd sub; git init -q .; echo '* filter=evil' > .gitattributes; echo x > f
git add .; git commit -qm s
printf '[filter "evil"]\\n\\tclean = "touch {canary}; cat"\\n' >> .git/config
printf '[core]\\n\\tfsmonitor = "touch {canary}"\\n' >> .git/config
cd ..; git -c advice.addEmbeddedRepo=false add sub
printf '[submodule "sub"]\\n\\tpath = sub\\n\\turl = ./sub\\n\\tignore = none\\n' > .gitmodules
touch -d 2001-01-01 sub/.gitattributes sub/f
touch {canary} 2> /dev/null && exit 1 || true
"""


async def test_bullpen_looks_at_a_tree_and_runs_nothing_that_a_sandboxed_agent_put_there(
    closed: Closed, make_closed: MakeClosed
) -> None:
    closed.git("init", "-q")
    closed.git("commit", "-q", "--allow-empty", "-m", "first")
    canary = closed.outside / "canary"
    agent = make_closed(env=IDENTITY)
    await agent.ok(NESTED.format(canary=canary))
    top = str(closed.project)
    assert {each.path for each in edits(top)} >= {"sub", ".gitmodules"}
    assert "sub" in is_changed(closed.project)
    assert list(dirty_modules(closed.project)) == []
    keep(top, [".gitmodules"], team="crew", why="a test")
    save(closed.project, team="crew", agent="ann", why="a test")
    assert not canary.exists()
    # The user's own git would have run it: there is something to be afraid of.
    closed.git("status", "--short")
    assert canary.exists()


@pytest.fixture
async def linked(closed: Closed, make_closed: MakeClosed) -> Closed:
    """An agent in a linked worktree; another worktree of the same repository is beside it."""
    closed.git("init", "-q", "-b", "main")
    closed.git("commit", "-q", "--allow-empty", "-m", "first")
    for name in ("tree", "other"):
        closed.git("worktree", "add", "-q", str(closed.project.parent / name))
    return make_closed(cwd=str(closed.project.parent / "tree"), env=IDENTITY)


async def test_a_linked_worktree_has_only_a_list_of_its_repository(
    closed: Closed, linked: Closed
) -> None:
    git = closed.project / ".git"
    before = _without_objects(git)
    names = (
        "commondir", "config", "config.worktree", "hooks/pre-commit", "info/attributes", "HEAD",
        "index", "packed-refs", "refs/stash", "refs/tags/v1", "modules/x/config", "worktrees/x",
        "worktrees/other/commondir", "worktrees/other/HEAD", "worktrees/other/config.worktree",
        "worktrees/tree/commondir", "worktrees/tree/gitdir", "worktrees/tree/config.worktree",
        "objects/info/alternates", "rebase-merge/git-rebase-todo", "logs/HEAD", "bullpen.lock",
    )  # fmt: skip
    attempts = [
        "mkdir -p {0}; echo x > {0}/{1}",
        "mkdir -p {0}; echo x > {0}/new && mv -f {0}/new {0}/{1}; rm -f {0}/new",
        "mkdir -p {0}; ln -sfn /tmp {0}/{1}",
        "rm -rf {0}/{1}",
    ]
    for form in attempts:
        # What may be created there is the sandbox's own, and gone with it.
        lines = [form.format((git / name).parent, Path(name).name) for name in names]
        await linked.call(" ; ".join(lines))
        assert _without_objects(git) == before, form
    for attempt in ("mv {0} {0}2", "rm -f {0}/config", "mv {0}/worktrees/tree {0}/worktrees/x"):
        await linked.call(attempt.format(git))
    assert _without_objects(git) == before
    assert list((git / "objects" / "info").iterdir()) == []
    assert closed.git("status", "--short") == ""


def _without_objects(git: Path) -> dict[str, bytes]:
    """What is in a git dir, but for objects, the own index and empty settings."""
    return {
        str(file.relative_to(git)): file.read_bytes()
        for file in git.rglob("*")
        if file.is_file()
        and not file.is_relative_to(git / "objects")
        and file.name != "config.worktree"
        and not (file.is_relative_to(git / "worktrees" / "tree") and file.name == "index")
    }


async def test_a_linked_worktree_can_do_the_usual_work(closed: Closed, linked: Closed) -> None:
    tree = closed.project.parent / "tree"
    await linked.ok(
        "set -e; echo 1 > a; git add a; git commit -qm a; echo 2 > b; git add b; git commit -qm b;"
        " git rebase -q --force-rebase HEAD~1; git commit -q --amend -m c; git reset -q --hard;"
        " git revert --no-edit HEAD > /dev/null; git cherry-pick HEAD~1 > /dev/null;"
        " git checkout -q --detach HEAD; git switch -q -; git log -3 --format=%s > /dev/null"
    )
    assert closed.git("log", "--format=%s", "-2", cwd=tree).splitlines()[0] == "c"
    assert closed.git("worktree", "list").count("\n") == 2
    closed.git("fsck", "--strict")
    closed.git("gc", "--quiet")
    await linked.ok("echo 3 > c; git add c; git commit -qm after; git log -1 main > /dev/null")
    assert closed.git("log", "--format=%s", "-1", cwd=tree) == "after"


async def test_a_job_in_the_background_finds_no_moment_for_another_git_dir(
    closed: Closed, linked: Closed
) -> None:
    git = closed.project / ".git"
    await linked.ok(
        f"while :; do echo /tmp > {git}/commondir; echo x > {git}/config.worktree;"
        f" echo x >> {git}/config; mkdir {git}/modules/x; done 2> /dev/null",
        run_in_background=True,
    )
    for number in range(10):
        # These replace files of the git dir by others.
        closed.git("config", "x.y", str(number))
        closed.git("pack-refs", "--all")
        await asyncio.sleep(0.02)
        assert not (git / "commondir").exists()
    settings = (git / "config").read_text()
    assert "\nx\n" not in settings
    assert not (git / "modules").exists()


async def test_a_branch_that_bullpen_recorded_is_the_only_place_for_refs(
    closed: Closed, make_closed: MakeClosed
) -> None:
    closed.git("init", "-q", "-b", "main")
    closed.git("commit", "-q", "--allow-empty", "-m", "first")
    tree = closed.project.parent / "tree"
    closed.git("worktree", "add", "-q", "-b", "bullpen/crew/ann", str(tree))
    claim = closed.project / ".git" / "bullpen" / "crew" / "ann.json"
    claim.parent.mkdir(parents=True)
    claim.write_text(f'{{"path": "{tree}", "branch": "bullpen/crew/ann"}}')
    agent = make_closed(cwd=str(tree), env=IDENTITY)
    await agent.ok("echo 1 > a && git add a && git commit -qm mine")
    await agent.ok("git branch bullpen/crew/more")
    main = closed.git("rev-parse", "main")
    for attempt in (
        "git branch -f main HEAD",
        "git update-ref refs/heads/main HEAD",
        "git branch feature",
        "git tag v1",
        "echo 2 > a && git stash",
        f"echo {{}} > {claim}",
    ):
        await agent.fails(attempt)
    # To stand on another branch does not help: what is recorded counts.
    await agent.call("git symbolic-ref HEAD refs/heads/main")
    await agent.fails("git commit -q --allow-empty -m evil")
    assert closed.git("rev-parse", "main") == main


async def test_a_git_dir_that_names_another_is_refused(closed: Closed) -> None:
    closed.git("init", "-q")
    (closed.project / ".git" / "commondir").write_text("../evil\n")
    assert "settings and hooks from another place" in await closed.fails("true")


async def test_what_a_sandbox_leaves_in_a_git_dir_disturbs_no_git(closed: Closed) -> None:
    closed.git("init", "-q", "-b", "main")
    closed.git("commit", "-q", "--allow-empty", "-m", "first")
    await closed.ok("true")
    left = {"commondir", "config.worktree", "modules", "worktrees"}
    assert left <= set(os.listdir(closed.project / ".git"))
    beside = closed.project.parent / "beside"
    closed.git("worktree", "add", "-q", str(beside))
    closed.git("config", "extensions.worktreeConfig", "true")
    closed.git("config", "--worktree", "x.y", "z")
    closed.git("commit", "-q", "--allow-empty", "-m", "second", cwd=beside)
    closed.git("gc", "--quiet")
    closed.git("worktree", "remove", str(beside))
    copy = closed.project.parent / "copy"
    closed.git("clone", "-q", str(closed.project), str(copy))
    assert closed.git("rev-parse", "HEAD", cwd=copy) == closed.git("rev-parse", "HEAD")
    await closed.ok("git status --short")
