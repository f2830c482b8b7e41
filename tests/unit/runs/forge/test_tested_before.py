"""What the forge gets and merges has passed our gate, and no issue is closed without a change."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bullpen.protocol.clock import now_ms
from bullpen.protocol.names import LEAD
from bullpen.runs.forge import outbox
from bullpen.runs.forge.landing.proofs import NO_GATE, NO_TESTS
from bullpen.runs.forge.looking import looks
from bullpen.team.forge.outbox_rules import Wish
from bullpen.team.forge.work_rules import CI_SILENT, NOT_OURS, NOT_TESTED
from support.forge.shop import Shop

BEFORE = "0" * 40
MOVED = "9" * 40


async def gated(**settings: object) -> Shop:
    shop = await Shop.open(**settings)
    await shop.set_gate()
    return shop


async def test_no_pull_request_is_opened_before_the_gate_passed_with_the_target() -> None:
    shop = await gated()
    shop.forge.issue("Add a cart")
    await shop.step()
    await shop.hand_in("1")
    await shop.step(5)
    assert (await shop.work("1")).pull is None
    assert shop.branch("1") not in shop.forge.branches
    assert shop.forge.count()["push"] == 0
    assert await shop.test() == [("1", BEFORE)]
    await shop.step(2)
    number = (await shop.work("1")).pull
    assert number is not None
    (said,) = [line for line in shop.forge.pulls[number].body.split("\n") if "merge gate" in line]
    assert said.startswith("The merge gate and the task's checks passed with this work on ")
    assert BEFORE[:12] in said


async def test_nothing_is_merged_on_a_target_that_the_gate_has_not_seen_with_it() -> None:
    shop = await gated()
    shop.forge.issue("Add a cart")
    await shop.step()
    await shop.hand_in("1")
    await shop.step()
    await shop.test()
    await shop.step(2)
    shop.forge.branches["main"] = MOVED
    shop.forge.verdict((await shop.work("1")).head or "", "test", "success")
    await shop.step(6)
    assert shop.forge.count()["merge"] == 0
    assert await shop.test() == [("1", MOVED)]
    await shop.step(4)
    assert shop.forge.count()["merge"] == 1
    assert (await shop.work("1")).outcome == "merged"


async def test_a_target_that_moves_between_the_test_and_the_merge_is_tested_again() -> None:
    shop = await gated()
    shop.forge.issue("Add a cart")
    await shop.step()
    await shop.hand_in("1")
    await shop.step()
    await shop.test()
    await shop.step(2)
    shop.forge.verdict((await shop.work("1")).head or "", "test", "success")
    client = type(shop.worker._connection.client)  # type: ignore[union-attr]
    look = client.branch_head
    seen: list[str] = []

    async def moves(self: object, branch: str) -> str | None:
        found = await look(self, branch)  # type: ignore[arg-type]
        if branch == "main":
            # Somebody pushes right after it was read.
            seen.append(str(found))
            shop.forge.branches["main"] = MOVED
        return found

    client.branch_head = moves  # type: ignore[method-assign]
    try:
        await shop.step(4)
    finally:
        client.branch_head = look  # type: ignore[method-assign]
    assert seen[0] == BEFORE
    assert shop.forge.count()["merge"] == 0
    assert await shop.test() == [("1", MOVED)]
    await shop.step(4)
    assert shop.forge.count()["merge"] == 1


async def test_one_task_at_a_time_is_tested_again_for_its_merge() -> None:
    shop = await gated()
    for name in ("One", "Two", "Three"):
        shop.forge.issue(name)
    await shop.step()
    for task_id in ("1", "2", "3"):
        await shop.hand_in(task_id)
    await shop.step()
    assert len(await shop.test()) == 3
    await shop.step(2)
    shop.forge.branches["main"] = MOVED
    for task_id in ("1", "2", "3"):
        shop.forge.verdict((await shop.work(task_id)).head or "", "test", "success")
    tested = 0
    for _ in range(30):
        await shop.step()
        tested += len(await shop.test())
    works = [await shop.work(task_id) for task_id in ("1", "2", "3")]
    assert [work.outcome for work in works] == ["merged"] * 3
    assert tested == 3


async def test_work_that_comes_back_is_tested_again_before_it_is_pushed() -> None:
    shop = await gated()
    shop.forge.issue("Add a cart")
    await shop.step()
    first = await shop.hand_in("1")
    await shop.step()
    await shop.test()
    await shop.step(2)
    shop.forge.verdict(first, "test", "failure", tail="assert 1 == 2")
    await shop.step(5)
    assert (await shop.team.tasks.get("1")).status == "pending"
    await shop.hand_in("1")
    await shop.step(3)
    assert shop.forge.branches[shop.branch("1")] == first
    await shop.test()
    await shop.step(3)
    assert shop.forge.branches[shop.branch("1")] != first


async def test_a_team_without_a_gate_says_at_its_start_what_is_merged() -> None:
    shop = await Shop.open()
    await shop.step(3)
    assert shop.told.count(NO_TESTS) == 1
    assert NO_TESTS in await shop.worker.needs()
    with_ci = await Shop.open()
    with_ci.forge.verdict(BEFORE, "test", "success")
    await with_ci.step(3)
    assert with_ci.told.count(NO_GATE) == 1
    assert await with_ci.worker.needs() == []
    for shop in (await gated(), await Shop.open(merge="queue")):
        await shop.step(3)
        assert not {NO_GATE, NO_TESTS} & set(shop.told)


async def test_who_waits_for_ci_that_is_silent_goes_on_when_it_speaks() -> None:
    shop = await Shop.open()
    shop.forge.issue("Add a cart")
    await shop.step()
    pull = await shop.to_pull("1")
    await shop.team.forge.hold("1", NOT_TESTED)
    await shop.step(3)
    assert shop.forge.all_issues[1].labels == ("bullpen: needs you",)
    assert NOT_TESTED.split(":")[0] in shop.forge.marked(1)[0]
    assert "#1" in (shop.worker.held().trouble or "")
    shop.forge.verdict((await shop.work("1")).head or "", "test", "success")
    await shop.step(6)
    assert shop.forge.pulls[pull].merged
    assert shop.worker.held().trouble is None


async def test_a_task_that_was_completed_without_a_change_closes_no_issue() -> None:
    shop = await Shop.open()
    number = shop.forge.issue("Impossible thing")
    await shop.step()
    task = await shop.team.tasks.claim("1", by="ann")
    report = "Not possible as written. Would a running total do?"
    await shop.team.tasks.done("1", by="ann", attempt=task.facts.attempt, report=report)
    await shop.step(4)
    issue = shop.forge.all_issues[number]
    assert issue.is_open
    assert issue.labels == ("bullpen: needs you",)
    (said,) = shop.forge.marked(number)
    assert "completed without a change" in said
    assert "> Not possible as written. Would a running total do?" in said
    assert (await shop.work("1")).outcome is None
    assert sum("needs you: it was completed without a change" in line for line in shop.told) == 1
    assert not await shop.worker.more()
    # A person sends it back, and its next work is merged as any other.
    await shop.team.forge.resume("1", by=LEAD, voice="human")
    assert (await shop.team.tasks.get("1")).status == "pending"
    await shop.to_pull("1")
    shop.forge.verdict((await shop.work("1")).head or "", "test", "success")
    await shop.step(6)
    assert not shop.forge.all_issues[number].is_open


async def test_a_person_who_closes_the_issue_ends_it_and_opening_it_again_sends_it_back() -> None:
    shop = await Shop.open()
    number = shop.forge.issue("Impossible thing")
    await shop.step()
    await shop.team.tasks.claim("1", by="ann")
    await shop.team.tasks.done("1", by="ann", report="There is nothing to do.")
    await shop.step(3)
    shop.forge.close_by_hand(number)
    await shop.step(3)
    assert (await shop.work("1")).outcome == "issue_closed"
    assert "its issue was closed" in shop.forge.marked(number)[0]
    shop.forge.reopen_by_hand(number)
    await shop.step(3)
    assert (await shop.team.tasks.get("1")).status == "pending"


async def ready_to_merge(shop: Shop) -> int:
    """Bring one task to a pull request that passed the gate, and that CI has passed."""
    shop.forge.issue("Add a cart")
    await shop.step()
    await shop.hand_in("1")
    await shop.step()
    await shop.test()
    await shop.step(2)
    number = (await shop.work("1")).pull
    assert number is not None
    return number


def passes(shop: Shop, head: str | None) -> None:
    shop.forge.verdict(head or "", "test", "success")


async def test_another_gate_that_is_set_after_the_tests_is_passed_before_the_merge() -> None:
    shop = await gated()
    await ready_to_merge(shop)
    await shop.set_gate("make test")
    passes(shop, (await shop.work("1")).head)
    await shop.step(6)
    assert shop.forge.count()["merge"] == 0
    assert await shop.test() == [("1", BEFORE)]
    await shop.step(4)
    assert (await shop.work("1")).outcome == "merged"


async def test_a_restart_between_the_tests_and_the_merge_tests_nothing_twice() -> None:
    shop = await gated()
    await ready_to_merge(shop)
    shop.start()
    passes(shop, (await shop.work("1")).head)
    await shop.step(6)
    assert await shop.test() == []
    assert (await shop.work("1")).outcome == "merged"


async def test_a_merge_that_was_decided_before_a_long_pause_is_decided_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was right then may be wrong now: CI runs again since, while nothing ran here."""
    shop = await gated()
    await ready_to_merge(shop)
    head = (await shop.work("1")).head or ""
    passes(shop, head)
    await shop.team.forge.begin("1", [Wish("merge", head, head)])
    shop.start()
    shop.forge.verdict(head, "test", "pending")
    later = 3_600_000
    monkeypatch.setattr(outbox, "now_ms", lambda: now_ms() + later)
    await shop.step(6)
    assert shop.forge.count()["merge"] == 0
    later = 0
    passes(shop, head)
    await shop.step(6)
    assert shop.forge.count()["merge"] == 1


