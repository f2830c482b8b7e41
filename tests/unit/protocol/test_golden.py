"""Files that the real program wrote are read, kept and rewritten without harm."""

from __future__ import annotations

import difflib
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, assert_never

import pytest

from bullpen.protocol import json_text
from bullpen.protocol.message import Message
from bullpen.protocol.names import plan_digest
from bullpen.protocol.payloads import (
    PermissionResponse,
    PlanApprovalRequest,
    PlanApprovalResponse,
    payload_of,
)
from bullpen.protocol.record import Wire
from bullpen.protocol.task import Task
from bullpen.protocol.team import Member, TeamConfig

GOLDEN = Path(__file__).parents[2] / "golden"
VERSIONS = ("2.1.41", "2.1.177", "2.1.325")

Kind = Literal["config", "inbox", "task", "highwatermark", "lock", "hook"]


@dataclass(frozen=True)
class Golden:
    """One file, with numbers where the recording put placeholders for numbers."""

    path: Path
    kind: Kind
    data: bytes

    @property
    def is_damaged(self) -> bool:
        return "-empty-" in self.path.name or "-torn-" in self.path.name

    @property
    def value(self) -> Any:
        return json_text.loads(self.data)


def kind_of(name: str) -> Kind:
    kinds: dict[str, Kind] = {
        r"hook-\w+\.json": "hook",
        r".*\.lock": "lock",
        r".*\.highwatermark": "highwatermark",
        r"(.*__)?config(-.*)?\.json": "config",
        r"(.*__inboxes__|inbox-).*\.json": "inbox",
        r"(.*tasks__|task-).*\.json": "task",
    }
    return next(kind for pattern, kind in kinds.items() if re.fullmatch(pattern, name))


def golden(path: Path) -> Golden:
    data = path.read_bytes()
    numbers = re.sub(rb'(?<!\\)"<(?:MS|PID)>"', b"1794696426856", data)
    return Golden(path, kind_of(path.name), numbers)


ALL = [
    golden(path)
    for version in VERSIONS
    for path in sorted((GOLDEN / version).iterdir(), key=lambda path: path.name)
]
SOUND = [file for file in ALL if not file.is_damaged]


def files(*kinds: Kind) -> list[Any]:
    return [
        pytest.param(file, id=str(file.path.relative_to(GOLDEN)))
        for file in SOUND
        if file.kind in kinds
    ]


def in_order(value: Any) -> str:
    """A text that two values share only if every key is in the same place at every depth."""
    return json.dumps(value)


def messages(file: Golden) -> list[Message]:
    return [Message.parse(row) for row in file.value]


def payload_texts(file: Golden) -> list[str]:
    return [message.text for message in messages(file) if message.text.startswith("{")]


def records(file: Golden) -> Iterator[tuple[Wire, Any]]:
    """Every record that a file holds, and the JSON object it was read from."""
    match file.kind:
        case "config":
            value = file.value
            yield TeamConfig.parse(value), value
            yield from ((Member.parse(row), row) for row in value["members"])
        case "task":
            yield Task.parse(file.value), file.value
        case "inbox":
            yield from ((Message.parse(row), row) for row in file.value)
            for text in payload_texts(file):
                payload = payload_of(text)
                assert payload is not None, text
                yield payload, json.loads(text)
        case "hook" | "highwatermark" | "lock":
            return
        case _:
            assert_never(file.kind)


def check_kept(file: Golden) -> None:
    """Everything in the file is read as what it is and written as it was."""
    for record, raw in records(file):
        assert in_order(json.loads(record.dump())) == in_order(raw)
        for name, key in record.field_keys().items():
            if key in raw:
                assert getattr(record, name) == raw[key], key
    match file.kind:
        case "config":
            config = TeamConfig.parse(file.value)
            assert config.bad_rows == ()
            assert in_order([member.raw for member in config.roster]) == in_order(config.members)
            assert config.dump() == file.data
        case "task":
            assert Task.parse(file.value).dump() == file.data
        case "inbox":
            assert json_text.dumps([message.raw for message in messages(file)]) == file.data
            for text in payload_texts(file):
                payload = payload_of(text)
                assert payload is not None
                assert payload.text() == text
        case "hook":
            assert json_text.dumps_line(file.value) == file.data.rstrip()
        case "highwatermark":
            assert re.fullmatch(rb"[0-9]+", file.data)
        case "lock":
            assert file.data == b""
        case _:
            assert_never(file.kind)


