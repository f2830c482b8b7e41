"""`bullpen mcp`: programs that connect to us and take part in a team."""

from __future__ import annotations

import sys
from typing import Annotated, Any, Literal

import typer

from bullpen.app.app import App
from bullpen.app.stores import resolve_team
from bullpen.by_name import load
from bullpen.doors.cli.app_session import with_home
from bullpen.doors.cli.command import examples
from bullpen.doors.cli.options import completion
from bullpen.doors.cli.options.option import argument, flag, option
from bullpen.doors.cli.screens.extras import need_extra
from bullpen.doors.cli.session import Session, directory
from bullpen.doors.mcp.identity import mint
from bullpen.doors.mcp.tokens import Tokens
from bullpen.errors import Invalid, NotFound

Member = Annotated[str, argument("The member it acts as", "NAME", complete=completion.member_names)]


def serve(
    session: Session,
    *,
    http: Annotated[
        bool, flag("Serve many programs over HTTP, each with its own token", "--http")
    ] = False,
    host: Annotated[
        str | None, option("With --http: address to listen on [default: 127.0.0.1]", "ADDRESS")
    ] = None,
    port: Annotated[
        int, option("With --http: port; 0 for any free port", "N", min=0, max=65535)
    ] = 0,
    tools: Annotated[
        Literal["all", "coordination", "read-only"], option("Tools to offer", None, "--tools")
    ] = "all",
    hook: Annotated[
        bool, flag("Answer one hook of Claude Code, read from standard input", "--hook")
    ] = False,
) -> None:
    """Serve one program over standard input and output, or many over HTTP."""
    if hook:
        raise typer.Exit(load("bullpen.doors.cli.screens.mcp_hook:answer_hook")(session))
    if not http and (host is not None or port):
        raise typer.BadParameter("--host and --port need --http.")
    if not http and sys.stdin is not None and sys.stdin.isatty():
        raise Invalid(
            "`bullpen mcp` expects a program that speaks MCP on standard input, not a terminal.",
            remedy="Configure the program with: bullpen mcp install",
        )
    need_extra("mcp", "mcp")
    where = directory(None)

    async def over_http(app: App) -> None:
        await load("bullpen.doors.mcp.http:serve_http")(
            app,
            host=host or "127.0.0.1",
            port=port,
            tool_set=tools,
            cwd=where,
            warn=session.page.warn,
            ready=lambda url: _say_where(session, url),
        )

    async def over_pipes(app: App) -> None:
        named = session.team is not None or app.settings.agent_source != "default"
        await load("bullpen.doors.mcp.stdio:serve_stdio")(
            app,
            team=await resolve_team(app.teams, app.settings) if named else None,
            member=session.settings.agent,
            tool_set=tools,
            cwd=where,
            warn=session.page.warn,
        )

    with_home(session, over_http if http else over_pipes)


def _say_where(session: Session, url: str) -> None:
    session.page.result("listening/1", {"url": url}, f"Listening at {url}")
    session.page.flush()


@examples("bullpen mcp token dave -t alpha")
def token(session: Session, name: Member) -> None:
    """Create a token for a member and print it once.

    A program uses the token to act as the member. It joins the team with its first request. An
    earlier token of the member becomes invalid.
    """

    team, made, replaced = with_home(session, lambda app: mint(app, name))
    session.page.result("mcp-token/1", {"team": team, "member": name, "token": made}, made)
    if replaced:
        session.page.warn(f"the earlier token of {name!r} in team {team!r} is no longer valid.")


@examples("bullpen mcp tokens", "bullpen mcp tokens --json")
def tokens(session: Session) -> None:
    """List the members that have a token.

    The tokens themselves are not stored.
    """

    async def look(app: App) -> list[Any]:
        return [grant for grant in _book(app).all() if session.team in (None, grant.team)]

    grants = with_home(session, look)
    session.page.result(
        "mcp-tokens/1",
        {
            "tokens": [
                {"team": each.team, "member": each.member, "madeMs": each.made_ms}
                for each in grants
            ]
        },
        *[f"{each.member}@{each.team}" for each in grants] or ["No tokens."],
    )


@examples("bullpen mcp revoke dave -t alpha")
def revoke(session: Session, name: Member) -> None:
    """Revoke the token of a member."""

    async def forget(app: App) -> str:
        team = await resolve_team(app.teams, app.settings)
        if not _book(app).revoke(team, name):
            raise NotFound(
                f"There is no token of {name!r} in team {team!r}.",
                remedy="See: bullpen mcp tokens",
            )
        return team

    team = with_home(session, forget)
    session.page.result(
        "mcp-token-revoked/1",
        {"team": team, "member": name, "revoked": True},
        f"Revoked the token of {name} in team {team}.",
    )


def _book(app: App) -> Tokens:
    return Tokens(app.settings.home)
