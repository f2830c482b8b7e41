"""The worker is killed at every write to the forge: nothing is written twice, nothing is lost."""

from __future__ import annotations

import pytest

from bullpen.runs.forge.pushes import BranchMoved
from support.forge.memory_forge import TEAM, MemoryPushes
from support.forge.shop import Shop

WRITES = 40
"""More than the story below makes: a kill that never comes changes nothing."""


async def story(shop: Shop) -> tuple[int, int]:
    """Two issues: one goes back because of CI and a thread, the other is merged at once."""
    first, second = shop.forge.issue("Add a cart"), shop.forge.issue("Add a till")
    await shop.step(2)
    for task_id in ("1", "2"):
        await shop.hand_in(task_id)
    await shop.step(3)
    pull = (await shop.work("1")).pull
    assert pull is not None
    shop.forge.verdict((await shop.work("1")).head or "", "test", "failure", tail="boom")
    shop.forge.verdict((await shop.work("2")).head or "", "test", "success")
    shop.forge.note(pull, "Rename this, please.")
    shop.forge.say(pull, "@bullpen-bot which version is this for?")
    await shop.step(5)
    assert (await shop.team.tasks.get("1")).status == "pending", shop.told
    again = await shop.hand_in("1", "[1] Fixed.\n[2] Renamed.\n[3] For 2.0.")
    shop.forge.verdict(again, "test", "success")
    await shop.step(10)
    return first, second


async def check(shop: Shop, first: int, second: int) -> None:
    """Everything is there once."""
    forge = shop.forge
    assert len(forge.pulls) == 2
    assert all(pull.merged for pull in forge.pulls.values()), shop.told
    for number in (first, second):
        assert not forge.all_issues[number].is_open
        assert len(forge.marked(number)) == 1
        assert forge.all_issues[number].labels == ("bullpen: merged",)
        assert "merged" in forge.marked(number)[0]
    pull = (await shop.work("1")).pull or 0
    (thread,) = forge.all_threads[pull]
    assert thread.resolved
    assert [each.author == TEAM for each in thread.comments] == [False, True]
    assert len(forge.marked(pull)) == 1
    assert set(forge.branches) == {"main"}
    assert all(task.status == "completed" for task in await shop.tasks())
    for task in await shop.tasks():
        assert all(each.state != "due" for each in (await shop.work(task.id)).writes)


async def test_the_story_without_a_kill_makes_fewer_writes_than_are_tried() -> None:
    shop = await Shop.open()
    await check(shop, *await story(shop))
    assert shop.restarts == 0
    assert len(shop.forge.writes) <= WRITES


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", range(WRITES))
async def test_a_kill_at_any_write_loses_and_repeats_nothing(at: int, after: bool) -> None:
    shop = await Shop.open()
    shop.forge.kill_at, shop.forge.kill_after = at, after
    await check(shop, *await story(shop))
    assert shop.restarts == (shop.forge.kill_at is None)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_a_kill_at_every_write_one_after_the_other_loses_nothing(after: bool) -> None:
    shop = await Shop.open()
    shop.forge.kill_every, shop.forge.kill_after = True, after
    first, second = shop.forge.issue("Add a cart"), shop.forge.issue("Add a till")
    await shop.step(15)
    for task_id in ("1", "2"):
        await shop.hand_in(task_id)
    await shop.step(25)
    for task_id in ("1", "2"):
        shop.forge.verdict((await shop.work(task_id)).head or "", "test", "success")
    await shop.step(40)
    assert shop.restarts > 10
    assert [pull.merged for pull in shop.forge.pulls.values()] == [True, True]
    for number in (first, second):
        assert len(shop.forge.marked(number)) == 1
        assert not shop.forge.all_issues[number].is_open


async def test_a_push_of_a_killed_worker_that_arrives_late_needs_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shop = await Shop.open()
    shop.forge.issue("Add a cart")
    await shop.step(2)
    push = MemoryPushes.push

    def late(self: MemoryPushes, branch: str, commit: str, *, expected: str | None) -> None:
        # Its git lived on, and came between our look and our push.
        push(self, branch, commit, expected=expected)
        raise BranchMoved(f"The branch {branch} was changed.")

    monkeypatch.setattr(MemoryPushes, "push", late)
    await shop.to_pull("1")
    assert (await shop.work("1")).person is None


async def test_a_comment_that_says_it_already_is_not_edited_again() -> None:
    shop = await Shop.open()
    shop.forge.issue("Add a cart")
    await shop.step(2)
    shop.forge.kill_at, shop.forge.kill_after = len(shop.forge.writes) + 2, True
    await shop.to_pull("1")
    await shop.step(2)
    assert shop.restarts == 1
    edits = [each for each in shop.forge.writes if each.startswith("edit")]
    assert len(edits) == 1
