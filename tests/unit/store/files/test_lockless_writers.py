"""Programs that write a team's files without any lock: merged or reported, never overwritten."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from bullpen.errors import Conflict, Unreadable
from bullpen.protocol.changes import (
    Change,
    DeleteTask,
    Deliver,
    MarkMail,
    PutMember,
    PutTask,
    PutTeam,
    RemoveMember,
)
from bullpen.protocol.names import LEAD
from bullpen.store.contract import StoreLimits, View
from bullpen.store.files.store import FileStore
from bullpen.testing.sample_records import config, heartbeat, member, message, put, task
from support.store.peers import INBOX, TEAM, Files, assert_the_log_tells_all, make_older

pytestmark = pytest.mark.no_loss

Meddling = Callable[[], object]


async def observed(store: FileStore) -> list[Change]:
    """Everything that the log says other programs did."""
    events = await store.events(TEAM)
    return [change for event in events if event.observed for change in event.changes]


async def commit_while(
    store: FileStore, meddle: Meddling, decide: Callable[[View], Sequence[Change]]
) -> int:
    """Commit; another program meddles after the first look and before the first write."""
    runs = 0

    def decide_and_meddle(view: View) -> Sequence[Change]:
        nonlocal runs
        runs += 1
        changes = decide(view)
        if runs == 1:
            meddle()
        return changes

    await store.commit(TEAM, decide_and_meddle, actor=LEAD, op="test")
    return runs


def claim(view: View) -> Sequence[Change]:
    found = view.task("1")
    return [PutTask(found.evolve(owner="ann", status="in_progress"))] if found else []


# How they put a changed file in its place.


def in_place(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def without_truncating(path: Path, text: str) -> None:
    with path.open("r+", encoding="utf-8") as file:
        file.write(text)
        file.truncate()


def by_rename(path: Path, text: str) -> None:
    temporary = path.with_name(f"{path.name}.tmp.0123abcd")
    temporary.write_text(text, encoding="utf-8")
    temporary.rename(path)


Write = Callable[[Path, str], None]
WAYS: list[Write] = [in_place, without_truncating, by_rename]
every_way = pytest.mark.parametrize("write", WAYS, ids=lambda write: write.__name__)


def rewrite(write: Write, path: Path, change: Callable[[Any], object]) -> None:
    record = json.loads(path.read_bytes())
    change(record)
    write(path, json.dumps(record, indent=2, ensure_ascii=False))


@every_way
@pytest.mark.parametrize("words", ["THEIR", "their words, more than there were"])
async def test_a_task_changed_between_our_look_and_our_write_keeps_both_changes(
    store: FileStore, files: Files, write: Write, words: str
) -> None:
    await put(store, PutTask(task("1", description="first")))
    runs = await commit_while(
        store,
        lambda: rewrite(write, files.task("1"), lambda raw: raw.update(description=words)),
        claim,
    )
    found = (await store.read(TEAM)).tasks["1"]
    assert (runs, found.description, found.owner) == (2, words, "ann")
    assert [c.task.description for c in await observed(store) if isinstance(c, PutTask)] == [words]
    await assert_the_log_tells_all(store)


@every_way
async def test_a_change_to_a_file_that_we_had_long_read_is_noticed(
    store: FileStore, files: Files, write: Write
) -> None:
    """The old content is remembered by then, and the new one has as many bytes."""
    await put(store, PutTask(task("1", description="first")))
    make_older(files.task("1"), 60)
    assert (await store.read(TEAM)).tasks["1"].description == "first"
    rewrite(write, files.task("1"), lambda raw: raw.update(description="later"))
    assert await commit_while(store, lambda: None, claim) == 1
    found = (await store.read(TEAM)).tasks["1"]
    assert (found.description, found.owner) == ("later", "ann")
    await assert_the_log_tells_all(store)


async def test_a_change_within_one_tick_of_the_clock_is_noticed(
    store: FileStore, files: Files
) -> None:
    """Two writes of as many bytes may leave the same time, where clocks are coarse."""
    await put(store, PutTask(task("1", description="first")))
    make_older(files.task("1"), -1)
    tick = files.task("1").stat().st_mtime_ns
    assert (await store.read(TEAM)).tasks["1"].description == "first"
    files.edit(files.task("1"), lambda raw: raw.update(description="later"))
    os.utime(files.task("1"), ns=(tick, tick))
    assert (await store.read(TEAM)).tasks["1"].description == "later"


async def test_a_program_that_writes_at_every_attempt_is_a_conflict_and_loses_nothing(
    tmp_path: Path, store: FileStore, files: Files
) -> None:
    await put(store, PutTask(task("1")))
    hasty = FileStore(tmp_path, fsync=False, limits=StoreLimits(attempts_max=3))
    runs = 0

    def decide(view: View) -> Sequence[Change]:
        nonlocal runs
        runs += 1
        changes = claim(view)
        files.edit(files.task("1"), lambda raw: raw.update(description=f"word {runs}"))
        return changes

    with pytest.raises(Conflict):
        await hasty.commit(TEAM, decide, actor=LEAD, op="test")
    await hasty.aclose()
    found = (await store.read(TEAM)).tasks["1"]
    assert (runs, found.description, found.owner) == (3, "word 3", None)
    assert files.locks() == []
    await assert_the_log_tells_all(store)


async def test_a_task_that_we_write_unseen_is_logged_as_it_was_before(
    store: FileStore, files: Files
) -> None:
    await put(store, PutTask(task("1")))
    files.edit(files.task("1"), lambda raw: raw.update(description="theirs"))
    await put(store, PutTask(task("1", description="ours")))
    assert [c.task.description for c in await observed(store) if isinstance(c, PutTask)] == [
        "theirs"
    ]
    await assert_the_log_tells_all(store)


@every_way
async def test_a_config_changed_between_our_look_and_our_write_keeps_both_changes(
    store: FileStore, files: Files, write: Write
) -> None:
    def add_dora(raw: dict[str, Any]) -> None:
        raw["description"] = "their team"
        raw["members"].append({"agentId": "dora@alpha", "name": "dora", "isActive": True})
        raw["members"][1]["isActive"] = False

    def join(view: View) -> Sequence[Change]:
        return [PutMember(member("cleo", agentType=f"{len(view.team.roster) + 1}th"))]

    runs = await commit_while(store, lambda: rewrite(write, files.config, add_dora), join)
    found = await store.config(TEAM)
    assert [row.name for row in found.roster] == [LEAD, "ann", "bob", "dora", "cleo"]
    assert (runs, found.description, found.roster[1].is_active) == (2, "their team", False)
    assert found.roster[4].agent_type == "5th"
    names = [c.member.name for c in await observed(store) if isinstance(c, PutMember)]
    assert sorted(names) == ["ann", "dora"]
    await assert_the_log_tells_all(store)


async def test_a_member_row_that_we_change_and_they_change_is_decided_again(
    store: FileStore, files: Files
) -> None:
    """As when a teammate's own process notes that it is active while the lead changes its row."""

    def set_model(view: View) -> Sequence[Change]:
        row = view.team.member("ann")
        assert row is not None
        return [PutMember(row.evolve(model="new"))]

    def activate(raw: dict[str, Any]) -> None:
        raw["members"][1]["isActive"] = True

    assert await commit_while(store, lambda: files.edit(files.config, activate), set_model) == 2
    row = (await store.config(TEAM)).member("ann")
    assert row is not None and (row.model, row.is_active) == ("new", True)
    await assert_the_log_tells_all(store)


