"""Work that a forge merges is tested here as the forge would merge it, and nothing is merged."""

from __future__ import annotations

from functools import partial

import pytest

from bullpen.errors import BullpenError
from bullpen.protocol.task import Merge
from bullpen.team.tasks.merge_rules import proven_on
from bullpen.workspace.merge_queue.attempts import Wanted
from bullpen.workspace.merge_queue.prove import ForgeQueue
from bullpen.workspace.merge_queue.queue import Stepped
from support.git.repositories import commit, git
from support.git.yard import Yard, check


def queue_of(yard: Yard) -> ForgeQueue:
    return yard.queue_of(ForgeQueue)


async def proved(yard: Yard, task_id: str, onto: str, *, anew: bool = False) -> Stepped | None:
    return await queue_of(yard).prove(lambda: {task_id: Wanted(onto, anew)})


def what(record: Merge) -> list[tuple[str, bool | None]]:
    return [(step.what, step.passed) for step in record.steps]


async def test_what_passes_is_recorded_with_the_target_and_merged_nowhere(yard: Yard) -> None:
    task_id = await yard.work("ann", {"a.txt": "fine\n"})
    before = yard.target
    stepped = await proved(yard, task_id, before)
    assert stepped is not None
    assert (stepped.merged, stepped.returned, stepped.held) == ([], {}, None)
    record = await yard.record(task_id)
    assert record.state == "queued"
    assert proven_on(await yard.team.tasks.get(task_id), yard.settings) == before == yard.target
    assert what(record) == [("queued", None), ("tested", True)]
    # What passed is not tested again, unless it has to pass on a newer target.
    assert await proved(yard, task_id, "f" * 40) is None
    newer = yard.user_commits({"b.txt": "more\n"})
    assert await proved(yard, task_id, newer, anew=True) is not None
    assert proven_on(await yard.team.tasks.get(task_id), yard.settings) == newer


async def test_what_fails_with_the_target_goes_back_as_from_the_queue(yard: Yard) -> None:
    task_id = await yard.work("ann", {"a.txt": "BROKEN\n"})
    stepped = await proved(yard, task_id, yard.target)
    assert stepped is not None
    assert stepped.returned == {task_id: "checks"}
    task = await yard.team.tasks.get(task_id)
    assert (task.status, task.owner) == ("pending", "ann")
    mail = (await yard.team.mailbox.read("ann")).entries[-1].message
    assert "came back from the merge queue" in mail.text
    assert "BROKEN" in mail.text
    assert proven_on(await yard.team.tasks.get(task_id), yard.settings) is None


async def test_two_sides_that_are_fine_alone_and_fail_together_are_found(yard: Yard) -> None:
    """The target of the forge has gone on, and only the merge of both is broken."""
    alone = "test ! -e one.txt || test ! -e two.txt"
    task = await yard.take("ann", checks=[check(alone)])
    await yard.finish("ann", task, {"one.txt": "1\n"})
    assert (await proved(yard, task.id, yard.target)) is not None
    assert proven_on(await yard.team.tasks.get(task.id), yard.settings) == yard.target
    newer = yard.user_commits({"two.txt": "2\n"})
    stepped = await proved(yard, task.id, newer, anew=True)
    assert stepped is not None
    assert stepped.returned == {task.id: "checks"}


async def test_the_forges_commit_counts_wherever_the_target_here_is(yard: Yard) -> None:
    task_id = await yard.work("ann", {"a.txt": "fine\n"})
    git(yard.project, "checkout", "--quiet", "--detach")
    theirs = commit(yard.project, {"b.txt": "BROKEN\n"}, "theirs")
    git(yard.project, "checkout", "--quiet", "main")
    stepped = await proved(yard, task_id, theirs)
    assert stepped is not None
    assert stepped.returned == {}
    assert f"main itself fails at {theirs[:12]}" in (stepped.held or "")
    assert (await yard.record(task_id)).state == "queued"


async def test_a_conflict_with_the_forges_target_goes_back_with_its_files(yard: Yard) -> None:
    task_id = await yard.work("ann", {"a.txt": "ann\n"})
    theirs = yard.user_commits({"a.txt": "theirs\n"})
    stepped = await proved(yard, task_id, theirs)
    assert stepped is not None
    assert stepped.returned == {task_id: "conflict"}
    assert (await yard.record(task_id)).files == ["a.txt"]


async def test_it_is_in_nobodys_way(yard: Yard) -> None:
    """Our own queue, and what moves the target, may work during the tests."""
    task_id = await yard.work("ann", {"a.txt": "fine\n"})
    proofs = queue_of(yard)
    with proofs.locked(), yard.queue().locked():
        pass
    await proofs.prove(partial(dict, {task_id: Wanted(yard.target)}))
    assert (yard.project.parent / "queue" / "+forge").is_dir()


async def test_work_that_the_forges_target_has_already_goes_back(yard: Yard) -> None:
    task_id = await yard.work("ann", {"a.txt": "fine\n"})
    theirs = yard.user_commits({"a.txt": "fine\n"})
    stepped = await proved(yard, task_id, theirs)
    assert stepped is not None
    assert stepped.returned == {task_id: "nothing"}
    assert (await yard.team.tasks.get(task_id)).status == "pending"


async def test_a_commit_of_the_target_that_is_not_here_stops_nothing_for_good(yard: Yard) -> None:
    """The forge may have been force-pushed between two looks: the next one names another."""
    task_id = await yard.work("ann", {"a.txt": "fine\n"})
    with pytest.raises(BullpenError):
        await proved(yard, task_id, "f" * 40)
    assert await proved(yard, task_id, yard.target) is not None
    assert proven_on(await yard.team.tasks.get(task_id), yard.settings) == yard.target
