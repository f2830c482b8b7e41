"""`bullpen requests`, `approve` and `deny`: what agents ask, and the answers of people."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bullpen.cli import complete
from bullpen.cli.command import command
from bullpen.cli.policy_options import ModeName
from bullpen.cli.session import Session, text_or_input
from bullpen.errors import Invalid

if TYPE_CHECKING:
    from bullpen.protocol.request import Request
    from bullpen.team.team import Team
    from bullpen.team.teams import Teams
    from bullpen.view.acts import Answered
    from bullpen.view.request_lookup import Found

_LOOK_EVERY_S = 1.0
_BELOW = "---- what is below this line is not sent ----"

Id = Annotated[
    str | None,
    typer.Argument(
        metavar="ID",
        help="The request, or 4 characters at its end. [default: the only one that waits]",
        show_default=False,
        autocompletion=complete.request_ids,
    ),
]


def register(app: typer.Typer) -> None:
    """Make these functions commands of `app`."""
    command(
        app,
        "requests",
        examples=("bullpen requests", "bullpen requests --watch", "bullpen requests 3f2a"),
    )(requests)
    command(
        app,
        "approve",
        examples=(
            "bullpen approve 3f2a",
            "bullpen approve 3f2a --always",
            """bullpen approve 3f2a --input '{"command": "git push --dry-run"}'""",
            "bullpen approve 7155 --mode default --message 'Mind the tests'",
        ),
    )(approve)
    command(
        app,
        "deny",
        examples=("bullpen deny 3f2a", "bullpen deny 3f2a 'Ask me again after the release'"),
    )(deny)


def requests(
    session: Session,
    request: Annotated[
        str | None,
        typer.Argument(
            metavar="ID",
            help="Show all about this one, answered or not.",
            show_default=False,
            autocompletion=complete.request_ids,
        ),
    ] = None,
    *,
    everything: Annotated[
        bool, typer.Option("--all", help="Also those that were answered.")
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Stay, and show each one that comes.")
    ] = False,
) -> None:
    """Show what waits for an answer: who asks, for what exactly, and why.

    Without --team, of all teams.
    """
    if request is not None and (everything or watch):
        raise typer.BadParameter("name one request, or say --all or --watch.")
    if watch and everything:
        raise typer.BadParameter("--watch shows what comes; --all what was.")
    if watch:
        session.with_teams(lambda teams: _watch(session, teams))
        return
    found = session.with_teams(session.requests)
    if request is not None:
        session.show_requests.one(found.one_to_see(request))
    elif everything:
        session.show_requests.every(found)
    else:
        session.show_requests.waiting(found, team=session.team)


async def _watch(session: Session, teams: Teams) -> None:
    search = await session.requests(teams)
    session.show_requests.begins(search)
    shown: dict[str, Found] = {}
    while True:
        waiting = {each.request.id: each for each in search.waiting}
        now = {each.request.id: each for each in search.found}
        for gone in [request_id for request_id in shown if request_id not in waiting]:
            session.show_requests.goes(now.get(gone, shown[gone]))
            del shown[gone]
        for request_id, found in waiting.items():
            if request_id not in shown:
                shown[request_id] = found
                session.show_requests.comes(found)
        await session.pause(_LOOK_EVERY_S)
        search = await session.requests(teams)


def approve(
    session: Session,
    request: Id = None,
    *,
    always: Annotated[
        bool, typer.Option("--always", help="From now on allow it unasked, as its request says.")
    ] = False,
    new_input: Annotated[
        str | None,
        typer.Option(
            "--input", metavar="JSON", help="Allow the call with this input; - reads it from input."
        ),
    ] = None,
    edit: Annotated[
        bool, typer.Option("--edit", help="Change the input, or write words, in $EDITOR first.")
    ] = False,
    mode: Annotated[
        ModeName | None,
        typer.Option(help="The mode in which it works after its plan.", show_default=False),
    ] = None,
    message: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What it is told beside the yes.")
    ] = None,
) -> None:
    """Allow what an agent asks for: this one call, this plan. A yes counts once.

    Only a person's yes counts where a person is to answer: an agent's is refused.
    """
    if edit and new_input is not None:
        raise typer.BadParameter("say --input or --edit, not both.")
    found = _to_answer(session, request)
    changed = None
    if new_input is not None:
        changed = session.new_input(found.request, text_or_input(new_input))
    if edit and found.request.kind == "permission":
        changed = _edited_input(session, found.request)
    elif edit:
        message = _edited_words(session, found.request, message)
    _answer(
        session,
        found,
        approve=True,
        always=always,
        updated_input=changed,
        permission_mode=mode,
        feedback=message,
    )


def deny(
    session: Session,
    request: Id = None,
    reason: Annotated[
        str | None,
        typer.Argument(
            metavar="REASON",
            help="Why, for the agent to read; - reads it from input.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Say no to what an agent asks for. A plan that is denied can be revised."""
    found = _to_answer(session, request)
    words = None if reason is None else text_or_input(reason)
    _answer(session, found, approve=False, feedback=words)


def _to_answer(session: Session, wanted: str | None) -> Found:
    search = session.with_teams(session.requests)
    for problem in search.problems:
        session.page.warn(f"cannot read {problem}")
    return search.one_to_answer(wanted)


def _answer(session: Session, found: Found, **answer: Any) -> None:
    """Answer what was found, as it was found: another question is not answered by this."""

    async def give(team: Team) -> Answered:
        by, voice = await session.speaks(team)
        return await session.give_answer(team, found.request, by=by, voice=voice, **answer)

    given = session.with_team(give, name=found.team)
    if given.untold is not None:
        session.page.warn(given.untold)
    session.show_requests.answered(found, given.request, told=given.untold is None)


def _edited_input(session: Session, request: Request) -> Any:
    """The input as a person leaves it; None if nothing was changed."""
    before = request.subject.get("input")
    text = session.edited(json.dumps(before, indent=2, ensure_ascii=False) + "\n", suffix=".json")
    if not text.strip():
        raise Invalid("The input is empty, so nothing was answered.", remedy="Try again.")
    return session.new_input(request, text)


def _edited_words(session: Session, request: Request, message: str | None) -> str | None:
    plan = str(request.subject.get("plan") or request.subject.get("reason") or "")
    text = session.edited(f"{message or ''}\n{_BELOW}\n{plan}\n", suffix=".md")
    return text.partition(_BELOW)[0].strip() or None