async def test_members_and_fields_that_they_take_away_are_observed(
    store: FileStore, files: Files
) -> None:
    await put(store, PutTeam({"description": "ours", "extra": 1}))

    def leave(raw: dict[str, Any]) -> None:
        raw["members"].pop()
        raw["description"] = None
        del raw["extra"]

    files.edit(files.config, leave)
    changes = await observed(store)
    assert RemoveMember("bob") in changes
    assert PutTeam({"description": None, "extra": None}) in changes
    count = len(await store.events(TEAM))
    assert len(await store.events(TEAM)) == count


def theirs(text: str, **fields: Any) -> dict[str, Any]:
    return {"from": "theirs", "text": text, "timestamp": "2026-01-01T00:00:00.000Z", **fields}


async def fill(store: FileStore, *ids: str) -> None:
    for msg_id in ids:
        await store.append(TEAM, INBOX, message(msg_id, text=msg_id), actor=LEAD)


async def states(store: FileStore) -> dict[str, str]:
    box = await store.mailbox(TEAM, INBOX)
    return {entry.message.text: entry.state for entry in box.entries}


@every_way
async def test_mail_that_they_add_between_two_of_our_sends_stays(
    store: FileStore, files: Files, write: Write
) -> None:
    await fill(store, "m1", "m2", "m3")
    rewrite(write, files.inbox(), lambda rows: rows.append(theirs("t1", read=False)))
    await fill(store, "m4", "m5", "m6")
    assert await states(store) == dict.fromkeys(
        ["m1", "m2", "m3", "t1", "m4", "m5", "m6"], "stored"
    )
    delivered = [c.message.text for c in await observed(store) if isinstance(c, Deliver)]
    assert delivered == ["t1"]
    await assert_the_log_tells_all(store)