async def test_a_merge_that_was_decided_is_not_made_when_the_work_came_back_since() -> None:
    shop = await gated()
    await ready_to_merge(shop)
    task = await shop.team.tasks.get("1")
    head, record = (await shop.work("1")).head or "", task.facts.merge
    assert record is not None
    await shop.team.forge.begin("1", [Wish("merge", head, head)])
    await shop.team.merges.give_back("1", record.attempt, "checks", "it fails")
    await shop.step(4)
    assert shop.forge.count()["merge"] == 0


async def test_a_pull_request_that_somebody_lets_go_to_another_branch_is_not_merged() -> None:
    shop = await gated(target=None)
    number = await ready_to_merge(shop)
    shop.forge.pulls[number] = replace(shop.forge.pulls[number], base="release")
    passes(shop, (await shop.work("1")).head)
    await shop.step(6)
    assert shop.forge.count()["merge"] == 0
    assert (await shop.work("1")).person == "its pull request goes to another branch"


async def test_what_others_pushed_is_not_merged_by_what_our_own_work_passed() -> None:
    shop = await gated()
    await ready_to_merge(shop)
    theirs = "8" * 40
    shop.forge.branches[shop.branch("1")] = theirs
    await shop.step(3)
    assert (await shop.work("1")).person == "others pushed to its branch"
    await shop.team.forge.resume("1", by=LEAD, voice="human", head=theirs)
    passes(shop, theirs)
    await shop.step(6)
    assert shop.forge.count()["merge"] == 0
    assert (await shop.work("1")).person == NOT_OURS


