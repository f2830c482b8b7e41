"""`bullpen web`: a team in a browser."""

from __future__ import annotations

import html
import os
import secrets
import webbrowser
from pathlib import Path
from typing import Annotated, Any

from bullpen.app.app import App
from bullpen.app.config.public_address import checked_address
from bullpen.by_name import load
from bullpen.doors.cli.app_session import with_app
from bullpen.doors.cli.command import examples
from bullpen.doors.cli.options.option import flag, option
from bullpen.doors.cli.screens.extras import need_extra
from bullpen.doors.cli.session import Session
from bullpen.store.private_folder import make_private


@examples("bullpen web", "bullpen web --team alpha --open", "bullpen web --read-only --port 8700")
def web(
    session: Session,
    *,
    port: Annotated[
        int, option("Port to listen on; 0 for any free port", "N", min=0, max=65535)
    ] = 0,
    host: Annotated[str, option("Address to listen on", "ADDRESS")] = "127.0.0.1",
    allow_host: Annotated[
        list[str] | None,
        option(
            "Host name that browsers may use to reach it from elsewhere", "NAME", "--allow-host"
        ),
    ] = None,
    read_only: Annotated[bool, flag("Allow looking only", "--read-only")] = False,
    public_url: Annotated[
        str | None,
        option(
            "Address under which your phone reaches it, by a proxy or tunnel with TLS",
            "URL",
            "--public-url",
        ),
    ] = None,
    open_browser: Annotated[bool, flag("Open it in a browser", "--open")] = False,
) -> None:
    """Watch and steer a team in a browser.

    Prints an address that contains a token, and a second one for people who may only look. Ctrl-C
    stops the server and makes both tokens invalid. With --public-url, or the setting public_url,
    notices to your phone carry links that answer.
    """
    need_extra("web", "jinja2", "starlette", "uvicorn")
    address = session.setting("public_url") if public_url is None else checked_address(public_url)

    async def serve(app: App, team: str) -> None:
        names = allow_host or []
        if load("bullpen.doors.web.serve:reach")(host, names):
            session.page.warn(
                "other machines can reach this dashboard, and traffic is not encrypted."
                " Put it behind a TLS proxy."
            )
        opening = BrowserPage(session.settings.home) if open_browser else None
        try:
            await load("bullpen.doors.web.serve:serve")(
                app,
                team,
                host=host,
                port=port,
                names=names,
                read_only=read_only,
                public_url=address,
                ready=lambda where: _say_where(session, where, opening),
            )
        finally:
            if opening is not None:
                opening.remove()

    with_app(session, serve)


def _say_where(session: Session, where: Any, opening: BrowserPage | None) -> None:
    found = {"url": where.act, "lookUrl": where.look}
    lines = [f"Open {where.act}"] if where.act else []
    lines += [f"{'To look only: ' if where.act else 'Open '}{where.look}"]
    session.page.result("web/1", found, *lines)
    session.page.flush()
    if opening is not None:
        opening.open(where.once())


class BrowserPage:
    """A private page that leads a browser to an address with a code that works once.

    Everybody on the machine can read the command line of a browser, and only this user the page.
    """

    def __init__(self, home: Path) -> None:
        self._path = home / f"open-{secrets.token_hex(8)}.html"

    def open(self, address: str) -> None:
        """Open the address in a browser without naming it in a command line."""
        make_private(self._path.parent)
        goes = html.escape(f"0; url={address}", quote=True)
        page = f'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="{goes}">'
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(page)
        webbrowser.open(self._path.as_uri())

    def remove(self) -> None:
        """Remove the page."""
        self._path.unlink(missing_ok=True)
