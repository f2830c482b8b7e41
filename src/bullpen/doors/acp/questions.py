"""Requests of the team as questions to the client, and what its choices mean. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bullpen.doors.acp.lead_rows import change_of, kind_of
from bullpen.doors.acp.updates import Asked, CallTold, Choice
from bullpen.protocol.request import Request
from bullpen.team.requests import always_rules, question_rules
from bullpen.view.calls import request_content
from bullpen.view.news import asked_for

_ALLOW, _ALWAYS, _DENY, _OPTION = "allow", "always", "deny", "option-"

LATER = "The user will answer in the next message. End your turn."
CANCELLED = "The user cancelled the turn."


def asked_of(request: Request, *, cwd: str, call_id: str | None, tool: str) -> Asked:
    """What the client is asked. `call_id` is the call that it knows already, if it does.

    `tool` is the name of the tool as the client knows it.
    """
    subject = request.subject
    given = subject.get("input")
    given = given if isinstance(given, Mapping) else {}
    call = CallTold(
        call_id or f"request-{request.id}",
        call_id is None,
        "pending",
        title=f"{request.sender}: {asked_for(request)}",
        kind="switch_mode" if request.kind == "plan" else kind_of(tool),
        tool=tool if request.kind == "permission" else None,
        input={"plan": subject.get("plan", "")} if request.kind == "plan" else given,
        text=_text(request, cwd),
        change=change_of(tool, given) if request.kind == "permission" else None,
    )
    return Asked(call, tuple(_choices(request)))


def _text(request: Request, cwd: str) -> str:
    lines = [cell.text for cell in request_content.action(request, cwd=cwd)]
    why = request_content.why(request) if request.kind == "permission" else ""
    return "\n".join([*lines, *([f"Why you are asked: {why}"] if why else [])])


def _choices(request: Request) -> Iterator[Choice]:
    match request.kind:
        case "permission":
            yield Choice(_ALLOW, "Allow once", "allow_once")
            yield from _always(request)
            yield Choice(_DENY, "Deny", "reject_once")
        case "plan":
            yield Choice(_ALLOW, "Approve the plan", "allow_once")
            yield Choice(_DENY, "Reject it: keep planning", "reject_once")
        case "question":
            for number, label in enumerate(_labels(request), start=1):
                yield Choice(f"{_OPTION}{number}", label, "allow_once")
            yield Choice(_DENY, "Answer in my next message", "reject_once")
        case "shutdown":
            yield Choice(_ALLOW, "Let it end", "allow_once")
            yield Choice(_DENY, "Keep it running", "reject_once")


def _always(request: Request) -> Iterator[Choice]:
    """An "always" for each choice that the asker offers, narrow to wide."""
    named = always_rules.choice_lines(request)
    for name, line in named:
        yield Choice(f"{_ALWAYS}:{name}", f"Always allow {line}", "allow_always")
    rules, directories = always_rules.granted(request)
    if not named and (rules or directories):
        yield Choice(_ALWAYS, f"Always allow {', '.join([*rules, *directories])}", "allow_always")


def _labels(request: Request) -> list[str]:
    """The options of a question that one of them answers."""
    asked = question_rules.questions_of(request)
    if len(asked) != 1 or not isinstance(asked[0].get("options"), list):
        return []
    options = (each for each in asked[0]["options"] if isinstance(each, dict))
    return [str(each.get("label", "")) for each in options]


def answer_of(request: Request, choice: str | None) -> dict[str, Any]:
    """The answer that a choice means. What was not offered, or nothing, is no."""
    offered = {each.id for each in _choices(request)}
    if choice is None:
        return {"approve": False, "feedback": CANCELLED}
    if choice not in offered or choice == _DENY:
        return {"approve": False, "feedback": LATER if request.kind == "question" else None}
    if choice.startswith(_OPTION):
        return {"approve": True, "feedback": choice.removeprefix(_OPTION)}
    if choice == _ALWAYS:
        return {"approve": True, "always": True}
    if choice.startswith(f"{_ALWAYS}:"):
        return {"approve": True, "always": True, "choice": choice.partition(":")[2]}
    return {"approve": True}
