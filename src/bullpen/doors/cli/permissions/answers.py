"""`bullpen approve` and `bullpen deny`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from bullpen.doors.actions.answer import Answered, answer_request, new_input, shown_input
from bullpen.doors.actions.request_lookup import FoundRequest
from bullpen.doors.cli.command import examples
from bullpen.doors.cli.options import completion
from bullpen.doors.cli.options.option import argument, flag, option
from bullpen.doors.cli.options.policy import ModeName
from bullpen.doors.cli.output.editor import edited
from bullpen.doors.cli.permissions.requests import find_requests, request_views
from bullpen.doors.cli.session import Session, text_or_input
from bullpen.errors import Invalid
from bullpen.protocol.request import Request
from bullpen.team.team import Team

_BELOW = "---- text below this line is not sent ----"


Id = Annotated[
    str | None,
    argument(
        "The request, or its last 4 characters [default: the only one that waits]",
        "ID",
        complete=completion.request_ids,
    ),
]


@examples(
    "bullpen approve 3f2a",
    "bullpen approve 3f2a --always",
    "bullpen approve 3f2a --choice 1",
    """bullpen approve 3f2a --input '{"command": "git push --dry-run"}'""",
    "bullpen approve 7155 --mode default --message 'Mind the tests'",
    "bullpen approve 09cb --message 2",
)
def approve(
    session: Session,
    request: Id = None,
    *,
    always: Annotated[
        bool, flag("Allow such calls from now on, by the rule shown with the request", "--always")
    ] = False,
    choice: Annotated[
        str | None,
        option("Always allow this of what the request offers, by number or name", "CHOICE"),
    ] = None,
    changed_input: Annotated[
        str | None,
        option(
            "Approve the call with this input instead; - reads standard input", "JSON", "--input"
        ),
    ] = None,
    edit: Annotated[bool, flag("Edit the input or a message in $EDITOR first", "--edit")] = False,
    mode: Annotated[ModeName | None, option("Mode it works in after its plan")] = None,
    message: Annotated[str | None, option("Message to the agent", "TEXT")] = None,
) -> None:
    """Approve a request.

    An approval is valid once: for this call or this plan. Where a person must answer, an agent's
    approval is refused. Answer a question with --message: words, or the number of an option.
    """
    if edit and changed_input is not None:
        raise typer.BadParameter("pass --input or --edit, not both.")
    found = _to_answer(session, request)
    changed = None
    if changed_input is not None:
        changed = new_input(found.request, text_or_input(changed_input))
    if edit and found.request.kind == "permission":
        changed = _edited_input(found.request)
    elif edit:
        message = _edited_words(found.request, message)
    _answer(
        session,
        found,
        approve=True,
        always=always or choice is not None,
        choice=choice,
        updated_input=changed,
        permission_mode=mode,
        feedback=message,
    )


@examples("bullpen deny 3f2a", "bullpen deny 3f2a 'Ask me again after the release'")
def deny(
    session: Session,
    request: Id = None,
    reason: Annotated[
        str | None, argument("Reason, for the agent to read; - reads standard input", "REASON")
    ] = None,
) -> None:
    """Deny a request.

    An agent can revise a denied plan and ask again.
    """
    found = _to_answer(session, request)
    words = None if reason is None else text_or_input(reason)
    _answer(session, found, approve=False, feedback=words)


def _to_answer(session: Session, wanted: str | None) -> FoundRequest:
    found = find_requests(session)
    for problem in found.problems:
        session.page.warn(f"cannot read {problem}")
    return found.one_to_answer(wanted)


def _answer(session: Session, found: FoundRequest, **answer: Any) -> None:
    """Answer exactly the request that was shown."""

    async def give(team: Team) -> Answered:
        return await answer_request(team, found.request, session.identity, **answer)

    given = session.with_team(give, name=found.team)
    if given.warning:
        session.page.warn(given.warning)
    request_views(session).answered(found, given.request, told=given.untold is None)


def _edited_input(request: Request) -> Any:
    """The input as a person leaves it; None if nothing was changed."""
    before = request.subject.get("input")
    text = edited(shown_input(before or {}) + "\n", suffix=".json")
    if not text.strip():
        raise Invalid("The input is empty, so nothing was answered.", remedy="Try again.")
    return new_input(request, text)


def _edited_words(request: Request, message: str | None) -> str | None:
    plan = str(request.subject.get("plan") or request.subject.get("reason") or "")
    text = edited(f"{message or ''}\n{_BELOW}\n{plan}\n", suffix=".md")
    return text.partition(_BELOW)[0].strip() or None
