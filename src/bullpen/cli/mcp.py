"""`bullpen mcp`: programs that connect to us and take part in a team."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from bullpen.cli import complete, mcp_install
from bullpen.cli.command import Noun, command
from bullpen.cli.session import Session, directory
from bullpen.errors import Invalid, NotFound

if TYPE_CHECKING:
    from bullpen.mcp.tokens import Tokens
    from bullpen.office import Office

noun = Noun(
    "Let programs that speak MCP take part in a team.\n\n"
    "Without a command it serves one program over standard input and output, as the member that"
    " --as names; without --team it is in no team, and can make one that it leads.",
    examples=(
        "bullpen mcp --team alpha --as carol",
        "bullpen mcp --http --port 8765",
        "bullpen mcp token dave --team alpha",
        "bullpen mcp install claude --team alpha --as carol",
    ),
)
mcp_install.register(noun.commands)

Member = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="The member it speaks for.", autocompletion=complete.member_names
    ),
]


def serve(
    session: Session,
    *,
    http: Annotated[
        bool,
        typer.Option("--http", help="Serve many programs over HTTP, each with a token of its own."),
    ] = False,
    host: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="With --http: where. [default: 127.0.0.1]"),
    ] = None,
    port: Annotated[
        int, typer.Option(metavar="N", min=0, max=65535, help="With --http: 0 is any free one.")
    ] = 0,
    tools: Annotated[
        Literal["all", "coordination", "read-only"],
        typer.Option("--tools", help="Which of the team's tools it offers."),
    ] = "all",
) -> None:
    """Serve one program over standard input and output, or many over HTTP."""
    if not http and (host is not None or port):
        raise typer.BadParameter("--host and --port go with --http.")
    if not http and sys.stdin is not None and sys.stdin.isatty():
        raise Invalid(
            "A program starts this server and speaks MCP on its standard input.",
            remedy="To put it into a program's configuration: bullpen mcp install --help",
        )
    session.refuse_agents("serve a team's tools to other programs")
    mcp_install.need_library()
    where = directory(None)

    async def over_http(office: Office) -> None:
        from bullpen.mcp.http import serve_http

        await serve_http(
            office,
            host=host or "127.0.0.1",
            port=port,
            tool_set=tools,
            cwd=where,
            warn=session.page.warn,
            ready=lambda url: _say_where(session, url),
        )

    async def over_pipes(office: Office) -> None:
        from bullpen.app import resolve_team
        from bullpen.mcp.stdio import serve_stdio

        named = session.team is not None or office.settings.agent_source != "default"
        await serve_stdio(
            office,
            team=await resolve_team(office.teams, office.settings) if named else None,
            member=session.actor,
            tool_set=tools,
            cwd=where,
            warn=session.page.warn,
        )

    session.with_home(over_http if http else over_pipes)


noun.itself(serve)


def _say_where(session: Session, url: str) -> None:
    session.page.result({"url": url}, f"Listening at {url}")
    session.page.flush()


@command(noun.commands, "token", examples=("bullpen mcp token dave -t alpha",))
def token(session: Session, name: Member) -> None:
    """Make a token with which a program speaks for a member, and show it this once.

    An earlier token of the same member ends. It joins when it makes its first request.
    """
    session.refuse_agents("make tokens")

    async def mint(office: Office) -> tuple[str, str, bool]:
        from bullpen.mcp.identity import mint

        return await mint(office, name)

    team, made, replaced = session.with_home(mint)
    session.page.result({"team": team, "member": name, "token": made}, made)
    if replaced:
        session.page.warn(f"the earlier token of {name!r} in team {team!r} counts no more.")


@command(noun.commands, "tokens", examples=("bullpen mcp tokens", "bullpen mcp tokens --json"))
def tokens(session: Session) -> None:
    """List for whom there are tokens. The tokens themselves are kept nowhere."""

    async def look(office: Office) -> list[Any]:
        return [grant for grant in _book(office).all() if session.team in (None, grant.team)]

    grants = session.with_home(look)
    session.page.result(
        [{"team": each.team, "member": each.member, "made_ms": each.made_ms} for each in grants],
        *[f"{each.member}@{each.team}" for each in grants] or ["There are no tokens."],
    )


@command(noun.commands, "revoke", examples=("bullpen mcp revoke dave -t alpha",))
def revoke(session: Session, name: Member) -> None:
    """Let nobody speak for a member by a token any more."""
    session.refuse_agents("revoke tokens")

    async def forget(office: Office) -> str:
        from bullpen.app import resolve_team

        team = await resolve_team(office.teams, office.settings)
        if not _book(office).revoke(team, name):
            raise NotFound(
                f"There is no token of {name!r} in team {team!r}.",
                remedy="See which there are: bullpen mcp tokens",
            )
        return team

    team = session.with_home(forget)
    session.page.result(
        {"team": team, "member": name, "revoked": True},
        f"Revoked the token of {name} in team {team}.",
    )


def _book(office: Office) -> Tokens:
    from bullpen.mcp.tokens import Tokens

    return Tokens(office.settings.home)
