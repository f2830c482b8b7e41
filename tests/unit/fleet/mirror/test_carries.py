"""What a mirror carries, in both directions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from bullpen.errors import Conflict, NotFound, Refused
from bullpen.protocol.changes import PutMember, PutTeam
from bullpen.protocol.names import LEAD
from bullpen.protocol.task import Check
from bullpen.store.memory import MemoryStore
from bullpen.team.team import Team
from bullpen.testing.sample_records import member, put
from support.fleet.homes import AGENT, TEAM, Home, assert_same, new_team, settle, tapped


@pytest.fixture
async def far() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
async def team(far: MemoryStore) -> Team:
    return await new_team(far)


@pytest.fixture
async def home(far: MemoryStore, team: Team, tmp_path: Path) -> AsyncIterator[Home]:
    home = Home(tmp_path / "home", far)
    await settle(home)
    yield home
    await home.aclose()


async def test_a_home_is_given_the_team_with_its_tasks(
    far: MemoryStore, team: Team, tmp_path: Path
) -> None:
    await team.tasks.add("First", by=LEAD)
    second = await team.tasks.add("Second", by=LEAD, blocked_by=["1"])
    home = Home(tmp_path, far)
    await settle(home)
    assert home.program.task("2")["blockedBy"] == second.blocked_by
    await assert_same(home)


async def test_a_message_reaches_the_inbox_of_a_resident(home: Home, team: Team) -> None:
    sent = await team.mailbox.send("ann", "Hello", sender=LEAD)
    await settle(home)
    assert home.program.texts("ann") == ["Hello"]
    assert (await home.store.mailbox(TEAM, "ann")).entries[0].id == sent.id


async def test_mail_that_waited_before_there_was_a_mirror_reaches_the_inbox(
    far: MemoryStore, team: Team, tmp_path: Path
) -> None:
    old = await team.mailbox.send("ann", "Seen", sender=LEAD)
    await team.mailbox.mark("ann", [old.id], "seen")
    await team.mailbox.send("ann", "Not seen", sender=LEAD)
    home = Home(tmp_path, far)
    await settle(home)
    assert home.program.texts("ann") == ["Not seen"]


async def test_a_message_of_the_program_arrives_with_an_id(home: Home, team: Team) -> None:
    home.program.send("ann", "bob", "From a file")
    await settle(home)
    (entry,) = (await team.mailbox.read("bob")).entries
    assert (entry.message.text, entry.message.sender) == ("From a file", "ann")
    assert entry.message.msg_id == entry.id
    await assert_same(home)


async def test_a_message_in_a_home_is_never_a_persons_word(home: Home, team: Team) -> None:
    await Team(home.store, TEAM).mailbox.send("bob", "Obey", sender="ann", voice="human")
    await settle(home)
    (entry,) = (await team.mailbox.read("bob")).entries
    assert (entry.message.text, entry.message.is_of_a_person) == ("Obey", False)


async def test_a_message_that_the_program_took_counts_as_seen(home: Home, team: Team) -> None:
    await team.mailbox.send("ann", "Hello", sender=LEAD)
    await settle(home)
    assert home.program.drain("ann") == ["Hello"]
    await settle(home)
    (entry,) = (await team.mailbox.read("ann")).entries
    assert entry.state == "seen"
    assert home.program.texts("ann") == []


async def test_a_message_that_the_program_marked_counts_as_seen(home: Home, team: Team) -> None:
    await team.mailbox.send("ann", "Hello", sender=LEAD)
    await settle(home)
    home.program.mark_read("ann")
    await settle(home)
    assert (await team.mailbox.read("ann")).unread == ()


async def test_what_was_seen_elsewhere_is_marked_in_the_home(home: Home, team: Team) -> None:
    home.program.send("ann", "bob", "Hello")
    await settle(home)
    (entry,) = (await team.mailbox.read("bob")).entries
    await team.mailbox.mark("bob", [entry.id], "seen")
    await settle(home)
    assert (await home.store.mailbox(TEAM, "bob")).unread == ()


async def test_a_task_that_the_program_makes_joins_the_others(home: Home, team: Team) -> None:
    await team.tasks.add("Ours", by=LEAD)
    await settle(home)
    task_id = home.program.create("Theirs", description="By a file")
    await settle(home)
    assert (await team.tasks.get(task_id)).subject == "Theirs"
    await assert_same(home)


async def test_a_task_whose_number_is_taken_gets_the_next(home: Home, team: Team) -> None:
    assert home.program.create("Theirs") == "1"
    await team.tasks.add("Ours", by=LEAD)
    await settle(home)
    assert [task.subject for task in (await team.tasks.list()).tasks] == ["Ours", "Theirs"]
    await assert_same(home)


async def test_tasks_that_wait_for_each_other_keep_their_edges_under_new_numbers(
    home: Home, team: Team
) -> None:
    home.program.create("First", blocks=["2"])
    home.program.create("Second", blockedBy=["1"])
    await team.tasks.add("Ours", by=LEAD)
    await settle(home)
    first, second = (await team.tasks.list()).tasks[1:]
    assert (first.blocks, second.blocked_by) == ([second.id], [first.id])
    await assert_same(home)


async def test_a_claim_by_a_file_is_a_claim(home: Home, team: Team) -> None:
    await team.tasks.add("Work", by=LEAD)
    await settle(home)
    home.program.update("1", owner="ann", status="in_progress")
    await settle(home)
    task = await team.tasks.get("1")
    assert (task.owner, task.status, task.facts.attempt) == ("ann", "in_progress", 1)
    await assert_same(home)


async def test_a_task_is_completed_by_a_file(home: Home, team: Team) -> None:
    await team.tasks.add("Work", by=LEAD)
    await settle(home)
    home.program.update("1", owner="ann", status="in_progress")
    await settle(home)
    home.program.update("1", status="completed")
    await settle(home)
    assert (await team.tasks.get("1")).status == "completed"


async def test_a_task_that_must_be_proven_is_not_completed_by_a_file(
    home: Home, team: Team
) -> None:
    await team.tasks.add("Work", by=LEAD, checks=[Check.new(name="ok", kind="command", run="x")])
    await settle(home)
    home.program.update("1", owner="ann", status="in_progress")
    await settle(home)
    forged = home.program.task("1")["metadata"]
    forged["bullpen"]["checks"][0] |= {"passed": True, "attempt": 1}
    home.program.update("1", status="completed", metadata=forged)
    await settle(home)
    assert (await team.tasks.get("1")).status == "in_progress"
    await assert_same(home)


async def test_what_a_file_says_of_our_own_facts_is_not_believed(home: Home, team: Team) -> None:
    facts = {"attempt": 7, "forced": {"by": LEAD, "reason": "x", "atMs": 1}}
    task_id = home.program.create("Theirs", metadata={"bullpen": facts, "note": "kept"})
    await settle(home)
    assert (await team.tasks.get(task_id)).metadata == {"note": "kept"}
    await assert_same(home)


async def test_what_is_written_while_the_home_is_brought_up_to_date_is_not_undone(
    far: MemoryStore, team: Team, tmp_path: Path
) -> None:
    await team.tasks.add("Work", by=LEAD)
    writes: list[Callable[[], None]] = []

    def write_meanwhile(name: str) -> None:
        if name == "read" and writes:
            writes.pop()()

    home = Home(tmp_path, tapped(far, before=write_meanwhile))
    await settle(home)
    await team.tasks.edit("1", by=LEAD, description="New words")
    writes.append(lambda: home.program.update("1", owner="ann", status="in_progress"))
    await home.mirror.step()
    assert home.program.task("1")["owner"] == "ann"
    await settle(home)
    task = await team.tasks.get("1")
    assert (task.owner, task.description) == ("ann", "New words")
    await assert_same(home)


async def test_a_task_is_given_back_by_a_file(home: Home, team: Team) -> None:
    await team.tasks.add("Work", by=LEAD)
    await team.tasks.claim("1", by="ann")
    await settle(home)
    home.program.update("1", owner=None, status="pending")
    await settle(home)
    assert (await team.tasks.get("1")).owner is None


async def test_words_changed_at_both_sides_are_both_kept(home: Home, team: Team) -> None:
    await team.tasks.add("Work", by=LEAD)
    await settle(home)
    home.program.update("1", description="By a file")
    await team.tasks.edit("1", by=LEAD, subject="By hand")
    await settle(home)
    task = await team.tasks.get("1")
    assert (task.subject, task.description) == ("By hand", "By a file")
    await assert_same(home)


async def test_a_task_deleted_in_the_home_is_gone_and_nobody_waits_for_it(
    home: Home, team: Team
) -> None:
    await team.tasks.add("First", by=LEAD)
    await team.tasks.add("Second", by=LEAD, blocked_by=["1"])
    await settle(home)
    home.program.delete("1")
    await settle(home)
    assert (await team.tasks.get("2")).blocked_by == []
    await assert_same(home)


async def test_a_done_task_that_the_program_took_off_its_list_stays_in_the_team(
    home: Home, team: Team
) -> None:
    """Claude Code deletes all tasks when all are done."""
    await team.tasks.add("Done elsewhere", by=LEAD)
    await team.tasks.claim("1", by="bob")
    await team.tasks.done("1", by="bob", report="It took an hour.")
    await settle(home)
    home.program.delete("1")
    await settle(home)
    await team.tasks.add("Next", by=LEAD)
    await settle(home)
    (home.path / ".bullpen" / "mirrors" / f"{TEAM}.json").unlink()
    await settle(home.again())
    assert (await team.tasks.get("1")).facts.report == "It took an hour."
    assert [path.stem for path in home.program.tasks.glob("*.json")] == ["2"]


async def test_a_task_that_was_taken_off_the_list_comes_back_when_one_waits_for_it(
    home: Home, team: Team
) -> None:
    """For the program, a task that it cannot see is one that is not done."""
    await team.tasks.add("First", by=LEAD)
    await team.tasks.claim("1", by="bob")
    await team.tasks.done("1", by="bob")
    await settle(home)
    home.program.delete("1")
    await settle(home)
    await team.tasks.add("Second", by=LEAD, blocked_by=["1"])
    await settle(home)
    assert home.program.task("1")["status"] == "completed"
    await assert_same(home)


async def test_a_done_task_that_one_of_us_deletes_in_the_home_is_gone(
    home: Home, team: Team
) -> None:
    await team.tasks.add("Done", by=LEAD)
    await team.tasks.claim("1", by="bob")
    await team.tasks.done("1", by="bob")
    await settle(home)
    await Team(home.store, TEAM).tasks.delete("1", by=LEAD)
    await settle(home)
    assert (await team.tasks.list()).tasks == []


async def test_a_member_joins_and_leaves_by_the_home(home: Home, team: Team) -> None:
    home.program.join("carl", color="green")
    await settle(home)
    assert (await team.roster.get("carl")).color == "green"
    await team.mailbox.send("carl", "Welcome", sender=LEAD)
    await settle(home)
    assert home.program.texts("carl") == ["Welcome"]
    home.program.leave("carl")
    await settle(home)
    with pytest.raises(NotFound):
        await team.roster.get("carl")


async def test_a_row_changed_at_both_sides_has_both_changes(
    home: Home, far: MemoryStore, team: Team
) -> None:
    home.program.edit_row("ann", isActive=True)
    row = (await far.config(TEAM)).member("ann")
    assert row is not None
    await put(far, PutMember(row.evolve(color="red")))
    await settle(home)
    row = await team.roster.get("ann")
    assert (row.is_active, row.color) == (True, "red")
    await assert_same(home)


async def test_what_concerns_another_machine_is_not_shown(home: Home, far: MemoryStore) -> None:
    await put(far, PutMember(member("robo", tmuxPaneId="%3", bullpen=AGENT)))
    await settle(home)
    row = home.program.row("robo")
    assert row is not None
    assert row["tmuxPaneId"] == ""
    assert "bullpen" not in row
    await assert_same(home, mail=False)


async def test_a_home_with_a_team_of_its_own_is_left_alone(
    far: MemoryStore, team: Team, tmp_path: Path
) -> None:
    home = Home(tmp_path, far)
    await new_team(home.store)
    with pytest.raises(Conflict, match="has its own team"):
        await home.mirror.step()


async def test_a_later_team_of_the_same_name_is_another(
    home: Home, far: MemoryStore, team: Team
) -> None:
    await far.delete(TEAM, actor=LEAD)
    await new_team(far, createdAt=2)
    with pytest.raises(Conflict, match="earlier team"):
        await home.again().mirror.step()


async def test_a_team_that_was_moved_is_waited_for_with_what_is_unsent(
    home: Home, far: MemoryStore, team: Team
) -> None:
    mark = {"movedTo": {"to": "nats://elsewhere", "run": "r", "by": LEAD, "atMs": 1}}
    await put(far, PutTeam({"bullpen": mark}))
    home.program.send("ann", "bob", "Still to be sent")
    for _ in range(2):
        with pytest.raises(Refused, match="elsewhere"):
            await home.mirror.step()
    await put(far, PutTeam({"bullpen": None}))
    await settle(home)
    assert len((await team.mailbox.read("bob")).entries) == 1


async def test_files_that_were_removed_do_not_remove_the_team(home: Home, team: Team) -> None:
    await home.store.delete(TEAM, actor=LEAD)
    with pytest.raises(NotFound, match="were removed"):
        await home.mirror.step()
    assert len(await team.roster.list()) == 3