@every_way
async def test_mail_that_they_mark_as_read_between_two_of_our_sends_stays_read(
    store: FileStore, files: Files, write: Write
) -> None:
    await fill(store, "m1", "m2", "m3")
    rewrite(write, files.inbox(), lambda rows: rows[1].update(read=True))
    await fill(store, "m4", "m5")
    assert await states(store) == {
        "m1": "stored",
        "m2": "seen",
        "m3": "stored",
        "m4": "stored",
        "m5": "stored",
    }
    assert await observed(store) == [MarkMail(INBOX, ("m2",), "seen")]
    await assert_the_log_tells_all(store)


@every_way
async def test_an_inbox_that_nothing_was_new_in_is_read_again_when_they_change_it(
    store: FileStore, files: Files, write: Write
) -> None:
    """Each change, also one of the same length, right after a look that found nothing."""
    await fill(store, "m1", "m2", "m3")
    rewrite(write, files.inbox(), lambda rows: [row.update(read=False) for row in rows])
    for seen in (("m1",), ("m2",), ("m3",)):
        await anyio.sleep(0.03)
        before = len(await observed(store))
        text = files.inbox().read_text("utf-8")
        # A blank makes up for the letter less.
        write(files.inbox(), text.replace('"read": false', '"read":  true', 1))
        assert (await observed(store))[before:] == [MarkMail(INBOX, seen, "seen")]
    await assert_the_log_tells_all(store)


@every_way
async def test_mail_that_they_drain_between_two_of_our_sends_does_not_come_back(
    store: FileStore, files: Files, write: Write
) -> None:
    await fill(store, "m1", "m2", "m3")
    write(files.inbox(), "[]")
    await fill(store, "m4", "m5")
    assert await states(store) == {"m4": "stored", "m5": "stored"}
    assert await observed(store) == [MarkMail(INBOX, ("m1", "m2", "m3"), "consumed")]
    await assert_the_log_tells_all(store)


@every_way
async def test_mail_whose_words_they_change_keeps_the_new_words(
    store: FileStore, files: Files, write: Write
) -> None:
    await fill(store, "m1", "m2", "m3")
    rewrite(write, files.inbox(), lambda rows: rows[0].update(text="MM"))
    await fill(store, "m4", "m5")
    assert list(await states(store)) == ["MM", "m2", "m3", "m4", "m5"]


async def test_mail_that_they_add_while_a_commit_delivers_stays(
    store: FileStore, files: Files
) -> None:
    await fill(store, "m1", "m2")
    await commit_while(
        store,
        lambda: files.edit(files.inbox(), lambda rows: rows.append(theirs("t1"))),
        lambda view: [Deliver(INBOX, message("m3", text="m3"))],
    )
    assert list(await states(store)) == ["m1", "m2", "t1", "m3"]
    await assert_the_log_tells_all(store)


