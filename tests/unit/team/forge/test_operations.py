"""Work on a forge in the team's records: each step is one commit, and agents may do none."""

from __future__ import annotations

import pytest

from bullpen.errors import Refused
from bullpen.protocol.forge import ForgeAsked
from bullpen.protocol.names import LEAD
from bullpen.protocol.task import Task
from bullpen.team.forge.operations import Forge
from bullpen.team.forge.outbox_rules import Wish
from bullpen.team.forge.wishes import wishes_of
from bullpen.team.forge.work_rules import Heard
from bullpen.team.operation import operations_of
from bullpen.team.tasks.check_rules import is_done, is_queued
from bullpen.team.team import Team
from bullpen.view.news import news
from bullpen.view.notable_events import happenings
from bullpen.view.sentences import happened

from .forge_teams import (
    BRANCH,
    HEAD,
    NEXT,
    REPOSITORY,
    SETTINGS,
    draft,
    forge_of,
    hand_in,
    mail_of,
    push,
    team_on_forge,
)

THREAD = ForgeAsked.new(number=1, kind="thread", heard="c1", target="t1")
COMMENT = ForgeAsked.new(number=2, kind="comment", heard="c2", target="5")
HEARD = Heard((THREAD, COMMENT), "[1] > Why?\n\n[2] > And?", head=HEAD)


async def pushed(**settings: object) -> Team:
    team = await team_on_forge(**settings)
    await team.forge.take([draft(7)])
    await hand_in(team, "1", HEAD)
    await push(team, "1")
    return team


async def one(team: Team) -> Task:
    return await team.tasks.get("1")


async def test_issues_become_tasks_once_with_what_they_wait_for() -> None:
    team = await team_on_forge()
    made = await team.forge.take([draft(3, 2), draft(2)])
    assert [(task.facts.source, task.blocked_by) for task in made] == [
        (f"forge:{REPOSITORY}#2", []), (f"forge:{REPOSITORY}#3", ["1"]),
    ]  # fmt: skip
    assert forge_of(made[0]).issue == 2
    assert await team.forge.take([draft(3, 2), draft(2)]) == []
    (later,) = await team.forge.take([draft(4, 2, 3)])
    assert later.blocked_by == ["1", "2"]
    assert (await team.tasks.get("2")).blocks == ["3"]


async def test_only_a_person_says_which_forge_is_used_and_lets_work_go_on() -> None:
    team = await pushed()
    with pytest.raises(Refused) as refused:
        await team.forge.configure(SETTINGS, by=LEAD)
    assert refused.value.reason == "not_a_person"
    with pytest.raises(Refused) as refused:
        await team.forge.resume("1", by="bob")
    assert refused.value.reason == "not_a_person"
    with pytest.raises(Refused) as refused:
        await team.forge.configure(SETTINGS, by="bob", voice="human")
    assert refused.value.reason == "not_lead"
    assert await team.forge.settings() == SETTINGS
    assert await team.forge.configure(None, by=LEAD, voice="human") is None
    assert await team.forge.settings() is None


async def test_damaged_settings_are_an_error_and_not_none() -> None:
    team = await team_on_forge()
    await team.forge._change_facts(
        lambda facts, _: type(facts).parse({**facts.raw, "forge": {"kind": "gitea"}}),
        by=LEAD,
        op="test",
    )
    with pytest.raises(ValueError, match="repository"):
        await team.forge.settings()


async def test_a_task_without_an_issue_may_go_to_the_forge_too() -> None:
    team = await team_on_forge()
    await team.tasks.add("Mine", by=LEAD)
    assert wishes_of(await one(team), SETTINGS, BRANCH) == []
    await hand_in(team, "1", HEAD)
    assert [each.kind for each in wishes_of(await one(team), SETTINGS, BRANCH)] == ["push"]
    work = forge_of(await push(team, "1"))
    assert (work.repository, work.issue, work.pull, work.head) == (REPOSITORY, None, 12, HEAD)


async def test_a_push_and_a_pull_request_are_recorded_with_what_they_are() -> None:
    team = await pushed()
    work = forge_of(await one(team))
    assert (work.pull, work.branch, work.head, work.attempt) == (12, BRANCH, HEAD, 1)
    assert [each.kind for each in wishes_of(await one(team), SETTINGS, BRANCH)] == ["state"]


