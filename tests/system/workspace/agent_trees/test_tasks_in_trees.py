"""Tasks in a tree of one's own: the tree is got ready for each, what was done is handed in."""

from __future__ import annotations

import sys

import pytest

from bullpen.agents.runner import duties
from bullpen.protocol.agent import WorkspaceKind
from bullpen.protocol.names import LEAD
from bullpen.protocol.task import Check, Task
from support.crews import eventually
from support.git.repositories import commit, git
from support.offices import TEAM, Place, kill

from .groves import merged, merging, plant, results, told, transcript, tree_of, wish

WORKS = """
[[agents.{name}.turns]]
when = "task"
repeat = true
steps = [
  {{tool = "Bash", input = {{command = "{command}"}}}},
  {{tool = "TaskUpdate", input = {{taskId = "{{task}}", status = "completed"}}, may_fail = true}},
]
"""


async def task(place: Place, task_id: str) -> Task:
    return await place.team.tasks.get(task_id)


async def in_status(place: Place, task_id: str, status: str) -> Task:
    async def is_so() -> bool:
        return (await task(place, task_id)).status == status

    await eventually(is_so, within_s=60)
    return await task(place, task_id)


@pytest.mark.parametrize("kind", ["worktree", "clone"])
async def test_what_was_done_for_a_task_is_handed_in_and_merged(
    place: Place, kind: WorkspaceKind
) -> None:
    settings = await merging(place)
    await plant(
        place, "ann", WORKS.format(name="ann", command="echo by ann > {task}.txt; cat a.txt > saw"),
        backend="in-process", claims=True, workspace=wish("ann", kind),
    )  # fmt: skip
    # The user goes on meanwhile: whoever takes a task sees that.
    commit(place.project, {"a.txt": "newest\n"})
    await place.team.tasks.add("First", by=LEAD)
    found = await in_status(place, "1", "completed")
    record = found.facts.merge
    assert record is not None
    assert (record.state, record.by) == ("queued", "ann")
    assert git(place.project, "rev-parse", record.ref) == record.commit
    assert git(place.project, "show", f"{record.commit}:saw") == "newest"
    assert f"Your worktree is {tree_of(place, 'ann')}" in told(place, "ann")
    assert f"2 uncommitted files committed for it, handed in as {record.commit[:7]}" in results(
        place, "ann"
    )
    assert not (place.project / "1.txt").exists()
    assert await merged(place, settings) == ["1"]
    assert (place.project / "1.txt").read_text() == "by ann\n"
    # The next task begins with what was merged, and with nothing else.
    await place.team.tasks.add("Second", by=LEAD)
    await in_status(place, "2", "completed")
    assert await merged(place, settings) == ["2"]
    names = git(place.project, "ls-tree", "-r", "--name-only", "HEAD").split()
    assert names == ["1.txt", "2.txt", "a.txt", "saw", "sub/b.txt"]


async def test_a_task_that_changes_nothing_has_nothing_to_be_merged(place: Place) -> None:
    await merging(place)
    await plant(
        place, "ann", WORKS.format(name="ann", command="true"), backend="in-process", claims=True
    )
    await place.team.tasks.add("Look at it", by=LEAD)
    assert (await in_status(place, "1", "completed")).facts.merge is None


async def test_without_merging_a_tree_is_left_as_it_is_between_tasks(place: Place) -> None:
    await plant(
        place, "ann", WORKS.format(name="ann", command="echo >> kept"), backend="in-process",
        claims=True,
    )  # fmt: skip
    await place.team.tasks.add("First", by=LEAD)
    await place.team.tasks.add("Second", by=LEAD)
    assert (await in_status(place, "2", "completed")).facts.merge is None
    assert (tree_of(place, "ann") / "kept").read_text() == "\n\n"