def changed_lines(before: bytes, after: bytes) -> tuple[list[str], list[str]]:
    """The lines that went and the lines that came; a comma at the end does not count."""
    old, new = ([line.rstrip(",") for line in d.decode().split("\n")] for d in (before, after))
    difference = list(difflib.unified_diff(old, new, n=0, lineterm=""))[2:]
    gone = [line[1:] for line in difference if line.startswith("-")]
    came = [line[1:] for line in difference if line.startswith("+")]
    return gone, came


def assert_only(key: str, before: Wire, after: Wire) -> None:
    """Every other field is there, as it was and where it was."""
    rest = {name: value for name, value in before.raw.items() if name != key}
    assert in_order({k: v for k, v in after.raw.items() if k != key}) == in_order(rest)
    if key in before.raw and key in after.raw:
        assert list(after.raw) == list(before.raw)


def test_every_version_shows_every_kind_of_file() -> None:
    found = {(file.path.parent.name, file.kind) for file in SOUND}
    kinds: tuple[Kind, ...] = ("config", "inbox", "task", "highwatermark", "lock", "hook")
    assert found == {(version, kind) for version in VERSIONS for kind in kinds}
    assert sum(file.is_damaged for file in ALL) == 4


def test_every_payload_type_that_was_recorded_is_in_the_set_for_every_version() -> None:
    expected = {
        "idle_notification",
        "permission_request",
        "permission_response",
        "plan_approval_request",
        "plan_approval_response",
        "shutdown_approved",
        "shutdown_rejected",
        "shutdown_request",
        "task_assignment",
    }
    for version in VERSIONS:
        inboxes = [f for f in SOUND if f.kind == "inbox" and f.path.parent.name == version]
        found = {json.loads(text)["type"] for file in inboxes for text in payload_texts(file)}
        assert found == expected, version


@pytest.mark.parametrize("file", files("config", "inbox", "task", "highwatermark", "lock", "hook"))
def test_a_real_file_is_read_whole_and_written_back_byte_for_byte(file: Golden) -> None:
    check_kept(file)


@pytest.mark.parametrize(
    "file", [pytest.param(file, id=file.path.name) for file in ALL if file.is_damaged]
)
def test_a_damaged_file_is_never_read_as_an_empty_one(file: Golden) -> None:
    with pytest.raises(ValueError):
        json_text.loads(file.data)


@pytest.mark.parametrize("file", files("task"))
def test_a_new_status_changes_one_line_of_a_task(file: Golden) -> None:
    task = Task.parse(file.value)
    status = "pending" if task.status == "completed" else "completed"
    changed = task.evolve(status=status)
    assert changed.status == status
    assert_only("status", task, changed)
    assert changed_lines(file.data, changed.dump()) == (
        [f'  "status": "{task.status}"'],
        [f'  "status": "{status}"'],
    )


@pytest.mark.parametrize("file", files("task"))
def test_an_owner_comes_and_goes_without_touching_the_rest_of_a_task(file: Golden) -> None:
    task = Task.parse(file.value)
    free = task.evolve(owner=None)
    assert "owner" not in free.raw
    assert_only("owner", task, free)
    owned = free.evolve(owner="zoe")
    assert_only("owner", free, owned)
    assert changed_lines(free.dump(), owned.dump()) == ([], ['  "owner": "zoe"'])


@pytest.mark.parametrize("file", files("task"))
def test_our_facts_stay_inside_the_metadata_of_a_task(file: Golden) -> None:
    task = Task.parse(file.value)
    changed = task.with_facts(attempt=3)
    assert changed.facts.attempt == 3
    assert_only("metadata", task, changed)
    assert changed.metadata == {**(task.metadata or {}), "bullpen": {"attempt": 3}}


@pytest.mark.parametrize("file", files("config"))
def test_a_changed_member_changes_one_line_of_the_config(file: Golden) -> None:
    config = TeamConfig.parse(file.value)
    for member in config.roster:
        changed = member.evolve(cwd="/elsewhere")
        assert_only("cwd", member, changed)
        after = config.with_member(changed)
        assert after.roster != config.roster
        gone, came = changed_lines(file.data, after.dump())
        assert (gone, came) == ([f'      "cwd": "{member.cwd}"'], ['      "cwd": "/elsewhere"'])


@pytest.mark.parametrize("file", files("config"))
def test_a_field_that_a_member_had_not_is_one_new_line_of_the_config(file: Golden) -> None:
    config = TeamConfig.parse(file.value)
    for member in config.roster:
        changed = member.evolve(worktree_path="/tree")
        assert_only("worktreePath", member, changed)
        gone, came = changed_lines(file.data, config.with_member(changed).dump())
        assert (gone, came) == ([], ['      "worktreePath": "/tree"'])