async def test_returned_work_is_its_owners_again_who_is_told_in_the_same_commit() -> None:
    team = await pushed()
    back = await team.forge.give_back("1", HEARD)
    assert (back.status, back.owner) == ("pending", "bob")
    assert back.facts.released == "came back from the forge"
    merge = back.facts.merge
    assert merge is not None
    assert (merge.state, merge.why) == ("returned", "review")
    (text,) = await mail_of(team, "bob")
    assert text.startswith("Task #1 came back from the forge: reviewers ask for changes.")
    assert text.endswith(HEARD.text)
    last = (await team.events())[-1]
    assert (last.op, last.actor, len(last.changes)) == ("forge.return", LEAD, 2)


async def test_the_same_words_late_or_about_another_head_return_nothing() -> None:
    team = await pushed()
    old = Heard((THREAD,), "> Why?", head=NEXT)
    assert (await team.forge.give_back("1", old)).status == "completed"
    await team.forge.give_back("1", HEARD)
    before = await team.last_seq()
    await team.forge.give_back("1", HEARD)
    await hand_in(team, "1", NEXT)
    await push(team, "1")
    await team.forge.give_back("1", Heard(HEARD.asked, "again"))
    assert is_queued(await one(team))
    assert len(await mail_of(team, "bob")) == 1
    ops = [event.op for event in await team.events(after=before)]
    assert "forge.return" not in ops


async def test_an_older_list_of_a_thread_returns_nothing_that_came_back_with_it() -> None:
    team = await pushed()
    newest = ForgeAsked.new(number=1, kind="thread", heard="c3", also=["c1", "c2"], target="t1")
    await team.forge.give_back("1", Heard((newest,), "> All three."))
    await hand_in(team, "1", NEXT)
    await push(team, "1")
    for known in ("c1", "c2", "c3"):
        older = ForgeAsked.new(number=1, kind="thread", heard=known, target="t1")
        assert is_queued(await team.forge.give_back("1", Heard((older,), "> Once more.")))
    assert len(await mail_of(team, "bob")) == 1


async def test_after_the_next_push_every_word_is_answered_and_its_thread_resolved() -> None:
    team = await pushed()
    await team.forge.give_back("1", HEARD)
    await hand_in(team, "1", NEXT, report="[1] Renamed.\n[2] Yes.")
    work = forge_of(await push(team, "1"))
    due = [(each.kind, each.target, each.text) for each in work.writes if each.state == "due"]
    assert due == [
        ("reply", "t1", "Renamed."), ("resolve", "t1", None), ("answer", "5", "Yes."),
    ]  # fmt: skip
    assert list(work.asked) == []
    again = forge_of(await push(team, "1"))
    assert again.writes == work.writes


async def test_without_another_commit_a_thread_is_answered_and_stays_open() -> None:
    team = await pushed()
    await team.forge.give_back("1", HEARD)
    await hand_in(team, "1", HEAD, report="No, it is right.")
    work = forge_of(await push(team, "1"))
    due = [(each.kind, each.text) for each in work.writes if each.state == "due"]
    assert due == [("reply", "No, it is right."), ("answer", "No, it is right.")]


async def test_without_a_round_left_a_person_gets_the_words_and_can_let_it_go_on() -> None:
    team = await pushed(rounds=0)
    held = await team.forge.give_back("1", HEARD)
    assert is_queued(held)
    assert forge_of(held).person is not None
    assert await mail_of(team, "bob") == []
    assert wishes_of(held, SETTINGS, BRANCH)[0].kind == "state"
    await team.forge.configure(SETTINGS.evolve(rounds=1), by=LEAD, voice="human")
    await team.forge.resume("1", by=LEAD, voice="human")
    assert (await team.forge.give_back("1", HEARD)).status == "pending"
    assert len(await mail_of(team, "bob")) == 1


async def test_a_merge_on_the_forge_completes_the_task_and_unblocks_others() -> None:
    team = await team_on_forge()
    await team.forge.take([draft(7), draft(8, 7)])
    await hand_in(team, "1", HEAD)
    await push(team, "1")
    with pytest.raises(Refused, match="blocked"):
        await team.tasks.claim("2", by="kim")
    done = await team.forge.settle("1", "merged", commit=NEXT)
    assert is_done(done)
    merge = done.facts.merge
    assert merge is not None
    assert (merge.state, merge.landed) == ("merged", NEXT)
    await team.tasks.claim("2", by="kim")
    assert [each.kind for each in wishes_of(done, SETTINGS, BRANCH)] == [
        "state", "close", "delete",
    ]  # fmt: skip
    before = await team.last_seq()
    await team.forge.settle("1", "merged", commit=HEAD)
    await team.forge.settle("1", "issue_closed")
    assert await team.last_seq() == before