async def test_a_task_taken_by_a_tool_begins_with_the_newest_target_too(place: Place) -> None:
    await merging(place)
    script = """
[[agents.ann.turns]]
contains = "take"
steps = [
  {tool = "TaskUpdate", input = {taskId = "1", status = "in_progress"}},
  {tool = "Bash", input = {command = "cat a.txt > saw"}},
  {tool = "TaskUpdate", input = {taskId = "1", status = "completed"}},
]
"""
    await plant(place, "ann", script, backend="in-process", claims=False)
    commit(place.project, {"a.txt": "newest\n"})
    await place.team.tasks.add("First", by=LEAD)
    await place.team.mailbox.send("ann", "take it", sender=LEAD)
    record = (await in_status(place, "1", "completed")).facts.merge
    assert record is not None
    assert git(place.project, "show", f"{record.commit}:saw") == "newest"
    assert "Your worktree is" in results(place, "ann")


async def test_a_task_whose_tree_cannot_be_got_ready_is_given_back_once(place: Place) -> None:
    await merging(place, batch=1)
    await plant(place, "ann", WORKS.format(name="ann", command="true"), claims=True,
                backend="in-process")  # fmt: skip
    git(place.project, "branch", "-m", "main", "other")
    await place.team.tasks.add("First", by=LEAD)

    async def is_told() -> bool:
        box = await place.team.mailbox.read(LEAD)
        return any("tree could not be got ready" in each.message.text for each in box.entries)

    await eventually(is_told, within_s=60)
    found = await in_status(place, "1", "pending")
    assert found.owner is None
    assert "could not be got ready" in (found.facts.released or "")
    # Something else wakes it: it does not take the same task again.
    await place.team.tasks.add("Second", by=LEAD, blocked_by=["1"])
    await place.team.mailbox.send("ann", "hello", sender=LEAD)

    async def is_seen() -> bool:
        box = await place.team.mailbox.read("ann")
        return not box.unread

    await eventually(is_seen, within_s=60)
    assert (await task(place, "1")).facts.attempt == 1


async def test_what_may_pass_is_tried_again_later(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duties, "_PUT_OFF_S", 0.3)
    settings = await merging(place)
    await plant(place, "ann", WORKS.format(name="ann", command="echo > new"), claims=True,
                backend="in-process")  # fmt: skip
    # As a git that was killed leaves it.
    lock = place.project / ".git" / "worktrees" / "ann" / "index.lock"
    lock.touch()
    await place.team.tasks.add("First", by=LEAD)

    async def was_tried() -> bool:
        return (await task(place, "1")).facts.attempt >= 2

    await eventually(was_tried, within_s=60)
    lock.unlink()
    await in_status(place, "1", "completed")
    assert await merged(place, settings) == ["1"]


async def test_work_that_contradicts_comes_back_to_be_mended_in_the_tree(place: Place) -> None:
    settings = await merging(place)
    script = """
[[agents.ann.turns]]
when = "task"
steps = [
  {tool = "Bash", input = {command = "echo anns > a.txt"}},
  {tool = "TaskUpdate", input = {taskId = "{task}", status = "completed"}},
]
[[agents.ann.turns]]
when = "task"
steps = [
  {tool = "TaskUpdate", input = {taskId = "{task}", status = "completed"}, may_fail = true},
  {tool = "TaskGet", input = {taskId = "{task}"}},
  {tool = "Bash", input = {command = "echo both > a.txt"}},
  {tool = "TaskUpdate", input = {taskId = "{task}", status = "completed"}},
]
"""
    await plant(place, "ann", script, claims=True, backend="in-process")
    await place.team.tasks.add("First", by=LEAD)
    await in_status(place, "1", "completed")
    commit(place.project, {"a.txt": "users\n"})
    queue_did = await merged(place, settings)
    assert queue_did == []
    record = (await in_status(place, "1", "completed")).facts.merge
    assert record is not None
    assert record.attempt == 2
    # A completion with the marks still in the file was refused, by name.
    assert "(reason: conflict_markers)" in results(place, "ann")
    assert "was returned: conflict in a.txt" in results(place, "ann")
    assert await merged(place, settings) == ["1"]
    assert (place.project / "a.txt").read_text() == "both\n"


