"""`bullpen web`: a team in a browser."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from bullpen.cli.command import command
from bullpen.cli.session import Session
from bullpen.errors import Unavailable

if TYPE_CHECKING:
    from bullpen.office import Office
    from bullpen.web.serving import Addresses


def register(app: typer.Typer) -> None:
    """Make this function a command of `app`."""
    command(
        app,
        "web",
        examples=(
            "bullpen web",
            "bullpen web --team alpha --open",
            "bullpen web --read-only --port 8700",
        ),
    )(web)


def web(
    session: Session,
    *,
    port: Annotated[
        int, typer.Option(metavar="N", min=0, max=65535, help="0 is any free one.")
    ] = 0,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="The address of this machine to listen at.")
    ] = "127.0.0.1",
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-host",
            metavar="NAME",
            help="A host name that browsers may ask for. Needed to be reached from elsewhere.",
        ),
    ] = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Let nobody do anything: they can only look.")
    ] = False,
    open_browser: Annotated[bool, typer.Option("--open", help="Open it in a browser.")] = False,
) -> None:
    """Show a team in a browser, live: answer, write, assign and stop there.

    The address has a token in it; a second one is for people who may only look. It ends with
    Ctrl-C, and with it what the tokens are good for.
    """
    if not read_only:
        session.refuse_agents("open a dashboard in which people answer")
    need_libraries()

    async def serve(office: Office, team: str) -> None:
        from bullpen.web.serving import reach, serve

        names = allow_host or []
        if reach(host, names):
            session.page.warn(
                "other machines reach this, and what is sent is not encrypted."
                " Put it behind something that encrypts."
            )
        await serve(
            office,
            team,
            host=host,
            port=port,
            names=names,
            read_only=read_only,
            ready=lambda where: _say_where(session, where, open_browser=open_browser),
        )

    session.with_office(serve)


def need_libraries() -> None:
    """Refuse to go on without what draws and serves pages, which an extra installs.

    Raises:
        Unavailable: something of it is not installed.
    """
    from importlib.util import find_spec

    missing = [name for name in ("jinja2", "starlette", "uvicorn") if find_spec(name) is None]
    if missing:
        raise Unavailable(
            f"This needs packages that are not installed: {', '.join(missing)}.",
            remedy="Run: pip install 'bullpen[web]'",
        )


def _say_where(session: Session, where: Addresses, *, open_browser: bool) -> None:
    found = {"url": where.act, "look_url": where.look}
    lines = [f"Open {where.act}"] if where.act else []
    lines += [f"{'To only look: ' if where.act else 'Open '}{where.look}"]
    session.page.result(found, *lines)
    session.page.flush()
    if open_browser:
        import webbrowser

        webbrowser.open(where.act or where.look)