@pytest.mark.parametrize("file", files("config"))
def test_a_member_who_joins_and_leaves_leaves_the_config_as_it_was(file: Golden) -> None:
    config = TeamConfig.parse(file.value)
    joined = config.with_member(Member.new(agent_id="zoe@t", name="zoe"))
    assert [member.name for member in joined.roster] == [m.name for m in config.roster] + ["zoe"]
    assert joined.without_member("zoe").dump() == file.data


@pytest.mark.parametrize("file", files("inbox"))
def test_reading_a_message_changes_one_line_of_the_inbox(file: Golden) -> None:
    box = messages(file)
    for index, message in enumerate(box):
        toggled = message.evolve(read=not message.read)
        assert_only("read", message, toggled)
        after = json_text.dumps([m.raw for m in [*box[:index], toggled, *box[index + 1 :]]])
        before_lines = file.data.decode().split("\n")
        after_lines = after.decode().split("\n")
        assert len(after_lines) == len(before_lines)
        pairs = zip(before_lines, after_lines, strict=True)
        different = [(old, new) for old, new in pairs if old != new]
        assert len(different) == 1
        assert all('"read": ' in line for line in different[0])


def test_the_digest_of_a_plan_is_the_one_the_real_lead_puts_into_its_approval() -> None:
    texts = [t for f in SOUND if f.kind == "inbox" for t in payload_texts(f)]
    payloads = [payload_of(text) for text in texts]
    plans = [p.plan_content for p in payloads if isinstance(p, PlanApprovalRequest)]
    digests = [
        p.plan_digest for p in payloads if isinstance(p, PlanApprovalResponse) and p.plan_digest
    ]
    assert digests
    assert set(digests) <= {plan_digest(plan) for plan in plans}


def test_both_answers_of_every_version_say_what_they_mean() -> None:
    for version in VERSIONS:
        inboxes = [f for f in SOUND if f.kind == "inbox" and f.path.parent.name == version]
        payloads = [payload_of(text) for file in inboxes for text in payload_texts(file)]
        permissions = [p for p in payloads if isinstance(p, PermissionResponse)]
        assert {p.approved for p in permissions} == {True, False}
        assert all(p.updated_input for p in permissions if p.approved)
        assert all(p.why_not for p in permissions if not p.approved)
        plans = [p for p in payloads if isinstance(p, PlanApprovalResponse)]
        assert {p.approved for p in plans} == {True, False}
        assert all(p.permission_mode for p in plans if p.approved)
        assert all(p.feedback for p in plans if not p.approved)


REWRITES: dict[Kind, tuple[Callable[[Golden], None], ...]] = {
    "task": (
        test_a_new_status_changes_one_line_of_a_task,
        test_an_owner_comes_and_goes_without_touching_the_rest_of_a_task,
        test_our_facts_stay_inside_the_metadata_of_a_task,
    ),
    "config": (
        test_a_changed_member_changes_one_line_of_the_config,
        test_a_field_that_a_member_had_not_is_one_new_line_of_the_config,
        test_a_member_who_joins_and_leaves_leaves_the_config_as_it_was,
    ),
    "inbox": (test_reading_a_message_changes_one_line_of_the_inbox,),
}


def test_a_whole_recording_is_kept_and_rewritten_without_harm() -> None:
    root = os.environ.get("BULLPEN_GOLDEN")
    if not root:
        pytest.skip("set BULLPEN_GOLDEN to a directory laid out as VERSION/SCENARIO/files/NAME")
    paths = sorted(Path(root).glob("*/*/files/*")) + sorted(Path(root).glob("*/*/hook-*.json"))
    assert paths, f"{root} holds no recording"
    kinds: Counter[str] = Counter()
    unreadable: list[str] = []
    for path in paths:
        file = golden(path)
        try:
            check_kept(file)
            for check in REWRITES.get(file.kind, ()):
                check(file)
        except json.JSONDecodeError:
            unreadable.append(f"{path.relative_to(root)} ({len(file.data)} bytes)")
            with pytest.raises(json.JSONDecodeError):
                json.loads(file.data)
        else:
            kinds[file.kind] += 1
    print(f"\n{len(paths)} files, {kinds.total()} kept: {dict(kinds)}; unreadable: {unreadable}")
    assert kinds.total() + len(unreadable) == len(paths)
