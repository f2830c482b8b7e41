"""`bullpen mcp login`: log in to an MCP server, for the agents that use it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from bullpen.agents.config.mcp_config import known_server
from bullpen.app.app import App
from bullpen.by_name import load
from bullpen.doors.cli.app_session import with_home
from bullpen.doors.cli.command import examples
from bullpen.doors.cli.options.option import argument
from bullpen.doors.cli.screens.extras import need_extra
from bullpen.doors.cli.session import Session, directory


@examples("bullpen mcp login docs")
def login(
    session: Session,
    name: Annotated[str, argument("The server, as .mcp.json or mcp.json names it", "SERVER")],
) -> None:
    """Log in to an MCP server that agents use.

    Prints the address to open in a browser. The tokens are kept in Bullpen's home; agents renew
    them.
    """
    need_extra("mcp", "mcp")
    where = Path(directory(None))

    async def show(url: str) -> None:
        session.page.warn(f"open this address in a browser to log in:\n{url}")

    async def log_in(app: App) -> bool:
        home = app.settings.home
        server = known_server(name, where, home=home)
        done: bool = await load("bullpen.agents.tools.mcp_servers.login:log_in")(
            server, home=home, env=os.environ, show=show
        )
        return done

    done = with_home(session, log_in)
    said = f"Logged in to {name}." if done else f"{name} needs no login."
    session.page.result("mcp-login/1", {"server": name, "loggedIn": done}, said)