async def test_an_inbox_that_they_opened_before_our_send_and_wrote_after_it_breaks_nothing_of_ours(
    store: FileStore, files: Files
) -> None:
    """Their write goes to the file that our send put away. It must not come back half mended."""
    await fill(store, "m1", "m2", "m3")
    with files.inbox().open("r+", encoding="utf-8") as file:
        rows = json.load(file)
        await fill(store, "m4")
        rows[0]["text"] = "X" * 500
        file.seek(0)
        json.dump(rows, file, indent=2)
        file.truncate()
    for number in range(5, 9):
        await fill(store, f"m{number}")
        assert list(await states(store)) == [f"m{each}" for each in range(1, number + 1)]
    await assert_the_log_tells_all(store)


async def test_an_inbox_that_they_are_just_making_is_waited_for(
    store: FileStore, files: Files
) -> None:
    """They open the new file first and write `[]` into it an instant later."""
    files.inbox().touch()
    late = threading.Timer(0.05, files.inbox().write_text, ["[]"])
    late.start()
    await fill(store, "m1")
    late.join()
    assert await states(store) == {"m1": "stored"}


@pytest.mark.parametrize("seen_kept", [200, 1], ids=["kept", "archived"])
async def test_their_mail_enters_the_log_though_we_mark_it_before_we_log_it(
    tmp_path: Path, store: FileStore, files: Files, seen_kept: int
) -> None:
    rows = [theirs(f"t{number}", read=False) for number in range(6)]
    files.write(files.inbox(), rows)
    reader = FileStore(tmp_path, fsync=False, limits=StoreLimits(seen_kept=seen_kept))
    ids = [entry.id for entry in (await reader.mailbox(TEAM, INBOX)).entries]
    await reader.acknowledge(TEAM, INBOX, ids[:5], "seen", actor=INBOX)
    assert len(files.read(files.inbox())) == (6 if seen_kept == 200 else 2)
    delivered = [c.message.text for c in await observed(reader) if isinstance(c, Deliver)]
    assert delivered == [row["text"] for row in rows]
    await assert_the_log_tells_all(reader)
    await reader.aclose()


async def test_a_task_they_make_under_the_id_we_would_give_keeps_it(
    store: FileStore, files: Files
) -> None:
    await put(store, PutTask(task("1")))

    def create(view: View) -> Sequence[Change]:
        return [PutTask(task(str(view.next_task_id), subject="ours"))]

    runs = await commit_while(
        store, lambda: files.write(files.task("2"), task("2", subject="theirs").raw), create
    )
    tasks = (await store.read(TEAM)).tasks
    assert runs == 2
    assert {key: each.subject for key, each in tasks.items()} == {
        "1": "Task 1",
        "2": "theirs",
        "3": "ours",
    }
    assert [c.task.id for c in await observed(store) if isinstance(c, PutTask)] == ["2"]
    await assert_the_log_tells_all(store)


async def test_an_id_that_they_gave_and_took_back_is_not_given_again(
    store: FileStore, files: Files
) -> None:
    await put(store, PutTask(task("1")))
    (files.tasks / ".highwatermark").write_text("7")
    ids: list[int] = []

    def create(view: View) -> Sequence[Change]:
        ids.append(view.next_task_id)
        return [PutTask(task(str(view.next_task_id)))]

    for _ in range(2):
        await store.commit(TEAM, create, actor=LEAD, op="test")
    assert ids == [8, 9]


async def test_a_task_that_they_delete_under_our_hands_is_not_made_again(
    store: FileStore, files: Files
) -> None:
    await put(store, PutTask(task("1")), PutTask(task("2")))
    assert await commit_while(store, files.task("1").unlink, claim) == 2
    assert list((await store.read(TEAM)).tasks) == ["2"]
    assert await observed(store) == [DeleteTask("1")]
    await assert_the_log_tells_all(store)


