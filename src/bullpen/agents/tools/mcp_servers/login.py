"""Log a person in to an MCP server, so that agents can use it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import anyio
from mcp import Client

from bullpen.agents.tools.mcp_servers.connection import first_words
from bullpen.agents.tools.mcp_servers.definition import ServerDefinition
from bullpen.agents.tools.mcp_servers.http_transport import http_transport
from bullpen.agents.tools.mcp_servers.oauth import LOGIN_S, TokenFile, login_auth
from bullpen.errors import Refused, Unavailable

_SLACK_S = 60.0


async def log_in(
    server: ServerDefinition,
    *,
    home: Path,
    env: Mapping[str, str],
    show: Callable[[str], Awaitable[None]],
) -> bool:
    """Log in to a server; `show` is given the address that the person has to open.

    Returns False if the server needs no login. Raises Refused if it is a program, Unavailable if
    the login fails.
    """
    if not server.url:
        raise Refused(
            f"The MCP server {server.name!r} is a program: it has no login here.",
            reason="no_login",
            remedy="Give it what it needs in `env`.",
        )
    given = server.expanded(env)
    tokens = TokenFile(home, given.url)
    try:
        with anyio.fail_after(LOGIN_S + _SLACK_S):
            async with (
                login_auth(given.url, tokens, show) as auth,
                Client(http_transport(given, auth)) as client,
            ):
                await client.list_tools()
    except Exception as error:
        raise Unavailable(
            f"Cannot log in to the MCP server {server.name!r}: {first_words(error)}.",
            remedy="Check its url, and log in again.",
        ) from error
    return tokens.exists
