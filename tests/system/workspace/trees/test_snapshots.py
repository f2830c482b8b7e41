"""Snapshots keep all that is in a tree and nowhere else, and change nothing."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from bullpen.errors import NotFound, Refused, Unavailable, Unreadable
from bullpen.workspace.git.raw import raw_git
from bullpen.workspace.git.run_git import Git
from bullpen.workspace.snapshots.contents import is_refused
from bullpen.workspace.snapshots.pack import unpack
from bullpen.workspace.snapshots.save import Saved, name_it, save, saved, verify
from bullpen.workspace.trees.restore import Restored, restore
from bullpen.workspace.trees.tree import plan, prepare
from support.git.repositories import (
    add_submodule,
    belongings,
    commit,
    files_below,
    git,
    make_repository,
    write,
)

TEAM, AGENT = "night", "ann"

Back = Callable[[Saved | None], Restored]


@pytest.fixture
def tree(project: Path) -> Path:
    """A tree of an agent."""
    commit(project, {".gitignore": "build/\n"})
    workspace = plan("worktree", project, team=TEAM, agent=AGENT)
    prepare(workspace, team=TEAM, agent=AGENT, owner="home/night")
    return Path(workspace.path)


@pytest.fixture
def back(project: Path, tmp_path: Path) -> Back:
    """Brings a snapshot back, after all that nothing leads to was deleted for good."""

    def bring(kept: Saved | None) -> Restored:
        assert kept is not None
        git(project, "prune", "--expire=now")
        return restore(project, kept.ref, tmp_path / "back")

    return bring


def keep(tree: Path, why: str = "a test") -> Saved | None:
    return save(tree, team=TEAM, agent=AGENT, why=why)


def make_old(path: Path) -> None:
    """Let git be sure that a file did not change since it was added: it looks at the time."""
    os.utime(path, (1_700_000_000, 1_700_000_000))


def test_a_tree_with_nothing_of_its_own_needs_no_snapshot(project: Path, tree: Path) -> None:
    assert keep(tree) is None
    assert saved(project) == []


def test_saving_changes_nothing_but_a_ref_of_ours(project: Path, tree: Path) -> None:
    write(tree, {"a.txt": "changed\n", "new": "new\n"})
    git(tree, "add", "a.txt")
    index = (project / ".git/worktrees/ann/index").read_bytes()
    before, files, status = belongings(project), files_below(tree), git(tree, "status", "--short")
    kept = keep(tree, "to see\nit")
    assert kept is not None
    assert (project / ".git/worktrees/ann/index").read_bytes() == index
    assert (belongings(project), files_below(tree)) == (before, files)
    assert git(tree, "status", "--short") == status
    assert git(project, "for-each-ref", "--format=%(refname)", "refs/bullpen") == kept.ref
    assert (kept.ref, kept.why, kept.files) == ("refs/bullpen/night/ann/1", "to see\nit", 2)
    assert (kept.branch, kept.head) == ("bullpen/night/ann", git(tree, "rev-parse", "HEAD"))
    assert saved(project, TEAM, AGENT) == [kept] == saved(tree)
    assert saved(project, "other") == saved(project, TEAM, "bob") == []


def test_what_is_staged_and_what_is_changed_after_that_both_come_back(
    tree: Path, back: Back
) -> None:
    write(tree, {"a.txt": "staged\n"})
    git(tree, "add", "a.txt")
    write(tree, {"a.txt": "changed again\n"})
    again = back(keep(tree)).path
    assert git(again, "show", ":a.txt") == "staged"
    assert (again / "a.txt").read_text() == "changed again\n"


def test_ignored_files_modes_links_and_empty_folders_come_back(tree: Path, back: Back) -> None:
    write(tree, {"build/out": "made\n", "run": "#!/bin/sh\n", "key": "k"})
    (tree / "run").chmod(0o755)
    (tree / "key").chmod(0o600)
    (tree / "empty" / "er").mkdir(parents=True)
    (tree / "out").symlink_to("/etc")
    (tree / "dangling").symlink_to("nowhere")
    before = files_below(tree)
    again = back(keep(tree)).path
    assert files_below(again) == before
    assert (again / "key").stat().st_mode & 0o777 == 0o600
    assert (again / "empty" / "er").is_dir()


def test_a_link_is_kept_as_a_link_and_never_followed(
    project: Path, tree: Path, tmp_path: Path
) -> None:
    write(tmp_path / "outside", {"secret": "never to be read"})
    (tree / "way").symlink_to(tmp_path / "outside")
    kept = keep(tree)
    assert kept is not None
    names = git(project, "ls-tree", "-r", "--name-only", kept.commit).splitlines()
    assert "way" in names and not [name for name in names if name.startswith("way/")]


def test_commits_that_only_the_log_of_the_head_knows_come_back(tree: Path, back: Back) -> None:
    git(tree, "checkout", "--quiet", "--detach")
    lost = commit(tree, {"lost": "not to be lost\n"})
    git(tree, "checkout", "--quiet", "bullpen/night/ann")
    kept = keep(tree)
    git(tree, "reflog", "expire", "--expire=now", "--all")
    again = back(kept).path
    assert git(again, "show", f"{lost}:lost") == "not to be lost"
    assert lost in git(again, "log", "--walk-reflogs", "--format=%H")


def test_commits_on_no_other_branch_are_kept_by_the_snapshot(project: Path, tree: Path) -> None:
    mine = commit(tree, {"mine": "x\n"})
    kept = keep(tree)
    assert kept is not None and kept.head == mine
    assert keep(tree) is None
    git(project, "update-ref", "-d", "refs/heads/bullpen/night/ann")
    assert git(project, "merge-base", "--is-ancestor", mine, kept.ref) == ""


def test_the_same_content_is_kept_once(tree: Path) -> None:
    write(tree, {"new": "x\n"})
    first = keep(tree)
    assert keep(tree, "again") == first
    write(tree, {"new": "y\n"})
    second = keep(tree)
    assert first is not None and second is not None
    assert (first.number, second.number) == (1, 2)


def test_a_snapshot_is_a_stash_for_git_itself(project: Path, tree: Path) -> None:
    write(tree, {"a.txt": "changed\n", "new": "x\n"})
    kept = keep(tree)
    assert kept is not None
    git(tree, "reset", "--quiet", "--hard")
    (tree / "new").unlink()
    git(tree, "stash", "apply", "--quiet", kept.ref)
    assert (tree / "a.txt").read_text() == "changed\n"
    assert (tree / "new").read_text() == "x\n"


def test_a_merge_that_is_under_way_goes_on_where_it_was(tree: Path, back: Back) -> None:
    git(tree, "checkout", "--quiet", "-b", "side")
    commit(tree, {"a.txt": "theirs\n"})
    git(tree, "checkout", "--quiet", "bullpen/night/ann")
    commit(tree, {"a.txt": "ours\n"})
    git(tree, "merge", "side", ok=False)
    status = git(tree, "status", "--porcelain=v2")
    again = back(keep(tree)).path
    assert git(again, "status", "--porcelain=v2") == status
    assert git(again, "show", ":3:a.txt") == "theirs"
    write(again, {"a.txt": "both\n"})
    git(again, "commit", "--quiet", "-a", "-m", "merged")
    assert len(git(again, "rev-list", "--parents", "-n1", "HEAD").split()) == 3


def test_sides_of_a_conflict_that_no_commit_has_come_back(tree: Path, back: Back) -> None:
    rows = []
    for stage in (2, 3):
        blob = git(tree, "hash-object", "-w", "--stdin", given=f"side {stage}\n")
        rows.append(f"100644 {blob} {stage}\tboth\n")
    git(tree, "update-index", "--index-info", given="".join(rows))
    kept = keep(tree)
    git(tree, "read-tree", "HEAD")
    again = back(kept).path
    assert [git(again, "show", f":{stage}:both") for stage in (2, 3)] == ["side 2", "side 3"]


def test_repositories_inside_come_back_with_their_stashes_and_commits(
    project: Path, tree: Path, tmp_path: Path, back: Back
) -> None:
    module = make_repository(tmp_path / "module")
    add_submodule(project, module, "mod")
    git(tree, "merge", "--quiet", "main")
    git(tree, "submodule", "--quiet", "update", "--init")
    assert keep(tree) is None  # all of it is where it came from
    unpushed = commit(tree / "mod", {"a.txt": "unpushed\n"})
    write(tree / "mod", {"a.txt": "stashed\n"})
    git(tree / "mod", "stash", "push", "--quiet")
    nested = make_repository(tree / "nested")
    write(nested, {"a.txt": "stashed\n"})
    git(nested, "stash", "push", "--quiet")
    write(nested, {"a.txt": "dirty\n"})
    again = back(keep(tree)).path
    assert git(again / "mod", "rev-parse", "HEAD") == unpushed
    assert git(again / "mod", "show", "stash@{0}:a.txt") == "stashed"
    assert git(again / "nested", "show", "stash@{0}:a.txt") == "stashed"
    assert (again / "nested" / "a.txt").read_text() == "dirty\n"
    assert git(again, "status", "--short") == " M mod\n?? nested/"


def test_bytes_that_a_filter_takes_away_come_back(project: Path, tree: Path, back: Back) -> None:
    git(project, "config", "filter.lossy.clean", "sed /output/d")
    commit(tree, {".gitattributes": "*.nb filter=lossy\n*.win eol=crlf\n", "x.win": "a\r\n"})
    write(tree, {"note.nb": "input\noutput\n"})
    make_old(tree / "note.nb")
    commit(tree, {})
    assert git(tree, "show", "HEAD:note.nb") == "input"
    assert git(tree, "status", "--short") == ""
    again = back(keep(tree)).path
    assert (again / "note.nb").read_bytes() == b"input\noutput\n"
    assert (again / "x.win").read_bytes() == b"a\r\n"


def test_bytes_that_a_filter_changed_before_it_was_gone_come_back(
    project: Path, tree: Path, back: Back
) -> None:
    git(project, "config", "filter.small.clean", "tr A-Z a-z")
    commit(tree, {".gitattributes": "*.up filter=small\n"})
    write(tree, {"x.up": "ABC\n"})
    make_old(tree / "x.up")
    commit(tree, {})
    write(tree, {".gitattributes": "\n"})
    assert git(tree, "diff-files", "--name-only") == ".gitattributes"
    again = back(keep(tree)).path
    assert (again / "x.up").read_text() == "ABC\n"


def test_a_filter_that_fails_does_not_keep_bytes_from_being_kept(
    project: Path, tree: Path, back: Back
) -> None:
    git(project, "config", "filter.broken.clean", "false")
    git(project, "config", "filter.broken.required", "true")
    write(tree, {".gitattributes": "* filter=broken\n", "a.txt": "changed\n", "new": "x\n"})
    again = back(keep(tree)).path
    assert (again / "a.txt").read_text() == "changed\n"
    assert (again / "new").read_text() == "x\n"


def test_what_a_repository_inside_names_is_not_run(
    project: Path, tree: Path, tmp_path: Path, back: Back
) -> None:
    add_submodule(project, make_repository(tmp_path / "module"), "mod")
    git(tree, "merge", "--quiet", "main")
    git(tree, "submodule", "--quiet", "update", "--init")
    mod, nested = tree / "mod", make_repository(tree / "nested")
    for inside in (mod, nested):
        # Git takes it for unchanged, and would make it again with the filter.
        own = Path(git(inside, "rev-parse", "--absolute-git-dir"))
        (own / "info").mkdir(exist_ok=True)
        (own / "info" / "attributes").write_text("* filter=evil\n")
        git(inside, "config", "filter.evil.clean", "sed /hidden/d")
        write(inside, {"a.txt": "one\nhidden\n"})
        make_old(inside / "a.txt")
        git(inside, "add", "a.txt")
        for key in ("filter.evil.clean", "filter.evil.smudge", "core.fsmonitor"):
            git(inside, "config", key, f"touch {tmp_path}/ran; cat")
    again = back(keep(tree)).path
    assert not (tmp_path / "ran").exists()
    assert (again / "mod" / "a.txt").read_text() == "one\nhidden\n"


def test_a_filter_that_only_this_tree_has_is_not_run(
    project: Path, tree: Path, tmp_path: Path, back: Back
) -> None:
    git(project, "config", "extensions.worktreeConfig", "true")
    commit(tree, {".gitattributes": "*.nb filter=evil\n"})
    git(tree, "config", "--worktree", "filter.evil.clean", "sed /hidden/d")
    write(tree, {"x.nb": "one\nhidden\n"})
    make_old(tree / "x.nb")
    commit(tree, {})
    git(tree, "config", "--worktree", "filter.evil.clean", f"touch {tmp_path}/ran; cat")
    git(tree, "config", "--worktree", "filter.evil.smudge", f"touch {tmp_path}/ran; cat")
    again = back(keep(tree)).path
    assert not (tmp_path / "ran").exists()
    assert (again / "x.nb").read_text() == "one\nhidden\n"


def test_too_much_that_git_does_not_track_is_refused_by_name(project: Path, tree: Path) -> None:
    write(tree, {"build/big": "x" * 2_000})
    with pytest.raises(Refused) as refused:
        save(tree, team=TEAM, agent=AGENT, why="a test", most=1_000)
    assert refused.value.reason == "too_big"
    assert saved(project) == [] and (tree / "build" / "big").exists()


def test_no_two_snapshots_ever_share_a_number(project: Path, tree: Path) -> None:
    """Whoever has the same number in mind at the same moment: one gets it, the other the next."""
    write(tree, {"new": "x\n"})
    first = keep(tree)
    assert first is not None
    commits = [
        git(project, "commit-tree", f"{first.commit}^{{tree}}", "-m", f"{number}")
        for number in range(24)
    ]

    def name(commit: str) -> Saved:
        return name_it(Git(project), replace(first, commit=commit))

    with ThreadPoolExecutor(8) as pool:
        named = list(pool.map(name, commits))
    assert sorted(each.number for each in named) == list(range(2, 26))
    refs = {git(project, "rev-parse", each.ref) for each in named}
    assert refs == set(commits)


def test_nothing_is_written_over(project: Path, tree: Path, tmp_path: Path) -> None:
    write(tree, {"new": "x\n"})
    kept = keep(tree)
    assert kept is not None
    write(tmp_path / "full", {"mine": "y\n"})
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for place in ("full", "link", "full/mine"):
        with pytest.raises(Refused) as refused:
            restore(project, kept.ref, tmp_path / place)
        assert refused.value.reason == "not_empty"
    (tmp_path / "empty").mkdir()
    assert (restore(project, "night/ann/1", tmp_path / "empty").path / "new").exists()
    with pytest.raises(NotFound):
        restore(project, "night/ann/7", tmp_path / "else")


def test_a_snapshot_that_is_not_whole_is_told_and_leaves_nothing(
    project: Path, tree: Path, tmp_path: Path
) -> None:
    write(tree, {"new": "only here\n"})
    kept = keep(tree)
    assert kept is not None
    verify(project, kept)
    blob = git(project, "rev-parse", f"{kept.commit}:new")
    (project / ".git/objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(Unavailable):
        verify(project, kept)
    with pytest.raises(Unavailable):
        restore(project, kept.ref, tmp_path / "back")
    assert not (tmp_path / "back").exists()
    assert "back" not in git(project, "worktree", "list")


@pytest.mark.parametrize("name", ["tree/../../out", "tree/way/out"])
def test_a_pack_that_leads_out_of_its_folder_is_refused(
    project: Path, tmp_path: Path, name: str
) -> None:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        link = tarfile.TarInfo("tree/way")
        link.type, link.linkname = tarfile.SYMTYPE, str(tmp_path)
        tar.addfile(link)
        row = tarfile.TarInfo(name)
        row.size = 4
        tar.addfile(row, io.BytesIO(b"evil"))
    (tmp_path / "pack").write_bytes(data.getvalue())
    blob = git(project, "hash-object", "-w", str(tmp_path / "pack"))
    (tmp_path / "into").mkdir()
    with (
        raw_git(project / ".git/objects", project, "sha1") as raw,
        pytest.raises(Unreadable),
    ):
        unpack(raw, [blob], {"tree": tmp_path / "into"})
    assert not (tmp_path / "out").exists()


def test_names_that_git_takes_into_no_tree_are_known(project: Path) -> None:
    """What git itself refuses is never offered to it, and what it takes mostly is."""
    names = [".git", ".GIT", "git~1", ".git ", ".git.", ".git::$INDEX_ALLOCATION", ".g\u200cit"]
    fine = [".gitx", ".github", "git", "git~", "x.git", "a\nb", "-x", "ü", "\udcff"]
    blob = git(project, "hash-object", "-w", "a.txt")
    for name in [*names, *fine]:
        env = {"GIT_INDEX_FILE": str(project / ".git" / "try")}
        ran = Git(project, env).run(
            "-c", "core.protectHFS=true", "update-index", "-z", "--index-info",
            given=f"100644 {blob}\t{name}\0",
        )  # fmt: skip
        assert ran.ok or is_refused(name), name
        assert is_refused(name) == (name in names), name


def test_a_first_tree_without_a_commit_can_be_kept(tmp_path: Path) -> None:
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    git(fresh, "init", "--quiet", "--initial-branch=main")
    write(fresh, {"staged": "s\n", "new": "n\n"})
    git(fresh, "add", "staged")
    kept = keep(fresh)
    assert kept is not None and kept.head is None
    again = restore(fresh, kept.ref, tmp_path / "back").path
    assert git(again, "ls-files") == "staged"
    assert sorted(os.listdir(again)) == [".git", "new", "staged"]


def test_a_folder_that_is_no_tree_is_refused(project: Path, tmp_path: Path) -> None:
    for place in (tmp_path, project / "src", tmp_path / "nowhere"):
        with pytest.raises(Refused) as refused:
            keep(place)
        assert refused.value.reason == "no_tree"


def test_a_snapshot_of_ignored_files_alone_can_be_left_out_of_the_list(
    tree: Path, project: Path
) -> None:
    write(tree, {"build/cache.bin": "x", ".pytest_cache/.gitignore": "*\n"})
    kept = keep(tree)
    assert kept is not None
    assert saved(project, TEAM) == [kept]
    assert saved(project, TEAM, ignored=False) == []
    write(tree, {"work.txt": "mine"})
    again = keep(tree)
    assert again is not None
    assert saved(project, TEAM, ignored=False) == [again]