@pytest.mark.parametrize("data", [b"", b'{"name": "al', b"[]", b"\xff\xfe", b'{"members": []}'])
async def test_a_torn_config_is_an_error_that_names_it_until_it_is_restored(
    store: FileStore, files: Files, data: bytes
) -> None:
    await put(store, PutTask(task("1")), PutMember(member("cleo", color="blue")))
    whole = files.config.read_bytes()
    files.config.write_bytes(data)
    make_older(files.config, 60)
    needing_it = (
        store.config(TEAM),
        store.read(TEAM),
        store.events(TEAM),
        store.commit(TEAM, lambda view: [PutMember(view.team.roster[0])], actor=LEAD, op="test"),
        put(store, PutMember(member("dora"))),
        put(store, RemoveMember("ann")),
        put(store, PutTeam({"description": "new"})),
    )
    for work in needing_it:
        with pytest.raises(Unreadable) as raised:
            await work
        assert raised.value.path == str(files.config)
    assert files.config.read_bytes() == data
    assert await store.teams() == [TEAM]
    with pytest.raises(Conflict):
        await store.create(TEAM, config(TEAM), actor=LEAD)
    (found,) = await store.checkup(TEAM, fix=False)
    assert (found.kind, found.where, found.fixed) == ("unreadable", str(files.config), False)
    (found,) = await store.checkup(TEAM, fix=True)
    assert (found.kind, found.where, found.fixed) == ("unreadable", str(files.config), True)
    assert files.config.read_bytes() == whole
    assert [path.read_bytes() for path in (files.root / ".bullpen/quarantine").iterdir()] == [data]
    assert await store.checkup(TEAM, fix=True) == []
    await assert_the_log_tells_all(store)


async def test_what_needs_no_config_goes_on_beside_a_torn_one(
    store: FileStore, files: Files
) -> None:
    await put(store, PutTask(task("1")))
    await fill(store, "m1")
    whole = files.config.read_bytes()
    files.config.write_bytes(b"")
    await fill(store, "m2")
    await store.acknowledge(TEAM, INBOX, ["m1"], "seen", actor=INBOX)
    await store.commit(TEAM, claim, actor="ann", op="claim")
    await store.beat(TEAM, heartbeat("ann"))
    assert await states(store) == {"m1": "seen", "m2": "stored"}
    files.config.write_bytes(whole)
    assert (await store.read(TEAM)).tasks["1"].owner == "ann"
    assert list(await store.presence(TEAM)) == ["ann"]
    await assert_the_log_tells_all(store)


async def test_a_config_that_they_are_just_writing_is_waited_for(
    store: FileStore, files: Files
) -> None:
    whole = files.config.read_bytes()
    files.config.write_bytes(b"")
    late = threading.Timer(0.05, files.config.write_bytes, [whole])
    late.start()
    assert (await store.config(TEAM)).name == TEAM
    late.join()


@pytest.mark.parametrize("met_before", [False, True], ids=["never-met", "met-before"])
async def test_a_torn_config_of_a_team_that_our_log_does_not_know_is_reported_not_raised(
    tmp_path: Path, files: Files, met_before: bool
) -> None:
    files.write(files.config, config(TEAM).raw)
    store = FileStore(tmp_path, fsync=False)
    if met_before:
        await fill(store, "m1")
    files.config.write_bytes(b"")
    make_older(files.config, 60)
    for fix in (False, True):
        findings = await store.checkup(TEAM, fix=fix)
        assert [(f.kind, f.where, f.fixed) for f in findings] == [
            ("unreadable", str(files.config), False)
        ]
    assert files.config.read_bytes() == b""
    await store.aclose()