async def test_a_task_of_an_agents_shell_is_begun_and_handed_in_too(place: Place) -> None:
    await merging(place)
    bullpen = f"{sys.executable} -m bullpen"
    script = f"""
[[agents.ann.turns]]
contains = "take"
steps = [
  {{tool = "Bash", input = {{command = "{bullpen} task claim 1 > said"}}}},
  {{tool = "Bash", input = {{command = "cat a.txt > saw; {bullpen} task done 1"}}}},
]
"""
    await plant(place, "ann", script)
    commit(place.project, {"a.txt": "newest\n"})
    await place.team.tasks.add("First", by=LEAD)
    await place.team.mailbox.send("ann", "take it", sender=LEAD)
    record = (await in_status(place, "1", "completed")).facts.merge
    assert record is not None
    assert git(place.project, "show", f"{record.commit}:saw") == "newest"


async def test_checks_look_at_the_agents_tree(place: Place) -> None:
    await merging(place)
    await plant(place, "ann", WORKS.format(name="ann", command="echo > new"), claims=True,
                backend="in-process")  # fmt: skip
    checks = [Check.new(name="is there", kind="command", run="test -e new"),
              Check.new(name="file", kind="file", path="new")]  # fmt: skip
    await place.team.tasks.add("First", by=LEAD, checks=checks)
    found = await in_status(place, "1", "completed")
    assert found.facts.merge is not None
    assert all(check.passed for check in found.facts.checks)


async def test_what_a_dead_agent_left_is_saved_for_whoever_takes_its_task(place: Place) -> None:
    await merging(place)
    script = """
[[agents.ann.turns]]
when = "task"
steps = [
  {tool = "Bash", input = {command = "echo half > half.txt; echo > began"}},
  {sleep = 9999},
]
[agents.bob]
"""
    await plant(place, "ann", script, claims=True)
    await place.team.tasks.add("First", by=LEAD)
    await eventually((tree_of(place, "ann") / "began").exists, within_s=60)
    await kill(place, "ann")
    await place.supervisor.tend(by=LEAD)
    assert (await task(place, "1")).owner is None
    await plant(place, "bob", script, claims=True, backend="in-process")

    async def is_bobs() -> bool:
        return (await task(place, "1")).owner == "bob" and "ann had this task" in told(place, "bob")

    await eventually(is_bobs, within_s=60)
    ref = f"refs/bullpen/{TEAM}/ann/1"
    assert ref in told(place, "bob")
    assert "half.txt" in git(place.project, "show", "--stat", "--format=", ref)
    # It is where it was, too.
    assert (tree_of(place, "ann") / "half.txt").read_text() == "half\n"
    assert not (tree_of(place, "bob") / "half.txt").exists()


async def test_a_task_that_was_taken_before_a_kill_is_begun_after_it(place: Place) -> None:
    """Between the claim and the tree there is a moment in which everything can end."""
    await merging(place)
    script = """
[[agents.ann.turns]]
contains = "go on"
steps = [
  {tool = "Bash", input = {command = "cat a.txt > saw"}},
  {tool = "TaskUpdate", input = {taskId = "1", status = "completed"}},
]
"""
    await plant(place, "ann", script, backend="in-process")
    await place.supervisor.stop("ann", by=LEAD, end="suspended")
    commit(place.project, {"a.txt": "newest\n"})
    await place.team.tasks.add("First", by=LEAD)
    await place.team.tasks.claim("1", by="ann")
    await place.supervisor.resume(by=LEAD)
    await place.team.mailbox.send("ann", "go on", sender=LEAD)
    record = (await in_status(place, "1", "completed")).facts.merge
    assert record is not None
    assert git(place.project, "show", f"{record.commit}:saw") == "newest"
    assert "Your worktree is" in told(place, "ann")


async def test_a_tree_is_named_where_agents_are_listed(place: Place) -> None:
    await plant(place, "ann", backend="in-process")
    (view,) = [each for each in await place.supervisor.agents() if each.name == "ann"]
    assert view.tree == str(tree_of(place, "ann"))
    assert transcript(place, "ann")