async def test_a_merge_by_hand_while_its_owner_works_completes_the_task_and_stops_the_owner() -> (
    None
):
    team = await pushed()
    await team.forge.give_back("1", HEARD)
    await team.tasks.claim("1", by="bob")
    done = await team.forge.settle("1", "merged", commit=NEXT)
    assert is_done(done)
    assert (
        "Stop working on task #1: its pull request was merged" in (await mail_of(team, "bob"))[-1]
    )


@pytest.mark.parametrize("outcome", ["issue_closed", "pull_closed", "gone"])
async def test_work_that_ended_is_given_up_and_no_agent_is_offered_it(outcome: str) -> None:
    team = await pushed()
    ended = await team.forge.settle("1", outcome)  # type: ignore[arg-type]
    assert (ended.status, ended.owner) == ("pending", None)
    assert ended.facts.given_up
    assert await team.merges.line() == []
    assert await team.tasks.ready() == []
    kinds = [each.kind for each in wishes_of(ended, SETTINGS, BRANCH)]
    assert kinds == (["state", "close_pull", "delete"] if outcome == "issue_closed" else ["state"])


async def test_an_issue_that_is_opened_again_gets_another_pull_request() -> None:
    team = await pushed()
    await team.forge.settle("1", "issue_closed", why="issue #7 was closed")
    again = await team.forge.reopen("1")
    assert (again.facts.given_up, forge_of(again).life, forge_of(again).pull) == (None, 2, None)
    await hand_in(team, "1", HEAD)
    wanted = wishes_of(await one(team), SETTINGS, BRANCH)
    assert [(each.kind, each.key) for each in wanted] == [
        ("state", "state"), ("push", f"2:2:{HEAD}"),
    ]  # fmt: skip
    await push(team, "1")
    assert forge_of(await team.forge.reopen("1")).life == 2


async def test_a_write_that_was_begun_is_known_after_a_kill() -> None:
    team = await pushed()
    (first,) = await team.forge.begin("1", [Wish("state", "state", "7")])
    (again,) = await team.forge.begin("1", [Wish("state", "state", "7")])
    assert first == again
    before = await team.last_seq()
    await team.forge.begin("1", [Wish("state", "state", "7")])
    assert await team.last_seq() == before
    await team.forge.finish("1", first.n, there="99", digest="a")
    await team.forge.label("1", "review")
    assert forge_of(await one(team)).labelled == "review"


async def test_a_task_that_is_not_on_the_forge_has_no_writes() -> None:
    team = await team_on_forge()
    await team.forge.configure(None, by=LEAD, voice="human")
    await team.tasks.add("Mine", by=LEAD)
    with pytest.raises(Refused) as refused:
        await team.forge.begin("1", [Wish("state", "state")])
    assert refused.value.reason == "not_on_forge"


async def test_everything_that_happens_on_a_forge_is_said_in_a_sentence() -> None:
    team = await team_on_forge(rounds=1)
    await team.forge.take([draft(7), draft(8)])
    await hand_in(team, "1", HEAD)
    await push(team, "1")
    (write,) = await team.forge.begin("1", [Wish("state", "state")])
    await team.forge.drop("1", write.n)
    await team.forge.label("1", "review")
    await team.forge.give_back("1", HEARD)
    await hand_in(team, "1", NEXT)
    await push(team, "1")
    await team.forge.hold("1", "others pushed to its branch")
    await team.forge.resume("1", by=LEAD, voice="human")
    await team.forge.settle("1", "issue_closed")
    await team.forge.reopen("1")
    await team.forge.settle("1", "merged", commit=NEXT)
    events = [event for event in await team.events() if event.op.startswith("forge.")]
    for event in events:
        assert happened(event) != event.op.replace(".", " ")
    told = [line for event in events for line in news(event)]
    assert told == [
        "issue #7 became task #1 Fix it",
        "issue #8 became task #2 Fix it",
        "#1 came back to bob: its review on the forge asks for changes",
        "task #1 Fix it needs you on the forge: others pushed to its branch",
        "task #1 Fix it goes on",
        "task #1 Fix it ended on the forge: its issue was closed",
        "task #1 Fix it goes on",
        "task #1 Fix it is merged on the forge",
    ]
    kinds = [each.kind for event in events for each in happenings("crew", event)]
    assert kinds == ["returned", "asked", "given_up", "merged"]
    # Every operation was used here.
    assert len({event.op for event in events}) == len(list(operations_of("forge", Forge)))
