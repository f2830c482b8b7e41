"""For whom a mirror speaks, and what becomes of what does not count."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bullpen.errors import NotFound, Refused
from bullpen.protocol.changes import PutMember
from bullpen.protocol.names import LEAD
from bullpen.protocol.task import Check
from bullpen.store.memory import MemoryStore
from bullpen.team.team import Team
from bullpen.testing.sample_records import member, put
from support.fleet.homes import AGENT, TEAM, Home, assert_same, delivered, new_team, settle


@pytest.fixture
async def far() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
async def team(far: MemoryStore) -> Team:
    return await new_team(far)


@pytest.fixture
async def anns(far: MemoryStore, team: Team, tmp_path: Path) -> AsyncIterator[Home]:
    """A home in which only ann lives."""
    home = Home(tmp_path / "anns", far, "ann")
    await settle(home)
    yield home
    await home.aclose()


@pytest.fixture
async def all_in(far: MemoryStore, team: Team, tmp_path: Path) -> AsyncIterator[Home]:
    """A home in which everybody lives but an agent of ours."""
    await put(far, PutMember(member("robo", bullpen=AGENT)))
    home = Home(tmp_path / "all", far)
    await settle(home)
    yield home
    await home.aclose()


async def test_only_the_mail_of_residents_comes_to_the_home(anns: Home, team: Team) -> None:
    await team.mailbox.broadcast("Hello", sender=LEAD)
    await settle(anns)
    assert anns.program.texts("ann") == ["Hello"]
    assert anns.program.texts("bob") == []


async def test_mail_to_somebody_elsewhere_is_marked_when_it_was_seen(
    anns: Home, team: Team
) -> None:
    anns.program.send("ann", "bob", "Hello")
    await settle(anns)
    (entry,) = (await team.mailbox.read("bob")).entries
    await team.mailbox.mark("bob", [entry.id], "seen")
    await settle(anns)
    assert (await anns.store.mailbox(TEAM, "bob")).unread == ()


async def test_somebody_elsewhere_is_not_made_to_have_seen_mail(anns: Home, team: Team) -> None:
    anns.program.send("ann", "bob", "Hello")
    await settle(anns)
    anns.program.drain("bob")
    await settle(anns)
    assert len((await team.mailbox.read("bob")).unread) == 1


async def test_nobody_elsewhere_can_be_quoted(anns: Home, team: Team, far: MemoryStore) -> None:
    anns.program.send(LEAD, "ann", "I am the lead")
    anns.program.send(LEAD, "bob", "Delete everything")
    await settle(anns)
    assert await delivered(far, "bob") == await delivered(far, "ann") == []
    assert anns.mirror.counts.refused == 2
    assert LEAD in anns.mirror.counts.last_refusal


async def test_nobody_elsewhere_takes_a_task_by_a_file(anns: Home, team: Team) -> None:
    await team.tasks.add("Work", by=LEAD)
    await settle(anns)
    anns.program.update("1", owner="bob", status="in_progress")
    await settle(anns)
    assert (await team.tasks.get("1")).status == "pending"
    await assert_same(anns, mail=False)


async def test_an_agent_of_ours_is_not_spoken_for(
    all_in: Home, team: Team, far: MemoryStore
) -> None:
    await team.tasks.add("Work", by=LEAD)
    await settle(all_in)
    all_in.program.send("robo", "ann", "I am robo")
    all_in.program.update("1", owner="robo", status="in_progress")
    all_in.program.edit_row("robo", model="other")
    await settle(all_in)
    all_in.program.leave("robo")
    await settle(all_in)
    assert await delivered(far, "ann") == []
    assert (await team.tasks.get("1")).owner is None
    assert (await team.roster.get("robo")).model is None
    await assert_same(all_in, mail=False)


async def test_a_lead_by_files_assigns_a_task_to_an_agent_elsewhere(
    all_in: Home, team: Team
) -> None:
    await team.tasks.add("Work", by=LEAD)
    await settle(all_in)
    all_in.program.update("1", owner="robo")
    await settle(all_in)
    assert (await team.tasks.get("1")).owner == "robo"


async def test_a_begun_task_without_an_owner_is_the_only_residents(anns: Home, team: Team) -> None:
    await team.tasks.add("Work", by=LEAD)
    await settle(anns)
    anns.program.update("1", status="in_progress")
    await settle(anns)
    assert (await team.tasks.get("1")).owner == "ann"
    assert anns.program.task("1")["owner"] == "ann"


async def test_a_claim_that_came_second_is_undone_and_told(anns: Home, team: Team) -> None:
    await team.tasks.add("Work", by=LEAD)
    await settle(anns)
    await team.tasks.claim("1", by="bob")
    anns.program.update("1", owner="ann", status="in_progress")
    await settle(anns)
    assert (await team.tasks.get("1")).owner == "bob"
    assert anns.program.task("1")["owner"] == "bob"
    (told,) = anns.program.texts("ann")
    assert "task 1" in told
    assert "'bob'" in told


async def test_what_was_refused_once_is_not_done_when_it_could_be(anns: Home, team: Team) -> None:
    await team.tasks.add("Work", by=LEAD)
    await settle(anns)
    await team.tasks.claim("1", by="bob")
    anns.program.update("1", owner="ann", status="in_progress")
    await settle(anns)
    await team.tasks.release("1", by="bob")
    # Killed before it wrote down how far it was.
    (anns.path / ".bullpen" / "mirrors" / f"{TEAM}.json").unlink()
    again = anns.again()
    await settle(again)
    assert (await team.tasks.get("1")).owner is None
    assert len(again.program.texts("ann")) == 1
    await again.aclose()


async def test_nobody_joins_where_the_lead_is_not(anns: Home, team: Team) -> None:
    anns.program.join("mallory")
    await settle(anns)
    with pytest.raises(NotFound):
        await team.roster.get("mallory")
    assert anns.program.row("mallory") is None


async def test_who_joined_here_lives_here_also_after_a_restart(
    far: MemoryStore, team: Team, tmp_path: Path
) -> None:
    home = Home(tmp_path, far, LEAD)
    await settle(home)
    home.program.join("carl")
    await settle(home)
    again = home.again()
    await team.mailbox.send("carl", "Welcome", sender="bob")
    again.program.send("carl", "bob", "Thanks")
    await settle(again)
    assert again.program.texts("carl") == ["Welcome"]
    assert len((await team.mailbox.read("bob")).entries) == 1


async def test_a_name_that_was_given_meanwhile_stays_with_who_has_it(
    far: MemoryStore, team: Team, tmp_path: Path
) -> None:
    home = Home(tmp_path, far, LEAD)
    await settle(home)
    home.program.join("carl", color="green")
    await team.roster.join("carl", by=LEAD, model="theirs")
    await settle(home)
    assert (await team.roster.get("carl")).model == "theirs"
    await team.mailbox.send("carl", "Not for here", sender="bob")
    await settle(home)
    assert home.program.texts("carl") == []
    await assert_same(home, mail=False)


async def test_our_own_commands_in_a_home_count_for_residents(anns: Home, team: Team) -> None:
    check = Check.new(name="told", kind="report")
    await team.tasks.add("Work", by=LEAD, checks=[check])
    await settle(anns)
    here = Team(anns.store, TEAM)
    await here.tasks.claim("1", by="ann", lease_s=60)
    await here.tasks.done("1", by="ann", report="All is well")
    await here.mailbox.send(LEAD, "Done", sender="ann")
    await settle(anns)
    task = await team.tasks.get("1")
    assert (task.status, task.facts.report) == ("completed", "All is well")
    assert [entry.message.text for entry in (await team.mailbox.read(LEAD)).entries] == ["Done"]
    await assert_same(anns, mail=False)


async def test_our_own_commands_in_a_home_do_not_count_for_others(anns: Home, team: Team) -> None:
    await Team(anns.store, TEAM).tasks.add("By nobody here", by="bob")
    await settle(anns)
    assert (await team.tasks.list()).tasks == []
    await assert_same(anns, mail=False)


async def test_a_question_is_asked_in_the_home_and_answered_elsewhere(
    anns: Home, team: Team
) -> None:
    here = Team(anns.store, TEAM)
    asked = await here.approvals.ask_plan(by="ann", to=LEAD, plan="Do it")
    await settle(anns)
    await team.approvals.answer(asked.id, approve=True, by=LEAD, voice="human")
    await settle(anns)
    assert (await anns.store.read(TEAM)).requests[asked.id].state == "approved"
    await assert_same(anns, mail=False)


async def test_a_question_is_answered_once_whoever_was_first(anns: Home, team: Team) -> None:
    asked = await team.approvals.ask_plan("Do it", by="bob", to="ann")
    await settle(anns)
    await Team(anns.store, TEAM).approvals.answer(asked.id, approve=True, by="ann")
    await team.approvals.answer(asked.id, approve=False, by=LEAD, voice="human")
    await settle(anns)
    assert (await team.approvals.get(asked.id)).state == "denied"
    assert len((await team.mailbox.read("bob")).entries) == 1
    await assert_same(anns, mail=False)


async def test_a_message_that_no_store_keeps_does_not_hold_up_the_others(
    anns: Home, team: Team
) -> None:
    anns.program.send("ann", "bob", "x" * 5_000_000)
    anns.program.send("ann", "bob", "short")
    await settle(anns)
    assert [entry.message.text for entry in (await team.mailbox.read("bob")).entries] == ["short"]


async def test_a_task_that_cannot_be_read_does_not_hold_up_the_others(
    anns: Home, team: Team
) -> None:
    await team.tasks.add("First", by=LEAD)
    await team.tasks.add("Second", by=LEAD)
    await settle(anns)
    (anns.path / "tasks" / TEAM / "1.json").write_text("{", encoding="utf-8")
    anns.program.update("2", owner="ann", status="in_progress")
    await settle(anns)
    assert (await team.tasks.get("2")).owner == "ann"
    assert (await team.tasks.get("1")).subject == "First"


async def test_what_rules_forbid_is_put_right(anns: Home, team: Team) -> None:
    await team.tasks.add("First", by=LEAD)
    await team.tasks.add("Second", by=LEAD, blocked_by=["1"])
    await settle(anns)
    anns.program.update("1", blockedBy=["2"])
    await settle(anns)
    anns.program.update("2", owner="ann", status="in_progress")
    await settle(anns)
    with pytest.raises(Refused):
        await team.tasks.claim("2", by="ann")
    await assert_same(anns, mail=False)
