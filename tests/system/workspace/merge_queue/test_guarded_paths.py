"""Guarded paths in the merge queue: what no person approved is not handed in and not merged."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bullpen.agents.work.tree_of_task import TreeWork
from bullpen.errors import Refused
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.names import LEAD
from bullpen.protocol.request import Request
from bullpen.protocol.task import Task
from bullpen.team.tasks.guarded_rules import WAITS
from bullpen.team.tasks.merge_rules import HandIn
from bullpen.workspace.git.run_git import Git
from bullpen.workspace.git.tree_changes import tree_changes
from bullpen.workspace.handover.hand_in import Handed
from support.git.repositories import add_submodule, commit, git, make_repository
from support.git.yard import TEAM, Yard

SETTINGS = ".claude/settings.json"


async def hand_in(yard: Yard, task: Task, name: str = "ann") -> Handed | None:
    """Hand in as an agent does, which asks a person."""
    tree = yard.trees[name]
    spec = AgentSpec.new(driver="none", backend="none", cwd=tree.path, workspace=tree.raw)
    return await TreeWork(yard.team, name, spec).hand_in(task)


async def refused(yard: Yard, task: Task) -> Refused:
    with pytest.raises(Refused) as error:
        await hand_in(yard, task)
    assert error.value.reason == "guarded_paths" and error.value.remedy
    return error.value


async def done(yard: Yard, task: Task, work: HandIn) -> None:
    await yard.team.tasks.done(task.id, by="ann", attempt=task.facts.attempt, work=work)


async def the_request(yard: Yard) -> Request:
    (request,) = await yard.team.approvals.pending()
    return request


async def approve(yard: Yard) -> None:
    request = await the_request(yard)
    await yard.team.approvals.answer(request.id, approve=True, by=LEAD, voice="human")


def by_index(tree: Path, path: str = SETTINGS, text: str = "{}") -> None:
    """Commit a file that is not in the worktree."""
    made = subprocess.run(
        ["git", "hash-object", "-w", "--stdin"],
        cwd=tree, input=text, text=True, capture_output=True, check=True,
    )  # fmt: skip
    git(tree, "update-index", "--add", "--cacheinfo", f"100644,{made.stdout.strip()},{path}")
    git(tree, "update-index", "--skip-worktree", path)
    git(tree, "commit", "--quiet", "--message", "work")


def in_between(tree: Path) -> None:
    commit(tree, {SETTINGS: "{}"}, "one")
    git(tree, "rm", "--quiet", SETTINGS)
    commit(tree, {"a.txt": "a\n"}, "two")


def replaced(tree: Path) -> None:
    """Commit guarded content, and let git show other content in its place."""
    start = git(tree, "rev-parse", "HEAD")
    good = commit(tree, {"a.txt": "a\n"}, "good")
    git(tree, "reset", "--quiet", "--hard", start)
    evil = commit(tree, {SETTINGS: "{}"}, "evil")
    git(tree, "replace", evil, good)


def linked(tree: Path) -> None:
    (tree / "notes").symlink_to(".claude/settings.json")


WAYS: dict[str, Callable[[Path], object]] = {
    "a plain file": lambda tree: (tree / ".mcp.json").write_text("{}"),
    "the index alone": by_index,
    "a commit in between": in_between,
    "another case": lambda tree: commit(tree, {".Claude/settings.json": "{}"}),
    "a link": linked,
    "a replaced object": replaced,
    "a removed workflow": lambda tree: git(tree, "rm", "--quiet", ".github/workflows/ci.yml"),
}


@pytest.mark.parametrize("way", WAYS)
async def test_a_guarded_path_is_not_handed_in_whichever_way_it_came_into_the_work(
    yard: Yard, way: str
) -> None:
    commit(yard.project, {".github/workflows/ci.yml": "on: push\n"})
    task = await yard.take("ann")
    WAYS[way](yard.tree("ann"))
    error = await refused(yard, task)
    request = await the_request(yard)
    assert request.id in error.message and request.approver == "human"
    assert (await yard.team.tasks.get(task.id)).status == "in_progress"
    assert await yard.team.merges.line() == []


async def test_an_approved_change_is_merged_and_another_one_asks_again(yard: Yard) -> None:
    task = await yard.take("ann")
    by_index(yard.tree("ann"))
    await refused(yard, task)
    given = (await the_request(yard)).subject["input"]
    assert [row["path"] for row in given["changes"]] == [SETTINGS]
    assert "+{}" in given["diff"]
    assert SETTINGS in git(yard.project, *shlex.split(given["look"])[3:])
    await approve(yard)
    handed = await hand_in(yard, task)
    assert handed is not None
    await done(yard, task, handed.work)
    # Others merge something else meanwhile: the content is still what was approved.
    commit(yard.project, {"other.txt": "x\n"})
    stepped = await yard.queue().step()
    assert stepped is not None and stepped.merged == [task.id]
    assert git(yard.project, "show", f"main:{SETTINGS}") == "{}"
    task = await yard.take("ann")
    git(yard.tree("ann"), "update-index", "--no-skip-worktree", SETTINGS)
    commit(yard.tree("ann"), {SETTINGS: '{"hooks": {}}'})
    await refused(yard, task)
    assert (await the_request(yard)).subject["input"]["changes"][0]["path"] == SETTINGS


async def test_the_queue_does_not_merge_what_was_handed_in_past_the_check(yard: Yard) -> None:
    """A forged hand-in gets no further than the queue."""
    task = await yard.take("ann")
    tree = yard.tree("ann")
    base = git(tree, "rev-parse", "HEAD")
    by_index(tree)
    ref = f"refs/bullpen/{TEAM}/+tasks/{task.id}/{task.facts.attempt}"
    head = git(tree, "rev-parse", "HEAD")
    git(tree, "update-ref", ref, head)
    await done(yard, task, HandIn(head, base, ref))
    stepped = await yard.queue().step()
    assert stepped is not None
    assert (stepped.merged, stepped.returned) == ([], {task.id: "guarded"})
    assert SETTINGS not in git(yard.project, "ls-tree", "-r", "--name-only", "main")
    record = await yard.record(task.id)
    assert (record.why, record.files) == ("guarded", [SETTINGS])
    (entry,) = (await yard.team.mailbox.read("ann")).entries
    assert f"changes guarded paths in a way that no person approved: {SETTINGS}" in (
        entry.message.text
    )


async def test_the_queue_merges_the_rest_of_a_batch(yard: Yard) -> None:
    bad = await yard.take("ann")
    base = git(yard.tree("ann"), "rev-parse", "HEAD")
    by_index(yard.tree("ann"))
    head = git(yard.tree("ann"), "rev-parse", "HEAD")
    await done(yard, bad, HandIn(head, base, "refs/x"))
    good = await yard.work("bob", {"b.txt": "b\n"})
    stepped = await yard.queue().step()
    assert stepped is not None
    assert (stepped.merged, stepped.returned) == ([good], {bad.id: "guarded"})


async def test_what_a_rebase_changes_is_not_what_was_approved(yard: Yard) -> None:
    text = "".join(f"{n}\n" for n in range(20))
    commit(yard.project, {".envrc": text})
    task = await yard.take("ann")
    commit(yard.tree("ann"), {".envrc": f"first\n{text}"})
    await refused(yard, task)
    await approve(yard)
    handed = await hand_in(yard, task)
    assert handed is not None
    await done(yard, task, handed.work)
    commit(yard.project, {".envrc": f"{text}last\n"})
    stepped = await yard.queue().step()
    assert stepped is not None and stepped.returned == {task.id: "guarded"}


async def test_handing_in_again_what_waits_gives_the_task_up_until_a_person_has_answered(
    yard: Yard,
) -> None:
    """Nobody tries for ever, and no work is lost."""
    task = await yard.take("ann")
    yard.edit("ann", {".envrc": "x\n", "a.txt": "a\n"})
    await refused(yard, task)
    again = await refused(yard, task)
    assert "no longer yours" in again.remedy
    parked = await yard.team.tasks.get(task.id)
    request = await the_request(yard)
    assert (parked.status, parked.owner) == ("pending", None)
    assert parked.facts.given_up == f"{WAITS}: bullpen approve {request.id}"
    await approve(yard)
    task, note = await yard.retake("bob", task.id)
    assert "holds the work that was handed in for this task before" in (note or "")
    handed = await hand_in(yard, task, "bob")
    assert handed is not None
    assert git(yard.project, "show", f"{handed.work.commit}:.envrc") == "x"


async def test_what_a_person_denied_is_not_asked_again(yard: Yard) -> None:
    task = await yard.take("ann")
    yard.edit("ann", {".envrc": "x\n"})
    await refused(yard, task)
    request = await the_request(yard)
    await yard.team.approvals.answer(
        request.id, approve=False, by=LEAD, voice="human", feedback="never"
    )
    error = await refused(yard, task)
    assert "A person denied this" in error.message and "never" in error.message
    assert await yard.team.approvals.pending() == []
    given_up = (await yard.team.tasks.get(task.id)).facts.given_up or ""
    assert given_up.startswith("a person denied")


async def test_an_agent_that_undoes_it_completes_its_task(yard: Yard) -> None:
    task = await yard.take("ann")
    yard.edit("ann", {".envrc": "x\n", "a.txt": "a\n"})
    await refused(yard, task)
    tree = yard.tree("ann")
    git(tree, "reset", "--quiet", "--soft", "main")
    git(tree, "rm", "--quiet", "--cached", ".envrc")
    (tree / ".envrc").unlink()
    assert await hand_in(yard, task) is not None


async def test_a_target_with_guarded_files_that_was_merged_in_is_no_change(yard: Yard) -> None:
    task = await yard.take("ann")
    commit(yard.tree("ann"), {"a.txt": "a\n"})
    commit(yard.project, {".envrc": "of the user\n"})
    git(yard.tree("ann"), "merge", "--quiet", "--no-edit", "main")
    assert await hand_in(yard, task) is not None


async def test_a_team_guards_more_and_leaves_workflows_out(yard: Yard) -> None:
    settings = yard.settings.evolve(guarded=["deploy"], unguarded=[".github/workflows"])
    await yard.team.merges.configure(settings, by=LEAD, voice="human")
    task = await yard.take("ann")
    yard.edit("ann", {".github/workflows/ci.yml": "x", "deploy/run.sh": "x"})
    error = await refused(yard, task)
    assert "deploy/run.sh" in error.message and "ci.yml" not in error.message


async def test_a_new_submodule_needs_a_person(yard: Yard, tmp_path: Path) -> None:
    library = make_repository(tmp_path / "library", {"lib.txt": "1\n"})
    task = await yard.take("ann")
    add_submodule(yard.tree("ann"), library, "lib")
    error = await refused(yard, task)
    assert ".gitmodules, lib" in error.message


def test_changes_are_read_from_objects_and_no_program_of_the_repository_is_run(
    tmp_path: Path,
) -> None:
    """Filters, drivers and hooks that a repository names are left alone."""
    canary = tmp_path / "canary"
    project = make_repository(tmp_path / "project", {"a.txt": "a\n"})
    base = git(project, "rev-parse", "HEAD")
    head = commit(project, {".gitattributes": "* filter=evil diff=evil merge=evil\n", "b": "b\n"})
    run = f"touch {canary}; cat"
    for key in ("filter.evil.clean", "filter.evil.smudge", "diff.evil.textconv", "diff.external"):
        git(project, "config", key, run)
    for key in ("diff.evil.command", "core.fsmonitor", "core.pager", "gpg.program"):
        git(project, "config", key, run)
    git(project, "config", "log.showSignature", "true")
    (project / "a.txt").write_text("changed\n")
    found = tree_changes(Git(project), base, head)
    assert {each.path for each in found} == {".gitattributes", "b"}
    assert not canary.exists()


def test_the_target_of_every_link_is_read(tmp_path: Path) -> None:
    project = make_repository(tmp_path / "project", {"a.txt": "a\n"})
    base = git(project, "rev-parse", "HEAD")
    wanted = {"a": "b", "c": "line\nbreak", "d": ".claude/ä", "e": "b", "f": "x" * 3000}
    for name, target in wanted.items():
        (project / name).symlink_to(target)
    head = commit(project, {"z": "z\n"})
    found = tree_changes(Git(project), base, head)
    assert {each.path: each.link for each in found if each.link is not None} == wanted


def odd_names(tree: Path) -> list[str]:
    names = [b".claude/\xff.json", b".claude/a\nb", b'.claude/"q"', b".claude/\t"]
    for name in names:
        path = os.path.join(os.fsencode(tree), name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write("x")
    return [os.fsdecode(name) for name in names]


async def test_odd_names_are_told_apart(yard: Yard) -> None:
    task = await yard.take("ann")
    wanted = odd_names(yard.tree("ann"))
    await refused(yard, task)
    rows: list[dict[str, Any]] = (await the_request(yard)).subject["input"]["changes"]
    assert sorted(row["path"] for row in rows) == sorted(wanted)
    await approve(yard)
    assert await hand_in(yard, task) is not None
