"""The MCP server over HTTP, for many programs. Each sends a token that says who it is."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
from mcp.server.auth.middleware.bearer_auth import (
    AuthenticatedUser,
    BearerAuthBackend,
    RequireAuthMiddleware,
)
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.routing import Route

from bullpen.app.app import App
from bullpen.doors.http_server import HttpServer, http_config
from bullpen.doors.mcp.member import ConnectedMember
from bullpen.doors.mcp.member_tools import ToolSet
from bullpen.doors.mcp.members import ConnectedMembers
from bullpen.doors.mcp.server import Context, team_server
from bullpen.doors.mcp.tokens import Grant, Tokens
from bullpen.doors.standard_streams import end_by_signal
from bullpen.errors import Invalid, Unavailable

PATH = "/mcp"
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_HTTP_PORT = 80
# Longer than clients keep an idle connection: a request on one that is just closing is lost.
_KEEP_ALIVE_S = 75


async def serve_http(
    app: App,
    *,
    host: str,
    port: int,
    tool_set: ToolSet,
    cwd: str,
    warn: Callable[[str], object],
    ready: Callable[[str], object],
) -> None:
    """Answer every program that sends a valid token, until a signal comes.

    `ready` is called with the address.

    Raises:
        Invalid: the host is not a single address of this machine.
        Unavailable: the port cannot be used.
    """
    listening = _listening(host, port)
    bound = listening.getsockname()[1]
    shown = f"[{host}]" if ":" in host else host
    if not _is_loopback(host):
        warn(
            f"anyone who can reach {shown}:{bound} can try tokens, and the traffic is not"
            " encrypted. Put a TLS proxy in front of it."
        )
    async with ConnectedMembers(app, cwd=cwd, tool_set=tool_set, warn=warn) as members:
        server = HttpServer(
            http_config(
                mcp_app(members, shown, bound),
                timeout_keep_alive=_KEEP_ALIVE_S,
                lifespan="on",
            )
        )

        def end() -> None:
            # Open requests get a moment to finish.
            server.should_exit = True

        async with anyio.create_task_group() as group:
            group.start_soon(end_by_signal, end)
            with listening:
                ready(f"http://{shown}:{bound}{PATH}")
                await server.serve(sockets=[listening])
            group.cancel_scope.cancel()


class _Verifier:
    """Finds the member that a token belongs to."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    async def verify_token(self, token: str) -> AccessToken | None:
        """The access of a token; None if it is unknown or revoked."""
        grant = self._tokens.find(token)
        if grant is None:
            return None
        # The SDK keeps this with the session, so that only the same token can use it again.
        return AccessToken(
            token=grant.digest,
            client_id=f"{grant.member}@{grant.team}",
            scopes=[],
            subject=grant.digest,
            claims={"grant": grant},
        )


def mcp_app(members: ConnectedMembers, host: str, port: int) -> Starlette:
    """The application that listens on an address. Web pages of other addresses are refused."""

    def find(context: Context) -> ConnectedMember:
        user = context.request.scope["user"] if context.request is not None else None
        if not isinstance(user, AuthenticatedUser):
            raise RuntimeError("A request has no user.")
        grant = (user.access_token.claims or {})["grant"]
        if not isinstance(grant, Grant):
            raise RuntimeError("A token has no member.")
        return members.with_token(grant)

    places = [f"{name}:{port}" for name in dict.fromkeys((*_LOOPBACK, host))]
    if port == _HTTP_PORT:
        # Clients leave it out.
        places += [place.removesuffix(f":{port}") for place in places]
    sessions = StreamableHTTPSessionManager(
        app=team_server(find, lambda: members.group),
        security_settings=TransportSecuritySettings(
            enable_dns_rebinding_protection=True,
            allowed_hosts=places,
            allowed_origins=[f"http://{place}" for place in places],
        ),
    )

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with sessions.run():
            yield

    return Starlette(
        routes=[Route(PATH, RequireAuthMiddleware(StreamableHTTPASGIApp(sessions), []))],
        middleware=[
            Middleware(
                AuthenticationMiddleware, backend=BearerAuthBackend(_Verifier(members.tokens))
            )
        ],
        lifespan=lifespan,
    )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _listening(host: str, port: int) -> socket.socket:
    """A socket on one address. Requests have to name that address, which keeps web pages out."""
    if host in ("", "0.0.0.0", "::"):  # noqa: S104 - it is refused, not bound
        raise Invalid(
            f"{host!r} is every address of this machine.",
            remedy="Name the one address that programs use.",
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise Unavailable(
            f"Cannot listen on {host} port {port}: {error.strerror or error}.",
            remedy="Choose another --port, or leave --port out to use a free one.",
        ) from error
