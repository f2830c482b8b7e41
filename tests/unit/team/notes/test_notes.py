"""Notes: each is written over the version that its writer read, and no version is lost."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from bullpen.errors import Conflict, Invalid, NotFound, Refused
from bullpen.protocol.changes import PutTeam
from bullpen.protocol.names import LEAD
from bullpen.protocol.record.note import NOTE_BYTES_MAX, NOTES_MAX
from bullpen.store.memory import MemoryStore
from bullpen.team.notes import rules
from bullpen.team.team import Team, Teams
from bullpen.testing.sample_records import note


@pytest.fixture
async def team() -> AsyncIterator[Team]:
    async with Teams(MemoryStore(), clock=lambda: 1_000) as teams:
        await teams.create("alpha")
        yield teams.open("alpha")


async def test_a_new_note_is_written_over_version_0_and_then_over_what_was_read(
    team: Team,
) -> None:
    first = await team.notes.write("plan", "# Plan", over=0, by="ann")
    assert (first.text, first.version, first.author, first.time_ms) == ("# Plan\n", 1, "ann", 1_000)
    second = await team.notes.write("plan", "# Plan B\n\n", over=1, by="bob")
    assert (second.text, second.version, second.author) == ("# Plan B\n", 2, "bob")
    assert await team.notes.read("plan") == second


@pytest.mark.parametrize("over", [0, 1, 3])
async def test_a_text_over_any_other_version_is_refused_and_changes_nothing(
    team: Team, over: int
) -> None:
    await team.notes.write("plan", "One", over=0, by="ann")
    now = await team.notes.write("plan", "Two", over=1, by="bob")
    with pytest.raises(Conflict, match=r"written by bob meanwhile: it has version 2") as stale:
        await team.notes.write("plan", "Mine", over=over, by="cleo")
    assert "write over version 2" in stale.value.remedy
    assert await team.notes.read("plan") == now
    assert len(await team.notes.history("plan")) == 2


async def test_a_note_that_does_not_exist_has_no_version_to_write_over(team: Team) -> None:
    with pytest.raises(Conflict, match="does not exist yet"):
        await team.notes.write("plan", "One", over=4, by="ann")


async def test_who_has_to_merge_is_shown_what_the_others_changed(team: Team) -> None:
    await team.notes.write("plan", "a\nb\n", over=0, by="ann")
    await team.notes.write("plan", "a\nc\n", over=1, by="bob")
    assert await team.notes.changes_since("plan", 1) == (
        "--- plan version 1\n+++ plan version 2 by bob\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n"
    )


async def test_an_empty_text_deletes_a_note_and_its_versions_go_on(team: Team) -> None:
    await team.notes.write("idea", "One", over=0, by="ann")
    gone = await team.notes.write("idea", " \n", over=1, by="bob")
    assert gone.is_deleted and gone.version == 2
    assert (await team.notes.list()).notes == []
    with pytest.raises(NotFound):
        await team.notes.read("idea")
    with pytest.raises(Conflict, match="was deleted by bob"):
        await team.notes.write("idea", "Late", over=1, by="ann")
    again = await team.notes.write("idea", "New", over=0, by="cleo")
    assert again.version == 3
    assert [each.note.author for each in await team.notes.history("idea")] == ["ann", "bob", "cleo"]


async def test_a_note_that_is_not_there_cannot_be_deleted(team: Team) -> None:
    with pytest.raises(NotFound, match="no note 'plan'"):
        await team.notes.write("plan", "", over=0, by="ann")


async def test_the_same_text_again_makes_no_version(team: Team) -> None:
    await team.notes.write("plan", "One", over=0, by="ann")
    before = await team.last_seq()
    assert (await team.notes.write("plan", "One\n", over=1, by="bob")).author == "ann"
    assert await team.last_seq() == before


async def test_the_plan_is_listed_first(team: Team) -> None:
    for name in ("zoo", "api", "plan"):
        await team.notes.write(name, "x", over=0, by="ann")
    assert [each.name for each in (await team.notes.list()).notes] == ["plan", "api", "zoo"]
    assert [each.name for each in (await team.snapshot()).notes] == ["plan", "api", "zoo"]


@pytest.mark.parametrize("name", ["", "Plan", "a/b", "../x", ".x", "-x", "a b", "x" * 65, "ä"])
async def test_a_name_that_is_no_plain_file_name_is_refused(team: Team, name: str) -> None:
    with pytest.raises(Invalid):
        await team.notes.write(name, "x", over=0, by="ann")


async def test_notes_are_bounded_one_by_one_and_together(team: Team) -> None:
    longest = "x" * (NOTE_BYTES_MAX - 1)
    with pytest.raises(Invalid, match="limit is 65536"):
        await team.notes.write("n0", longest + "yz", over=0, by="ann")
    for number in range(8):
        await team.notes.write(f"n{number}", longest, over=0, by="ann")
    with pytest.raises(Refused) as full:
        await team.notes.write("more", "x", over=0, by="ann")
    assert full.value.reason == "notes_too_long"
    await team.notes.write("n0", "", over=1, by="ann")
    await team.notes.write("more", "x", over=0, by="ann")


async def test_names_are_counted_also_those_of_deleted_notes(team: Team) -> None:
    for number in range(NOTES_MAX):
        await team.notes.write(f"n{number}", "x", over=0, by="ann")
    await team.notes.write("n0", "", over=1, by="ann")
    with pytest.raises(Refused) as full:
        await team.notes.write("more", "x", over=0, by="ann")
    assert full.value.reason == "too_many_notes"
    await team.notes.write("n0", "again", over=0, by="ann")


async def test_history_has_every_version_with_its_event(team: Team) -> None:
    for number in range(3):
        await team.notes.write("plan", f"v{number}", over=number, by=f"m{number}")
    found = await team.notes.history("plan")
    assert [(each.note.version, each.note.author, each.seq) for each in found] == [
        (1, "m0", 2),
        (2, "m1", 3),
        (3, "m2", 4),
    ]
    assert rules.version_of([each.note for each in found], 2).text == "v1\n"
    with pytest.raises(Invalid, match="no version 9"):
        rules.version_of([each.note for each in found], 9)
    with pytest.raises(NotFound):
        await team.notes.history("other")


async def test_a_closed_team_takes_no_notes(team: Team) -> None:
    mark = {"to": "nats://x", "run": "r", "by": LEAD, "atMs": 1}

    await team._store.commit(
        "alpha", lambda view: [PutTeam({"bullpen": {"movedTo": mark}})], actor=LEAD, op="test"
    )
    with pytest.raises(Refused, match="was moved"):
        await team.notes.write("plan", "x", over=0, by="ann")


def test_a_difference_of_equal_texts_is_empty() -> None:
    assert rules.difference(note("a"), note("a", version=2)) == ""
