"""Guarded paths in work: which changes need a person, and what an answer covers."""

from __future__ import annotations

from typing import Any

import pytest

from bullpen.errors import NotFound, Refused
from bullpen.protocol.names import LEAD
from bullpen.protocol.request import Request, Voice
from bullpen.protocol.task import Task
from bullpen.store.memory import MemoryStore
from bullpen.team.tasks import guarded_rules
from bullpen.team.tasks.guarded_rules import (
    CHANGES_MAX,
    TOOL,
    Guard,
    GuardedChange,
    TreeChange,
    asked_before,
    guard_of,
    park_reason,
    refuse_too_many,
    request_input,
)
from bullpen.team.team import Team, Teams
from support.rows import each_row

FILE, GONE, LINK, MODULE = "100644", "000000", "120000", "160000"
BLOB, OTHER = "a" * 40, "b" * 40
HOOKS = GuardedChange(".claude/settings.json", FILE, BLOB)


def change(path: str, *, before: str = GONE, mode: str = FILE, link: str | None = None) -> str:
    """What a change to one path is called, or nothing if it is free."""
    found = Guard().changes([TreeChange(path, before, mode, BLOB, link)])
    return found[0].what if found else ""


def test_only_changes_to_guarded_paths_need_a_person() -> None:
    rows = [TreeChange(path, GONE, FILE, BLOB) for path in ("b.txt", ".mcp.json", ".Claude/x")]
    assert [each.path for each in Guard().changes(rows)] == [".Claude/x", ".mcp.json"]
    assert Guard().approves([])
    assert not Guard().approves([HOOKS])


@pytest.mark.parametrize(
    ("before", "mode", "words"),
    [
        (GONE, FILE, "added; "),
        (FILE, FILE, "changed; "),
        (FILE, "100755", "changed; "),
        (FILE, GONE, "removed; "),
        (GONE, LINK, "a link to x; "),
        (GONE, MODULE, "a submodule; "),
    ],
)
def test_it_says_what_happens_to_a_path_and_who_obeys_it(
    before: str, mode: str, words: str
) -> None:
    said = change(".claude/settings.json", before=before, mode=mode, link="x")
    assert said == f"{words}Bullpen and Claude Code take rules and hooks from it"


@each_row(
    ("path", "link", "is_guarded"),
    [
        ("notes", ".claude", True),
        ("docs/notes", "../.git/hooks", True),
        ("docs/notes", "../.Claude/settings.json", True),
        ("notes", "/home/me/.bashrc", True),
        ("a/b", "../../x/.envrc", True),
        (".github", "gh", True),
        ("sub/.config", "x", True),
        (".claude", "config", True),
        ("notes", "README.md", False),
        ("docs/claude", "../src", False),
    ],
)
def test_a_link_into_a_guarded_place_is_guarded(path: str, link: str, is_guarded: bool) -> None:
    assert bool(change(path, mode=LINK, link=link)) == is_guarded


def test_a_new_submodule_is_guarded_and_a_newer_commit_of_one_is_not() -> None:
    assert "another repository" in change("vendor/lib", mode=MODULE)
    assert "another repository" in change("vendor/lib", before=FILE, mode=MODULE)
    assert change("vendor/lib", before=MODULE, mode=MODULE) == ""


def test_a_team_guards_more_and_leaves_some_out() -> None:
    guard = Guard(("deploy",), (".github/workflows",))
    rows = ("deploy/x", ".github/workflows/ci.yml", ".github/actions/a.yml", ".claude/x")
    found = guard.changes(TreeChange(path, GONE, FILE, BLOB) for path in rows)
    assert [each.path for each in found] == [".claude/x", ".github/actions/a.yml", "deploy/x"]
    assert guard.changes([TreeChange("notes", GONE, LINK, BLOB, "deploy/x")])


def test_too_many_changes_are_refused_without_asking() -> None:
    many = [GuardedChange(f".claude/{n}", FILE, BLOB) for n in range(CHANGES_MAX + 1)]
    refuse_too_many(many[:-1])
    with pytest.raises(Refused, match="and 193 more") as error:
        refuse_too_many(many)
    assert error.value.reason == "guarded_paths"


def asked(*changes: GuardedChange, **fields: Any) -> Request:
    given = request_input("1", changes, diff="", look="")
    rest = {"state": "approved", "voice": "human", "approver": "human", **fields}
    subject = {"toolName": rest.pop("tool", TOOL), "input": given, "suggestions": []}
    return Request.new(
        id="perm-1", kind="permission", sender="ann", to=LEAD, created_ms=1, subject=subject, **rest
    )


async def guard(*requests: Request) -> Guard:
    teams = Teams(MemoryStore())
    return guard_of(await teams.create("crew", cwd="/"), requests)