async def test_what_the_rules_of_the_forge_block_is_not_merged_although_the_token_could() -> None:
    shop = await gated()
    number = await ready_to_merge(shop)
    shop.forge.pulls[number] = replace(shop.forge.pulls[number], blocked=True)
    passes(shop, (await shop.work("1")).head)
    await shop.step(10)
    assert shop.forge.count()["merge"] == 0
    (need,) = [each for each in await shop.worker.needs() if "task #1" in each]
    assert "a required check or approval is missing" in need
    shop.forge.pulls[number] = replace(shop.forge.pulls[number], blocked=False)
    await shop.step(20)
    assert (await shop.work("1")).outcome == "merged"
    assert not [each for each in await shop.worker.needs() if "task #1" in each]


async def test_ci_that_speaks_on_the_target_has_to_speak_about_the_first_pull_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing else was seen since the worker began: it may be the only work of a night."""
    shop = await gated()
    shop.forge.verdict(BEFORE, "test", "success")
    await ready_to_merge(shop)
    after = 0
    monkeypatch.setattr(looks, "now_ms", lambda: now_ms() + after)
    after = 300_000
    await shop.step(4)
    assert shop.forge.count()["merge"] == 0
    assert (await shop.work("1")).person is None
    after = 700_000
    await shop.step(4)
    assert shop.forge.count()["merge"] == 0
    assert (await shop.work("1")).person == CI_SILENT
    passes(shop, (await shop.work("1")).head)
    await shop.step(6)
    assert (await shop.work("1")).outcome == "merged"