@pytest.mark.parametrize("indent", [2, None], ids=["indented", "on-one-line"])
async def test_rows_that_are_no_messages_are_reported_and_kept_until_doctor_moves_them(
    store: FileStore, files: Files, indent: int | None
) -> None:
    await fill(store, "m1")
    bad: list[Any] = [{"text": "from nobody", "read": False}, {"from": "x", "read": False}, "?", 7]
    rows = [*files.read(files.inbox()), *bad, theirs("t1", read=False)]
    files.inbox().write_text(json.dumps(rows, indent=indent), encoding="utf-8")
    await fill(store, "m2", "m3", "m4")
    await store.acknowledge(TEAM, INBOX, ["m2"], "seen", actor=INBOX)
    await put(store, Deliver(INBOX, message("m5", text="m5")))
    box = await store.mailbox(TEAM, INBOX)
    assert [entry.message.text for entry in box.entries] == ["m1", "t1", "m2", "m3", "m4", "m5"]
    assert [problem.where for problem in box.problems] == [
        f"{files.inbox()}[{index}]" for index in (1, 2, 3, 4)
    ]
    assert files.read(files.inbox())[1:5] == bad
    await assert_the_log_tells_all(store)
    assert [f.kind for f in await store.checkup(TEAM, fix=False)] == ["bad_row"]
    (found,) = await store.checkup(TEAM, fix=True)
    assert (found.kind, found.fixed) == ("bad_row", True)
    after = await store.mailbox(TEAM, INBOX)
    assert (after.entries, after.problems) == (box.entries, ())
    (kept,) = (files.root / ".bullpen" / "quarantine").iterdir()
    assert files.read(kept) == bad
    await assert_the_log_tells_all(store)


STRANGE = {
    "zeta": None,
    "nested": {"b": [1, 2.5, {"a": "ü"}], "a": ""},
    "Alpha": 12345678901234567890,
    "half": "\ud83d",
    "": False,
}


def in_order(value: Any) -> Any:
    """A JSON value with the order of its keys, which plain comparison would not see."""
    return json.dumps(value)


async def test_unknown_fields_of_a_task_survive_our_rewrite_in_their_order(
    store: FileStore, files: Files
) -> None:
    raw = {**STRANGE, **task("1").raw, "later": [None], "metadata": {"z": 1, "_internal": False}}
    files.task("1").write_text(json.dumps(raw, indent=2), encoding="utf-8")
    await store.commit(TEAM, claim, actor="ann", op="claim")
    after = files.read(files.task("1"))
    assert (after.pop("owner"), after["status"]) == ("ann", "in_progress")
    assert in_order(after) == in_order({**raw, "status": "in_progress"})


async def test_unknown_fields_of_a_team_and_its_members_survive_our_rewrite_in_their_order(
    store: FileStore, files: Files
) -> None:
    row = {"later": 1, "name": "ann", **STRANGE, "agentId": "ann@alpha", "isActive": True}
    raw = {**STRANGE, **files.read(files.config), "zz": {"y": 1, "x": 2}}
    raw["members"][1] = row
    files.config.write_text(json.dumps(raw, indent=2), encoding="utf-8")

    def set_model(view: View) -> Sequence[Change]:
        found = view.team.member("ann")
        assert found is not None
        return [PutMember(found.evolve(is_active=False)), PutMember(member("cleo"))]

    await store.commit(TEAM, set_model, actor=LEAD, op="test")
    raw["members"][1] = {**row, "isActive": False}
    raw["members"].append(member("cleo").raw)
    assert in_order(files.read(files.config)) == in_order(raw)


async def test_unknown_fields_of_mail_survive_our_rewrite_in_their_order(
    store: FileStore, files: Files
) -> None:
    row = {**STRANGE, **theirs("t1"), "lead_sig": "x", "read": False, "zz": [{"b": 1, "a": 2}]}
    files.inbox().write_text(json.dumps([row], indent=2), encoding="utf-8")
    await fill(store, "m1", "m2", "m3")
    assert in_order(files.read(files.inbox())[0]) == in_order(row)
    (first, *_) = (await store.mailbox(TEAM, INBOX)).entries
    await store.acknowledge(TEAM, INBOX, [first.id], "seen", actor=INBOX)
    assert in_order(files.read(files.inbox())[0]) == in_order({**row, "read": True})