async def test_an_approval_covers_exactly_the_content_that_a_person_saw() -> None:
    other = GuardedChange(".mcp.json", FILE, BLOB)
    found = await guard(asked(HOOKS, other))
    assert found.approves([HOOKS, other])
    assert found.approves([HOOKS]), "a part of it is on the target already"
    for changed in (
        GuardedChange(HOOKS.path, FILE, OTHER),
        GuardedChange(HOOKS.path, "100755", BLOB),
        GuardedChange(HOOKS.path, LINK, BLOB),
        GuardedChange(HOOKS.path, GONE, "0" * 40),
        GuardedChange(".claude/other.json", FILE, BLOB),
    ):
        assert not found.approves([changed])
        assert not found.approves([HOOKS, changed])


async def test_two_approvals_do_not_add_up() -> None:
    other = GuardedChange(".mcp.json", FILE, BLOB)
    found = await guard(asked(HOOKS), asked(other))
    assert found.approves([HOOKS]) and found.approves([other])
    assert not found.approves([HOOKS, other])


@each_row(
    "fields",
    [
        {"state": "pending", "voice": None},
        {"state": "denied"},
        {"state": "expired", "voice": None},
        {"voice": "agent"},
        {"voice": "policy"},
        {"approver": "lead"},
        {"approver": "policy"},
        {"approver": None},
        {"tool": "Bash"},
        {"answer": {"updatedInput": {"changes": []}}},
    ],
)
async def test_nothing_else_is_an_approval(fields: dict[str, Any]) -> None:
    assert not (await guard(asked(HOOKS, **fields))).approves([HOOKS])


def test_the_same_change_is_asked_for_once() -> None:
    pending = asked(HOOKS, state="pending", voice=None)
    denied = asked(HOOKS, state="denied")
    assert asked_before([HOOKS], [pending]) == pending
    assert asked_before([HOOKS], [denied]) == denied
    assert asked_before([GuardedChange(HOOKS.path, FILE, OTHER)], [pending, denied]) is None
    assert asked_before([HOOKS], [asked(HOOKS)]) is None


async def team_with_request() -> tuple[Team, Task, Request]:
    teams = Teams(MemoryStore())
    await teams.create("crew", cwd="/")
    team = teams.open("crew")
    await team.roster.join("ann", by=LEAD)
    task = await team.tasks.add("work", by=LEAD)
    await team.tasks.claim(task.id, by="ann")
    given = request_input(task.id, [HOOKS], diff="+x", look="git diff")
    request = await team.approvals.ask_permission(TOOL, given, by="ann", approver="human")
    return team, task, request


@pytest.mark.parametrize("voice", ["agent", "policy"])
@pytest.mark.parametrize("by", [LEAD, "ann"])
async def test_only_a_person_can_approve(voice: Voice, by: str) -> None:
    team, _, request = await team_with_request()
    with pytest.raises(Refused) as error:
        await team.approvals.answer(request.id, approve=True, by=by, voice=voice)
    assert error.value.reason == "not_approver"
    assert not (await team.merges.waiting()).guard.approves([HOOKS])


async def test_a_persons_yes_reaches_the_queue_and_the_agent() -> None:
    team, task, request = await team_with_request()
    assert request.deadline_ms is None, "it waits for a person as long as that takes"
    await team.approvals.answer(request.id, approve=True, by=LEAD, voice="human")
    assert (await team.merges.waiting()).guard.approves([HOOKS])
    (entry,) = (await team.mailbox.read("ann")).entries
    assert (
        f"A person approved the changes to guarded paths of task #{task.id}" in entry.message.text
    )


async def test_a_no_tells_the_agent_why() -> None:
    team, _, request = await team_with_request()
    await team.approvals.answer(
        request.id, approve=False, by=LEAD, voice="human", feedback="not in this repository"
    )
    (entry,) = (await team.mailbox.read("ann")).entries
    assert "not in this repository" in entry.message.text


async def test_a_task_that_waits_for_a_person_is_offered_again_when_it_is_approved() -> None:
    team, task, request = await team_with_request()
    await team.tasks.give_up(task.id, by="ann", reason=park_reason(request))
    assert (await team.tasks.get(task.id)).facts.given_up == (
        f"{guarded_rules.WAITS}: bullpen approve {request.id}"
    )
    assert await team.tasks.ready() == []
    await team.approvals.answer(request.id, approve=True, by=LEAD, voice="human")
    assert [each.id for each in await team.tasks.ready()] == [task.id]


async def test_a_task_that_was_given_up_for_another_reason_stays_so() -> None:
    team, task, request = await team_with_request()
    await team.tasks.give_up(task.id, by=LEAD, reason="nobody can do it")
    await team.approvals.answer(request.id, approve=True, by=LEAD, voice="human")
    assert (await team.tasks.get(task.id)).facts.given_up == "nobody can do it"


async def test_an_answer_about_a_task_that_is_gone_is_taken() -> None:
    team, task, request = await team_with_request()
    await team.tasks.delete(task.id, by=LEAD, voice="human")
    await team.approvals.answer(request.id, approve=True, by=LEAD, voice="human")
    with pytest.raises(NotFound):
        await team.tasks.get(task.id)
