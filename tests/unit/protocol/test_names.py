"""Names that could leave their directory are refused; others become what the real program makes."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bullpen.errors import Invalid
from bullpen.protocol import json_text, names
from support.rows import each_row

PATH_TRICKS = [
    "",
    ".",
    "..",
    "../x",
    "a/b",
    "/etc/passwd",
    "a\\b",
    "..\\x",
    "a\0b",
    ".hidden",
    ".lock",
]
CONTROLS = ["a\nb", "a\rb", "a\tb", "\x1b[31m", "a\x7f", "a\x9bb", "a\x85b", "a\u2028b", "a\u2029b"]
SURROGATES = ["a\ud83d", "\udc00"]


@each_row("kind", ["team", "member"])
@each_row("name", ["a", "A1", "QA_lead-2", "0", "x" * 64, "team-lead"])
def test_letters_digits_underscores_and_hyphens_make_a_new_name(name: str, kind: str) -> None:
    assert names.check_new_name(name, kind=kind) == name


@each_row("kind", ["team", "member"])
@each_row(
    "name",
    [*PATH_TRICKS, *CONTROLS, *SURROGATES, "-a", "_a", "a b", "a.b", "a@b", "é", "x" * 65, "a\n"],
)
def test_any_other_new_name_is_refused_and_not_repaired(name: str, kind: str) -> None:
    with pytest.raises(Invalid) as refusal:
        names.check_new_name(name, kind=kind)
    assert repr(name) in refusal.value.message
    assert kind in refusal.value.message
    assert refusal.value.remedy
    assert refusal.value.reason == "invalid"


@pytest.mark.parametrize("name", ["user", "system", "all", "everyone", "System", "ALL"])
def test_a_member_cannot_pose_as_the_system_or_as_everyone(name: str) -> None:
    with pytest.raises(Invalid):
        names.check_new_name(name, kind="member")
    assert names.check_new_name(name, kind="team") == name


@pytest.mark.parametrize("name", ["My Team!", "QA Lead!", "été", "a.b", "x" * 200, "a..b", "日本"])
def test_names_that_other_programs_made_are_accepted(name: str) -> None:
    assert names.check_component(name, kind="team name") == name


@each_row("name", [*PATH_TRICKS, *CONTROLS, *SURROGATES, "x" * 201, "é" * 101, "x" * 100_000])
def test_a_name_that_is_no_single_directory_entry_is_refused(name: str) -> None:
    with pytest.raises(Invalid) as refusal:
        names.check_component(name, kind="team name")
    assert "team name" in refusal.value.message
    with pytest.raises(Invalid):
        names.inbox_stem(name)


@given(st.text(st.characters(exclude_categories=[]), max_size=250))
def test_no_name_that_is_accepted_can_leave_its_directory(name: str) -> None:
    try:
        names.check_component(name, kind="team name")
    except Invalid:
        assume(False)
    assert not set(name) & set("/\\\0")
    assert not name.startswith(".")
    assert name.isprintable() or all(c.isprintable() or ord(c) > 0x9F for c in name)
    assert len(name.encode("utf-8")) <= 200


@pytest.mark.parametrize("task_id", ["1", "42", "abc", "a_b-c", "9" * 64])
def test_a_task_id_is_a_short_plain_word(task_id: str) -> None:
    assert names.check_task_id(task_id) == task_id


@each_row(
    "task_id", [*PATH_TRICKS, *CONTROLS, *SURROGATES, "1.json", " 1", "-1", "1\n", "1" * 65, "é"]
)
def test_any_other_task_id_is_refused(task_id: str) -> None:
    with pytest.raises(Invalid):
        names.check_task_id(task_id)


def test_the_folder_of_a_team_is_lower_case_with_hyphens() -> None:
    # As version 2.1.41 does it; the name inside the config stays as it was given.
    assert names.team_folder("My Team!") == "my-team-"
    assert names.team_folder("lab-team") == "lab-team"
    assert names.team_folder("A_b.c") == "a-b-c"
    assert names.team_folder("../../etc") == "------etc"


def test_the_inbox_of_a_member_keeps_case_and_underscores() -> None:
    # As version 2.1.41 does it.
    assert names.inbox_stem("QA Lead!") == "QA-Lead-"
    assert names.inbox_stem("team-lead") == "team-lead"
    assert names.inbox_stem("a_b") == "a_b"
    assert names.inbox_stem("a.b") == "a-b"


def test_an_agent_id_is_the_name_at_the_team() -> None:
    assert names.agent_id("QA Lead!", "lab-team") == "QA Lead!@lab-team"


def test_colours_go_round_in_join_order() -> None:
    first_nine = [names.color_for(joined) for joined in range(9)]
    assert first_nine == [
        "blue", "green", "yellow", "purple", "orange", "pink", "cyan", "red", "blue",
    ]  # fmt: skip


def test_request_ids_have_the_forms_of_the_real_program() -> None:
    ms = 1794696426856
    assert names.shutdown_request_id("alice", now_ms=ms) == "shutdown-1794696426856@alice"
    assert names.plan_request_id("alice", "lab-team", now_ms=ms) == (
        "plan_approval-1794696426856@alice@lab-team"
    )
    assert names.permission_request_id(now_ms=ms, suffix="4uqstf5") == (
        "perm-1794696426856-4uqstf5"
    )


def test_the_digest_of_a_plan_is_its_sha256() -> None:
    # This very pair was written by version 2.1.325.
    assert names.plan_digest("# Plan\n\n1. do it\n") == (
        "722822fb32bfa884963781e399142280a022dbd619d87b256dc2097a3e7c205c"
    )
    assert names.plan_digest("é") == hashlib.sha256("é".encode()).hexdigest()


def test_a_plan_that_was_cut_inside_an_emoji_has_a_digest_too() -> None:
    assert names.plan_digest("cut \ud83d") != names.plan_digest("cut ")


def test_the_digest_of_a_tool_call_binds_the_tool_and_its_input() -> None:
    compact = json_text.dumps_line({"command": "ls", "description": "look"})
    assert compact == b'{"command":"ls","description":"look"}'
    digest = names.input_digest("Bash", compact)
    assert digest == hashlib.sha256(b'Bash\0{"command":"ls","description":"look"}').hexdigest()
    assert digest != names.input_digest("Read", compact)
    assert digest != names.input_digest("Bash", json_text.dumps_line({"command": "ls -a"}))
