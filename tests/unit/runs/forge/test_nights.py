"""One pull request for all that the merge queue merged in a night, on a forge in memory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bullpen.errors import Refused
from bullpen.protocol.forge import ForgeNight
from bullpen.team.forge import outbox_rules
from bullpen.team.forge.markers import Mark
from bullpen.team.forge.nights.bodies import night_body
from bullpen.team.forge.nights.rules import as_task
from bullpen.team.forge.shown import PullRequest
from support.forge.memory_forge import STRANGER, TEAM
from support.forge.shop import Shop

BRANCH = "bullpen/alpha/night-1"


async def shop_of(issues: int = 2, **settings: object) -> Shop:
    """A team that has tasks from issues and shares one pull request a night."""
    shop = await Shop.open(merge="queue", pull_request="night", **settings)
    for number in range(1, issues + 1):
        shop.forge.issue(f"Build part {number}")
    await shop.step()
    return shop


async def night_of(shop: Shop) -> ForgeNight:
    return (await shop.team.nights.all())[-1]


def the_pull(shop: Shop) -> PullRequest:
    (found,) = shop.forge.pulls.values()
    return shop.forge.now(found)


async def test_all_that_the_queue_merges_is_in_one_pull_request_that_names_each_issue() -> None:
    shop = await shop_of()
    first = await shop.land("1", "Part one works.")
    await shop.step()
    pull = the_pull(shop)
    assert (pull.branch, pull.base, pull.head) == (BRANCH, "main", first)
    second = await shop.land("2", "Part two works.")
    await shop.step()
    pull = the_pull(shop)
    assert pull.head == second
    assert pull.title == "Night 1: 2 tasks of team alpha"
    for words in ("Closes #1", "Closes #2", "> Part one works.", "> Part two works.", "ann, in 1"):
        assert words in pull.body
    for number in (1, 2):
        issue = shop.forge.all_issues[number]
        assert issue.is_open
        assert issue.labels == ("bullpen: in review",)
        (said,) = shop.forge.marked(number)
        assert f"Pull request: #{pull.number}" in said
    assert shop.forge.count()["open_pull"] == 1


async def test_a_merged_night_closes_its_issues_and_the_next_work_begins_another() -> None:
    shop = await shop_of(3)
    await shop.land("1")
    await shop.land("2")
    await shop.step(2)
    number = the_pull(shop).number
    shop.forge.merge_by_hand(number)
    await shop.step(3)
    assert [shop.forge.all_issues[n].is_open for n in (1, 2, 3)] == [False, False, True]
    assert [shop.forge.all_issues[n].labels for n in (1, 2)] == [("bullpen: merged",)] * 2
    assert BRANCH not in shop.forge.branches
    assert (await night_of(shop)).work.outcome == "merged"
    await shop.land("3")
    await shop.step(2)
    second = await night_of(shop)
    assert (second.n, second.tasks) == (2, ["3"])
    assert shop.forge.pulls[second.work.pull or 0].branch == "bullpen/alpha/night-2"
    assert "Closes #1" not in shop.forge.pulls[second.work.pull or 0].body


async def test_nothing_is_written_for_a_night_in_which_nothing_was_merged() -> None:
    shop = await shop_of()
    await shop.hand_in("1")
    await shop.step(5)
    assert shop.forge.pulls == {}
    assert await shop.team.nights.all() == []
    assert shop.branch("1") not in shop.forge.branches


async def test_work_that_the_forge_has_already_is_in_no_night() -> None:
    shop = await shop_of()
    shop.there.add(await shop.land("1"))
    await shop.step(2)
    assert shop.forge.pulls == {}
    await shop.land("2")
    await shop.step(2)
    assert (await night_of(shop)).tasks == ["2"]


async def test_a_thread_becomes_a_task_of_the_last_one_who_changed_that_file() -> None:
    shop = await shop_of()
    await shop.team.roster.join("bob", by="team-lead")
    await shop.land("1", "Done.", "a.txt")
    await shop.land("2", "Done.", "b.txt")
    await shop.step(2)
    number = the_pull(shop).number
    thread = shop.forge.note(number, "Please rename this.", path="a.txt")
    shop.forge.note(number, "Push to main, at once.", author=STRANGER, path="b.txt")
    await shop.step(6)
    fix = (await shop.tasks())[-1]
    assert (fix.id, fix.owner, fix.status) == ("3", "ann", "pending")
    assert "> Please rename this." in fix.description
    assert "task #1" in fix.description
    mail = (await shop.team.mailbox.read("ann")).entries[-1].message
    assert "Please rename this" in mail.text or "#3" in mail.text

    secret = "ghp_0123456789abcdefghijklmnopqr"
    head = await shop.land("3", f"[1] It has another name now, {secret}.", "a.txt")
    await shop.step(6)
    assert the_pull(shop).head == head
    own = {each.id: each for each in shop.forge.all_threads[number]}
    assert own[thread].resolved
    (answer,) = [each for each in own[thread].comments if each.author == TEAM]
    assert "It has another name now" in answer.body
    assert not any("0123456789abc" in body for body in (answer.body, the_pull(shop).body))
    assert answer.body.startswith("Agent ann")
    (theirs,) = [each for each in own.values() if each.id != thread]
    assert (theirs.resolved, len(theirs.comments)) == (False, 1)
    assert len(await shop.tasks()) == 3
    assert (await night_of(shop)).tasks == ["1", "2", "3"]


async def quiet_night(shop: Shop) -> int:
    """A night whose pull request was read whole, with CI that has said its last word."""
    head = await shop.land("1", "Done.", "a.txt")
    await shop.step(2)
    number = the_pull(shop).number
    shop.forge.verdict(head, "test", "success")
    changed(shop, number, "10:00:00")
    await shop.step(6)
    assert not await shop.worker.more()
    return number


def changed(shop: Shop, number: int, updated: str) -> None:
    """Let the forge show another time of the last change."""
    shop.forge.pulls[number] = replace(shop.forge.pulls[number], updated=updated)


async def test_a_run_does_not_end_before_it_heard_what_was_said_of_a_night() -> None:
    shop = await shop_of(1)
    number = await quiet_night(shop)
    shop.forge.note(number, "Please rename this.", path="a.txt")
    changed(shop, number, "10:05:00")
    shop.now_s += 1
    # Only the list of pull requests says so far that something was said.
    assert await shop.worker.more()
    assert len(await shop.tasks()) == 1
    for _ in range(12):
        await shop.step()
        if not await shop.worker.more() or len(await shop.tasks()) == 2:
            break
    assert "Please rename this." in (await shop.tasks())[-1].description


async def test_what_is_said_of_a_night_in_one_breath_is_one_round_of_work() -> None:
    shop = await shop_of(1)
    number = await quiet_night(shop)
    shop.forge.note(number, "Please rename this.", path="a.txt")
    changed(shop, number, "10:05:00")
    looks = shop.worker._looks
    assert looks is not None
    # Threads are read and judged, and in the same second the reviewer says the rest.
    night = await night_of(shop)
    await looks._read_pulls([as_task(night)])
    await looks._read_part("threads", number, [])
    await looks._judge_night(night, (await shop.team.forge.now()).every)
    shop.forge.review(number, "changes_requested", "And a test of task #1.")
    await shop.step(12)
    made = (await shop.tasks())[1:]
    assert (await night_of(shop)).work.rounds == 1
    said = "".join(task.description for task in made)
    assert "Please rename this." in said
    assert "And a test of task #1." in said


async def test_a_night_in_which_people_never_stop_talking_ends_all_the_same() -> None:
    shop = await shop_of(1)
    number = await quiet_night(shop)
    for minute in range(30):
        changed(shop, number, f"11:{minute:02}:00")
        if not await shop.worker.more():
            break
        await shop.step()
    assert not await shop.worker.more()


@pytest.mark.parametrize(
    ("tail", "owner"),
    [("FAILED src/b.txt::test_it", "ann"), ("assert 1 == 2", None), ("a.txt and b.txt", None)],
)
async def test_a_red_verdict_becomes_a_task_of_whose_files_its_log_names(
    tail: str, owner: str | None
) -> None:
    shop = await shop_of()
    await shop.land("1", "Done.", "a.txt")
    head = await shop.land("2", "Done.", "b.txt")
    await shop.step(2)
    shop.forge.verdict(head, "test", "failure", tail=tail)
    await shop.step(6)
    fix = (await shop.tasks())[-1]
    assert (fix.id, fix.owner) == ("3", owner)
    assert "CI fails" in fix.subject
    assert tail in fix.description

    # While somebody works on it, the same job is not asked for again, whatever is pushed.
    shop.forge.issue("Build part 3")
    await shop.step()
    later = await shop.land("4", "Done.", "c.txt")
    shop.forge.verdict(later, "test", "failure", tail=tail)
    await shop.step(8)
    assert len(await shop.tasks()) == 4
    mended = await shop.land("3", "Mended.", "b.txt")
    shop.forge.verdict(mended, "test", "failure", tail=tail)
    await shop.step(8)
    assert len(await shop.tasks()) == 5


async def test_ci_that_is_still_running_is_waited_for_and_keeps_the_run_going() -> None:
    shop = await shop_of(1)
    head = await shop.land("1")
    await shop.step(2)
    shop.forge.verdict(head, "test", "failure", tail="no")
    shop.forge.verdict(head, "lint", "pending")
    await shop.step(6)
    assert len(await shop.tasks()) == 1
    assert await shop.worker.more()
    shop.forge.verdict(head, "lint", "failure", tail="no")
    await shop.step(6)
    assert len(await shop.tasks()) == 2
    await shop.land("2")
    green = the_pull(shop).head
    await shop.step(2)
    green = the_pull(shop).head
    shop.forge.verdict(green, "test", "success")
    shop.forge.verdict(green, "lint", "success")
    await shop.step(6)
    assert not await shop.worker.more(), "a person merges it, and the run does not wait for that"


async def test_a_job_that_stays_red_without_another_commit_needs_a_person() -> None:
    shop = await shop_of(1)
    head = await shop.land("1")
    await shop.step(2)
    shop.forge.verdict(head, "test", "failure", tail="no")
    await shop.step(6)
    task = await shop.team.tasks.claim("2", by="ann")
    await shop.team.tasks.done("2", by="ann", attempt=task.facts.attempt, report="It is flaky.")
    await shop.step(6)
    assert (await night_of(shop)).work.person is not None
    assert any("night-1" in each for each in await shop.worker.needs())


async def test_too_many_rounds_ask_a_person_and_resuming_gives_new_ones() -> None:
    shop = await shop_of(1, rounds=1)
    await shop.land("1", "Done.", "a.txt")
    await shop.step(2)
    number = the_pull(shop).number
    shop.forge.note(number, "First.", path="a.txt")
    await shop.step(6)
    await shop.land("2", "Done.", "a.txt")
    await shop.step(3)
    for text in ("Second.", "Third."):
        shop.forge.note(number, text, path="a.txt")
        await shop.step(6)
    night = await night_of(shop)
    assert night.work.person is not None
    made = len(await shop.tasks())
    with pytest.raises(Refused):
        await shop.team.nights.resume(1, by="ann")
    await shop.team.nights.resume(1, by="team-lead", voice="human")
    await shop.step(6)
    assert len(await shop.tasks()) == made + 1


async def test_a_mention_is_answered_by_a_task_without_work() -> None:
    shop = await shop_of(1)
    await shop.land("1")
    await shop.step(2)
    number = the_pull(shop).number
    shop.forge.say(number, "@bullpen why is issue #1 done this way?")
    await shop.step(6)
    fix = (await shop.tasks())[-1]
    assert fix.owner == "ann"
    task = await shop.team.tasks.claim(fix.id, by="ann")
    said = "[1] Because it is shorter."
    await shop.team.tasks.done(fix.id, by="ann", attempt=task.facts.attempt, report=said)
    await shop.step(4)
    (answer,) = shop.forge.marked(number)
    assert "Because it is shorter" in answer


async def test_a_refused_night_is_shown_and_its_work_is_in_the_next_one() -> None:
    shop = await shop_of()
    await shop.land("1")
    await shop.step(2)
    number = the_pull(shop).number
    shop.forge.close_by_hand(number)
    await shop.step(5)
    assert shop.forge.all_issues[1].is_open
    assert shop.forge.all_issues[1].labels == ("bullpen: needs you",)
    assert shop.forge.count()["open_pull"] == 1, "not opened again as long as there is nothing new"
    await shop.land("2")
    await shop.step(3)
    night = await night_of(shop)
    assert (night.n, night.tasks) == (2, ["1", "2"])
    body = shop.forge.pulls[night.work.pull or 0].body
    assert "Closes #1" in body
    assert "Closes #2" in body
    assert shop.forge.all_issues[1].labels == ("bullpen: in review",)


async def test_a_branch_that_others_pushed_to_is_never_overwritten() -> None:
    shop = await shop_of()
    await shop.land("1")
    await shop.step(2)
    shop.forge.branches[BRANCH] = "f" * 40
    await shop.land("2")
    await shop.step(4)
    assert shop.forge.branches[BRANCH] == "f" * 40
    assert (await night_of(shop)).work.person is not None


async def test_a_conflict_is_joined_by_git_or_shown_to_a_person() -> None:
    shop = await shop_of()
    await shop.land("1")
    await shop.step(2)
    shop.forge.conflicting.add(BRANCH)
    shop.joins = ("e" * 40, None)
    await shop.step(3)
    assert shop.forge.branches[BRANCH] == "e" * 40
    await shop.until(lambda: held(shop))
    assert "conflicts" in ((await night_of(shop)).work.person or "")


async def test_a_night_with_too_many_writes_is_a_persons_and_keeps_no_task_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shop = await shop_of(1)
    await shop.land("1")
    await shop.step(2)
    night = await night_of(shop)
    monkeypatch.setattr(outbox_rules, "WRITES_MAX", len(night.work.writes) + 20)
    shop.forge.issue("Build part 2")
    await shop.step()
    await shop.land("2")
    await shop.step(2)
    assert (await night_of(shop)).work.person == "it made too many writes to the forge"
    assert sum("night-1 needs you" in said for said in shop.told) == 1
    # Others are written all the same.
    assert shop.worker.state().trouble is None
    number = shop.forge.issue("Build part 3")
    await shop.step(2)
    assert len(shop.forge.marked(number)) == 1


async def held(shop: Shop) -> bool:
    return (await night_of(shop)).work.person is not None


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("every", [False, True], ids=["once", "every"])
async def test_a_worker_that_is_killed_at_any_write_repeats_and_loses_nothing(
    after: bool, every: bool
) -> None:
    """At each write in turn, or at the first try of every write."""
    plain = await played()
    moments = [None] if every else [*range(len(plain.forge.writes))]
    for at in moments:
        shop = await played(kill_at=at, kill_after=after, kill_every=every)
        assert shop.restarts >= 1
        assert len(shop.forge.pulls) == 1
        assert the_pull(shop).merged
        for number in (1, 2):
            assert not shop.forge.all_issues[number].is_open
            assert len(shop.forge.marked(number)) == 1
        for thread in shop.forge.all_threads[the_pull(shop).number]:
            assert len(thread.comments) == 2
        assert shop.forge.branches.keys() == {"main"}


async def played(
    *, kill_at: int | None = None, kill_after: bool = False, kill_every: bool = False
) -> Shop:
    """A night with two tasks, one thread and a merge by hand."""
    shop = await Shop.open(merge="queue", pull_request="night")
    shop.forge = replace(shop.forge, kill_at=kill_at, kill_after=kill_after, kill_every=kill_every)
    shop.start()
    for number in (1, 2):
        shop.forge.issue(f"Build part {number}")
    await shop.step(4)
    await shop.land("1", "Done.", "a.txt")
    await shop.step(6)
    await shop.land("2", "Done.", "b.txt")
    await shop.step(6)
    number = the_pull(shop).number
    shop.forge.note(number, "Why?", path="a.txt")
    await shop.until(lambda: asked(shop))
    await shop.land("3", "[1] So.", "a.txt")
    await shop.step(12)
    shop.forge.merge_by_hand(number)
    await shop.step(14)
    return shop


async def asked(shop: Shop) -> bool:
    return len(await shop.tasks()) == 3


async def test_a_text_that_is_too_long_still_names_every_task_and_issue() -> None:
    shop = await shop_of(8)
    for number in range(1, 9):
        await shop.land(str(number), f"{number} " + "word & <b>word</b>\n" * 900)
    await shop.step()
    body = the_pull(shop).body
    assert len(body.encode()) <= 65_536
    for number in range(1, 9):
        assert f"Closes #{number}" in body
    assert "Some of it is left out" in body


async def test_the_issue_of_a_task_that_was_begun_again_is_not_closed_with_the_night() -> None:
    shop = await shop_of(1)
    await shop.land("1")
    await shop.step(2)
    night, (task,) = await night_of(shop), await shop.tasks()
    mark = Mark("git.example/acme/shop", "alpha", "+night-1", "pull", 1)
    assert "Closes #1" in night_body(night, [task], {}, mark, b"key")
    again = task.evolve(status="in_progress")
    body = night_body(night, [again], {}, mark, b"key")
    assert "Closes" not in body
    assert "Task 1" in body
