"""What the fuzzer found once, each with a name of its own."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import pytest

from bullpen.errors import Invalid, Refused, Unavailable, Unreadable
from bullpen.protocol.changes import UnknownChange
from bullpen.protocol.names import LEAD
from bullpen.store.files.store import FileStore
from bullpen.team.team import Team
from support.fuzz.commandline import call
from support.fuzz.home import TEAM, Sandbox
from support.fuzz.mending import (
    ANN,
    EVENTS,
    HEAD,
    OWN,
    PLAN_REQUEST,
    ROOT,
    change,
    is_well,
    lines_of,
    mended,
    quarantined,
    write,
)

pytestmark = pytest.mark.no_loss

FILES = (
    f"{ROOT}/config.json", f"tasks/{TEAM}/3.json", ANN, f"{OWN}/requests/{PLAN_REQUEST}.json",
    EVENTS, HEAD, f"{OWN}/ledger.json", f"{OWN}/archive/ann.jsonl", f"{OWN}/presence/ann.json",
    f"{OWN}/mail/bob.injected.json", f"{OWN}/mail/ann.state", f"{OWN}/mail/ann.shadow",
    f"tasks/{TEAM}/.highwatermark",
)  # fmt: skip
FOLDERS = ("inboxes", ".bullpen", *(f".bullpen/{name}" for name in ("requests", "presence", "mail",
           "archive")))  # fmt: skip


STRANGERS: dict[str, Callable[[Sandbox, str], None]] = {
    "a pipe": lambda sandbox, path: os.mkfifo(path),
    "a folder": lambda sandbox, path: os.mkdir(path),
    "a link outside": lambda sandbox, path: os.symlink(sandbox.canary / "task.json", path),
    "a link to itself": lambda sandbox, path: os.symlink(path, path),
    "a link to a device": lambda sandbox, path: os.symlink("/dev/zero", path),
}


@pytest.mark.parametrize("stranger", STRANGERS)
@pytest.mark.parametrize("path", FILES)
async def test_what_is_no_file_is_refused_at_once_and_moved_to_the_quarantine(
    sandbox: Sandbox, store: FileStore, team: Team, path: str, stranger: str
) -> None:
    os.unlink(sandbox.at(path))
    STRANGERS[stranger](sandbox, sandbox.at(path))
    for operation in (
        lambda: team.snapshot(),
        lambda: team.mailbox.send("ann", "Hello", sender="bob"),
        lambda: team.mailbox.read("ann", history=True),
        lambda: team.mailbox.mark("ann", ["00000000-0000-4000-8000-000000000010"], "seen"),
        lambda: team.tasks.delete("5", by=LEAD),
        lambda: team.events(),
        lambda: store.checkup(TEAM, fix=False),
    ):
        try:
            await operation()
        except Unavailable as error:
            assert os.path.basename(path) in error.message
    # A shadow was replaced by what was sent meanwhile.
    await is_well(store, await store.checkup(TEAM, fix=True))
    assert sandbox.escapes() == []


@pytest.mark.parametrize("folder", FOLDERS)
async def test_a_file_where_a_folder_should_be_is_moved_to_the_quarantine(
    sandbox: Sandbox, store: FileStore, folder: str
) -> None:
    path = sandbox.home / ROOT / folder
    path.rename(sandbox.home / "aside")
    path.write_bytes(b"in the way")
    findings = await mended(store)
    assert findings[0].kind == "in_the_way" and findings[0].where == str(path)
    assert any(entry.read_bytes() == b"in the way" for entry in quarantined(sandbox))


@pytest.mark.parametrize("folder", [".bullpen", ".bullpen/notes", "notes"])
async def test_a_file_where_notes_should_be_is_found_and_repaired(
    sandbox: Sandbox, store: FileStore, team: Team, folder: str
) -> None:
    path = sandbox.home / "teams" / TEAM / folder
    path.rename(sandbox.home / "aside")
    path.write_bytes(b"in the way")
    found = await store.checkup(TEAM, fix=False)
    assert any(each.where.startswith(str(path)) for each in found)
    with pytest.raises(Unavailable):
        await team.notes.read("plan")
    await is_well(store, await store.checkup(TEAM, fix=True))


async def test_a_task_list_that_is_no_folder_is_not_an_empty_one(
    sandbox: Sandbox, store: FileStore, team: Team
) -> None:
    folder = sandbox.home / "tasks" / TEAM
    folder.rename(sandbox.home / "aside")
    folder.write_bytes(b"")
    with pytest.raises(Unreadable, match="not a folder"):
        await store.read(TEAM)
    with pytest.raises(Unavailable):
        await team.tasks.claim("1", by="ann")
    with pytest.raises(Unreadable, match="not a folder"):
        await team.events()


LINES: dict[str, Callable[[dict[str, Any]], object]] = {
    "no changes": lambda event: event.pop("changes"),
    "changes are a number": lambda event: event.update(changes=1),
    "a change is a list": lambda event: event.update(changes=[[]]),
    "a change without a kind": lambda event: event.update(changes=[{}]),
    "a task is a text": lambda event: event.update(changes=[{"put": "task", "task": "x"}]),
    "a task's id is a list": lambda e: e.update(changes=[{"put": "task_deleted", "id": []}]),
    "ids are lists": lambda event: event.update(
        changes=[{"put": "mail_state", "agent": "ann", "ids": [[]], "state": "seen"}]
    ),
    "a message with another id": lambda event: event.update(
        changes=[{"put": "message", "to": "ann", "id": [], "message": {"from": "a", "text": "b"}}]
    ),
}


def replace_line(sandbox: Sandbox, how: Callable[[dict[str, Any]], object]) -> bytes:
    lines = lines_of(sandbox)
    event = json.loads(lines[20])
    how(event)
    text = json.dumps(event).encode().ljust(len(lines[20]) - 1) + b"\n"
    (sandbox.home / f"{OWN}/ledger.json").unlink()
    lines[20] = text if len(text) == len(lines[20]) else text[: len(lines[20]) - 1] + b"\n"
    write(sandbox, EVENTS, b"".join(lines))
    return lines[20]


async def test_a_line_of_the_log_without_a_number_is_a_damaged_line(
    sandbox: Sandbox, store: FileStore, team: Team
) -> None:
    replace_line(sandbox, lambda event: event.update(seq=True))
    with pytest.raises(Unreadable, match=r"events\.jsonl"):
        await team.events()
    with pytest.raises(Unreadable, match=r"events\.jsonl"):
        await team.tasks.claim("1", by="cyd")
    await mended(store)
    assert [event.seq for event in await team.events()][:21] == list(range(1, 22))


@pytest.mark.parametrize("how", LINES)
async def test_a_line_of_the_log_that_this_version_does_not_know_stays_and_is_shown_as_unknown(
    sandbox: Sandbox, store: FileStore, team: Team, how: str
) -> None:
    line = replace_line(sandbox, LINES[how])
    await team.tasks.claim("1", by="cyd")
    assert [type(each) for each in (await team.events())[20].changes] == [UnknownChange]
    await store.checkup(TEAM, fix=True)
    assert line in (sandbox.home / EVENTS).read_bytes()
    assert [event.seq for event in await team.events()][:21] == list(range(1, 22))


async def test_a_line_that_is_missing_in_the_log_does_not_cost_those_after_it(
    sandbox: Sandbox, store: FileStore, team: Team
) -> None:
    lines = lines_of(sandbox)
    write(sandbox, EVENTS, b"".join(lines[:10] + lines[11:]))
    await mended(store)
    events = await team.events()
    assert [event.seq for event in events][: len(lines)] == list(range(1, len(lines) + 1))
    assert [event.op for event in events[:11]][-1] == "damaged"
    assert "damaged" not in [event.op for event in events[11:]]


async def test_a_log_that_is_there_twice_is_not_carried_out_again(
    sandbox: Sandbox, store: FileStore, team: Team
) -> None:
    rows = json.loads(sandbox.base[ANN])
    write(sandbox, ANN, b"[]")  # Another program has taken all messages out.
    write(sandbox, EVENTS, sandbox.base[EVENTS] * 2)
    with pytest.raises(Unreadable, match="cannot follow"):
        await team.mailbox.send("ann", "Hello", sender="bob")
    await mended(store)
    assert json.loads((sandbox.home / ANN).read_bytes()) == []
    assert rows


async def test_nothing_is_appended_to_a_log_whose_last_line_lost_its_end(
    sandbox: Sandbox, store: FileStore, team: Team
) -> None:
    write(sandbox, EVENTS, sandbox.base[EVENTS][:-1] + b"\x0b")
    with pytest.raises(Unreadable, match="last line"):
        await team.tasks.claim("1", by="cyd")
    await mended(store)
    assert (await team.tasks.claim("1", by="cyd")).owner == "cyd"


HEADS: dict[str, Callable[[dict[str, Any]], object]] = {
    "a huge size": lambda head: head.update(size=10**30),
    "a size in the middle of a line": lambda head: head.update(size=head["size"] - 7),
    "a size at the end of another line": lambda head: head.update(size=0),
    "another number": lambda head: head.update(seq=head["seq"] + 4),
    "a number that is a text": lambda head: head.update(seq="1"),
    "less than nothing": lambda head: head.update(size=-1),
    "a huge id": lambda head: head.update(high=10**70),
}


@pytest.mark.parametrize("how", HEADS)
async def test_a_head_that_cannot_be_true_is_found_again_from_the_log(
    sandbox: Sandbox, store: FileStore, team: Team, how: str
) -> None:
    block = sandbox.base[HEAD]
    head = json.loads(block[:256])
    HEADS[how](head)
    write(sandbox, HEAD, json.dumps(head).encode().ljust(255) + b"\n" + block[256:])
    before = len(lines_of(sandbox))
    await store.checkup(TEAM, fix=True)
    assert await store.checkup(TEAM, fix=False) == []
    assert (await store.read(TEAM)).seq >= before
    assert (await team.tasks.claim("1", by="cyd")).owner == "cyd"
    assert (await team.tasks.add("New", by=LEAD)).id == "8"
    seqs = [event.seq for event in await team.events()]
    assert seqs == list(range(1, len(seqs) + 1))


LEDGERS: dict[str, Callable[[dict[str, Any]], object]] = {
    "a size that is a text": lambda ledger: ledger.update(size="1"),
    "a size in the middle of a line": lambda ledger: ledger.update(size=ledger["size"] - 3),
    "mail that is a list": lambda ledger: ledger.update(mail=[]),
    "a mailbox that is a number": lambda ledger: ledger["mail"].update(ann=1),
    "tasks that are a number": lambda ledger: ledger.update(tasks=5),
    "a digest that is a list": lambda ledger: ledger["tasks"].update({"1": []}),
    "the mailbox of nobody": lambda ledger: ledger["mail"].update({"../../x": {"a": "stored"}}),
}


@pytest.mark.parametrize("how", LEDGERS)
async def test_a_ledger_that_makes_no_sense_is_made_again_from_the_log(
    sandbox: Sandbox, team: Team, how: str
) -> None:
    change(sandbox, f"{OWN}/ledger.json", LEDGERS[how])
    assert (await team.tasks.claim("1", by="cyd")).owner == "cyd"
    assert (await team.events())[-1].op == "task.claim"


@pytest.mark.parametrize("line", [b"1", b"[]", b'{"waits": []}', b"\xff", b"[" * 100_000])
async def test_a_line_of_an_archive_that_is_no_message_is_taken_out_and_the_rest_stays(
    sandbox: Sandbox, store: FileStore, team: Team, line: bytes
) -> None:
    path = f"{OWN}/archive/ann.jsonl"
    whole = sandbox.base[path]
    write(sandbox, path, line + b"\n" + whole + b"unfinished")
    with pytest.raises(Unreadable, match=r"ann\.jsonl"):
        await team.mailbox.read("ann", history=True)
    await mended(store)
    assert (sandbox.home / path).read_bytes() == whole + b"unfinished"
    assert quarantined(sandbox)[0].read_bytes() == line + b"\n"


@pytest.mark.parametrize("text", [b"[]", b"1", b'["ab"]', b"", b"{"])
async def test_a_note_about_injected_mail_that_is_no_object_is_taken_out(
    sandbox: Sandbox, store: FileStore, team: Team, text: bytes
) -> None:
    write(sandbox, f"{OWN}/mail/bob.injected.json", text)
    with pytest.raises(Unreadable, match=r"bob\.injected\.json"):
        await team.mailbox.read("bob")
    await mended(store)
    assert all(entry.state == "stored" for entry in (await team.mailbox.read("bob")).unread)


async def test_a_heartbeat_that_cannot_be_read_is_taken_out(
    sandbox: Sandbox, store: FileStore, team: Team
) -> None:
    write(sandbox, f"{OWN}/presence/ann.json", b'{"agent": 1}')
    (problem,) = (await team.snapshot()).problems
    assert problem.where == "who is present"
    assert "presence/ann.json" in problem.why
    assert "bullpen doctor --fix" in problem.why
    await mended(store)
    assert quarantined(sandbox)[0].read_bytes() == b'{"agent": 1}'


@pytest.mark.parametrize("other", ["../../x", "another", "\ud83d"])
async def test_a_request_under_another_name_than_its_own_cannot_be_read(
    sandbox: Sandbox, store: FileStore, other: str
) -> None:
    path = f"{OWN}/requests/{PLAN_REQUEST}.json"
    change(sandbox, path, lambda request: request.update(id=other))
    state = await store.read(TEAM)
    assert other not in state.requests and state.problems[0].where.endswith(path)
    await mended(store)
    assert json.loads((sandbox.home / path).read_bytes())["id"] == PLAN_REQUEST


@pytest.mark.parametrize("end", ["from", "to"])
async def test_a_request_from_or_to_nobody_who_can_get_mail_cannot_be_read(
    sandbox: Sandbox, store: FileStore, end: str
) -> None:
    path = f"{OWN}/requests/{PLAN_REQUEST}.json"
    change(sandbox, path, lambda request: request.update({end: "\ud83d"}))
    assert (await store.read(TEAM)).problems[0].where.endswith(path)
    await mended(store)


@pytest.mark.parametrize("subject", [{}, {"toolName": 1}, {"toolName": "x", "toolUseId": []}])
async def test_a_request_that_does_not_say_what_it_asks_cannot_be_read(
    sandbox: Sandbox, store: FileStore, team: Team, subject: dict[str, Any]
) -> None:
    request_id = "perm-1794700069000-0000000"
    path = f"{OWN}/requests/{request_id}.json"
    change(sandbox, path, lambda request: request.update(subject=subject))
    with pytest.raises(Unreadable, match=request_id):
        await team.approvals.answer(request_id, approve=True, by=LEAD)
    await mended(store)
    assert (await team.approvals.answer(request_id, approve=True, by=LEAD)).state == "approved"


async def test_an_id_nobody_would_count_up_to_does_not_use_up_the_numbers(
    sandbox: Sandbox, store: FileStore, team: Team
) -> None:
    stray = sandbox.home / "tasks" / TEAM / f"{'9' * 64}.json"
    task = json.loads(sandbox.base[f"tasks/{TEAM}/1.json"])
    stray.write_text(json.dumps({**task, "id": "9" * 64}), encoding="utf-8")
    await team.events()
    await team.tasks.edit("9" * 64, by=LEAD, subject="Another")
    assert (await team.tasks.add("New", by=LEAD)).id == "8"
    assert await store.checkup(TEAM, fix=False) == []


@pytest.mark.parametrize(
    "text",
    [b"[" * 100_000, b'[{"a":' * 100_000, b'{"a":' * 100_000 + b"1" + b"}" * 100_000],
    ids=["open arrays", "open objects", "closed objects"],
)
async def test_a_deep_inbox_is_mended_and_no_unread_message_is_lost(
    sandbox: Sandbox, store: FileStore, team: Team, text: bytes
) -> None:
    before = [entry.id for entry in (await team.mailbox.read("ann")).unread]
    write(sandbox, ANN, text)
    await mended(store)
    assert [entry.id for entry in (await team.mailbox.read("ann")).unread] == before


async def test_messages_inside_something_that_is_no_array_are_found_again(
    sandbox: Sandbox, store: FileStore, team: Team
) -> None:
    before = [entry.id for entry in (await team.mailbox.read("ann")).entries]
    write(sandbox, ANN, b'{"messages": ' + sandbox.base[ANN] + b"}")
    await mended(store)
    assert [entry.id for entry in (await team.mailbox.read("ann")).entries] == before


async def test_a_message_that_nests_too_deeply_to_be_kept_goes_to_the_quarantine(
    sandbox: Sandbox, store: FileStore, team: Team
) -> None:
    deep = b'[{"from": "bob", "text": "x", "y": ' + b"[" * 300 + b"]" * 300 + b"}, "
    write(sandbox, ANN, deep + sandbox.base[ANN][1:])
    await mended(store)
    assert len((await team.mailbox.read("ann")).entries) == len(json.loads(sandbox.base[ANN]))


async def test_a_commit_that_waits_for_a_damaged_inbox_is_carried_out_when_it_is_mended(
    sandbox: Sandbox, store: FileStore, team: Team
) -> None:
    last = json.loads(lines_of(sandbox)[-1])["seq"]
    message = {"from": "bob", "text": "Late", "msg_id": "late", "read": False}
    deliver = {"put": "message", "to": "ann", "id": "late", "message": message}
    event = {"seq": last + 1, "time": "", "actor": "bob", "op": "test", "changes": [deliver]}
    write(sandbox, EVENTS, sandbox.base[EVENTS] + json.dumps(event).encode() + b"\n")
    write(sandbox, ANN, b"[damaged")
    with pytest.raises(Unreadable, match=r"ann\.json"):
        await team.events()
    await mended(store)
    assert "late" in [entry.id for entry in (await team.mailbox.read("ann")).entries]


@pytest.mark.parametrize("name", ["../../x", "a/b", ".hidden", "a\nb", "\ud83d"])
async def test_a_row_whose_name_would_leave_its_folder_is_no_member(
    sandbox: Sandbox, store: FileStore, team: Team, name: str
) -> None:
    path = f"{ROOT}/config.json"
    change(sandbox, path, lambda config: config["members"].append({"name": name}))
    assert name not in [member.name for member in await team.roster.list()]
    assert len(await team.mailbox.broadcast("Hello", sender=LEAD)) == 4
    await mended(store)
    assert json.loads(quarantined(sandbox)[0].read_bytes()) == [{"name": name}]


async def test_of_two_rows_with_one_name_the_first_is_the_member(
    sandbox: Sandbox, store: FileStore, team: Team
) -> None:
    path = f"{ROOT}/config.json"
    change(sandbox, path, lambda config: config["members"].append({"name": "ann"}))
    assert [member.name for member in await team.roster.list()].count("ann") == 1
    await mended(store)
    assert json.loads(quarantined(sandbox)[0].read_bytes()) == [{"name": "ann"}]


def deep(levels: int) -> Any:
    value: Any = None
    for _ in range(levels):
        value = [value]
    return value


async def test_deep_fields_of_other_programs_keep_nobody_from_changing_the_record(
    sandbox: Sandbox, team: Team
) -> None:
    def more(config: dict[str, Any]) -> None:
        config["members"].append({"name": "dee", "x": deep(195)})

    change(sandbox, f"{ROOT}/config.json", more)
    change(sandbox, f"tasks/{TEAM}/1.json", lambda task: task.update(metadata={"x": deep(195)}))
    await team.roster.join("new", by=LEAD)
    await team.roster.remove("cyd", by=LEAD)
    await team.tasks.claim("1", by="new")
    config = json.loads((sandbox.home / ROOT / "config.json").read_bytes())
    assert {"name": "dee", "x": deep(195)} in config["members"]
    task = json.loads((sandbox.home / "tasks" / TEAM / "1.json").read_bytes())
    assert task["metadata"]["x"] == deep(195) and task["owner"] == "new"


@pytest.mark.parametrize(
    "name", [".json", "..json", "x" * 240 + ".json", "\udcff.json", "a b.json"]
)
async def test_a_stray_file_among_the_inboxes_is_left_alone(
    sandbox: Sandbox, store: FileStore, team: Team, name: str
) -> None:
    stray = sandbox.home / ROOT / "inboxes" / name
    stray.write_bytes(b"{")
    sandbox.age(f"{ROOT}/inboxes/{name}")
    await team.events()
    assert await store.checkup(TEAM, fix=True) == []
    assert stray.read_bytes() == b"{"


async def test_a_stray_file_with_a_long_name_among_the_tasks_moves_to_the_quarantine(
    sandbox: Sandbox, store: FileStore
) -> None:
    name = "x" * 240 + ".json"
    write(sandbox, f"tasks/{TEAM}/{name}", b"{")
    await mended(store)
    assert quarantined(sandbox)[0].read_bytes() == b"{"


async def test_a_message_out_of_a_damaged_inbox_has_the_words_of_the_log(
    sandbox: Sandbox, store: FileStore, team: Team
) -> None:
    before = [(entry.state, entry.message) for entry in (await team.mailbox.read("ann")).entries]
    write(sandbox, ANN, sandbox.base[ANN].replace(b"Message", b"Mess\xffage"))
    await mended(store)
    after = [(entry.state, entry.message) for entry in (await team.mailbox.read("ann")).entries]
    assert after == before


async def test_what_the_log_says_last_is_restored_even_without_a_head(
    sandbox: Sandbox, store: FileStore, team: Team
) -> None:
    """The last line notes what another program did: it was carried out before it was logged."""
    write(sandbox, HEAD, b"")
    write(sandbox, f"{ROOT}/config.json", b"{")
    await mended(store)
    assert "QA Lead!" in [member.name for member in await team.roster.list()]


async def test_nobody_without_a_name_that_can_be_written_gives_a_task_away(
    sandbox: Sandbox, team: Team
) -> None:
    with pytest.raises(Invalid, match="member name"):
        await team.tasks.add("New", by="\udcff", owner="ann")
    assert sandbox.changed("/inboxes/") == []


@pytest.mark.parametrize("noun", ["team", "task", "member"])
def test_asked_for_JSON_a_group_without_a_command_answers_with_JSON(
    sandbox: Sandbox, noun: str
) -> None:
    outcome = call(["--json", noun], {"BULLPEN_HOME": str(sandbox.home)})
    assert outcome.code == 2 and json.loads(outcome.out)["error"]["kind"] == "usage"


async def test_an_event_from_outside_cannot_name_a_path(
    sandbox: Sandbox, store: FileStore, team: Team
) -> None:
    last = json.loads(lines_of(sandbox)[-1])["seq"]
    task = {**json.loads(sandbox.base[f"tasks/{TEAM}/1.json"]), "id": "../../../canary/new"}
    event = {"seq": last + 1, "time": "", "actor": "x", "op": "test"}
    event["changes"] = [{"put": "task", "task": task}]
    write(sandbox, EVENTS, sandbox.base[EVENTS] + json.dumps(event).encode() + b"\n")
    with pytest.raises(Unreadable, match=r"events\.jsonl"):
        await team.events()
    await mended(store)
    assert sandbox.escapes() == []


async def test_a_damaged_task_still_blocks_those_who_wait_for_it(
    sandbox: Sandbox, team: Team
) -> None:
    write(sandbox, f"tasks/{TEAM}/4.json", b"{")
    with pytest.raises(Refused) as refusal:
        await team.tasks.claim("6", by="cyd")
    assert refusal.value.reason == "blocked"
