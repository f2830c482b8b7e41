"""Requests of the team as questions to the client, and what its choices mean."""

from __future__ import annotations

from typing import Any

import pytest

from bullpen.doors.acp.questions import CANCELLED, LATER, answer_of, asked_of
from bullpen.protocol.request import Request, RequestKind

_RULE = {
    "type": "addRules",
    "behavior": "allow",
    "rules": [{"toolName": "Bash", "ruleContent": "ls:*"}],
}


def request(kind: RequestKind, **subject: Any) -> Request:
    return Request.new(
        id="perm-1", kind=kind, sender="bob", to="team-lead", created_ms=1, subject=subject
    )


def permission() -> Request:
    choice = {"name": "any", "covers": "any ls", "suggestions": [_RULE]}
    return request("permission", toolName="Bash", input={"command": "ls"}, choices=[choice])


def kinds(asked: Request) -> list[str]:
    return [each.kind for each in asked_of(asked, cwd="/p", call_id=None, tool="Bash").choices]


def test_a_permission_can_be_allowed_once_or_always_or_denied() -> None:
    assert kinds(permission()) == ["allow_once", "allow_always", "reject_once"]
    asked = asked_of(permission(), cwd="/p", call_id=None, tool="Bash")
    assert asked.call.title == "bob: Bash ls"
    assert asked.call.input == {"command": "ls"}
    assert asked.choices[1].name == "Always allow any ls: Bash(ls:*)"


@pytest.mark.parametrize(
    ("choice", "answer"),
    [
        ("allow", {"approve": True}),
        ("always:any", {"approve": True, "always": True, "choice": "any"}),
        ("deny", {"approve": False, "feedback": None}),
        (None, {"approve": False, "feedback": CANCELLED}),
    ],
)
def test_a_choice_is_the_answer_of_the_person(choice: str | None, answer: dict[str, Any]) -> None:
    assert answer_of(permission(), choice) == answer


@pytest.mark.parametrize("choice", ["always", "always:everything", "ALLOW", "", "option-1"])
def test_a_choice_that_was_not_offered_is_no(choice: str) -> None:
    assert answer_of(permission(), choice)["approve"] is False


def test_the_call_that_the_client_knows_is_asked_about_under_its_id() -> None:
    asked = asked_of(permission(), cwd="/p", call_id="call-7", tool="Bash")
    assert (asked.call.id, asked.call.begins) == ("call-7", False)


def test_a_plan_is_asked_about_as_a_switch_of_the_mode() -> None:
    asked = asked_of(request("plan", plan="1. Paint."), cwd="/p", call_id=None, tool="")
    assert (asked.call.kind, asked.call.input) == ("switch_mode", {"plan": "1. Paint."})
    assert asked.call.text == "1. Paint."


def test_a_question_is_answered_by_one_of_its_options_or_later() -> None:
    which = request(
        "question", questions=[{"question": "Which?", "options": [{"label": "A"}, {"label": "B"}]}]
    )
    assert kinds(which) == ["allow_once", "allow_once", "reject_once"]
    assert answer_of(which, "option-2") == {"approve": True, "feedback": "2"}
    assert answer_of(which, "deny") == {"approve": False, "feedback": LATER}
    assert answer_of(which, "option-3")["approve"] is False
