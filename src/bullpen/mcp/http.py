"""Many programs, over HTTP: each shows a token, which says who it is."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

import anyio
import uvicorn
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

from bullpen.errors import Invalid, Unavailable
from bullpen.mcp.reception import Reception
from bullpen.mcp.seat import Seat
from bullpen.mcp.server import Context, team_server
from bullpen.mcp.stdio import end_by_signal
from bullpen.mcp.tokens import Grant, Tokens
from bullpen.mcp.tools import ToolSet
from bullpen.office import Office

PATH = "/mcp"
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_GRACE_S = 1


async def serve_http(
    office: Office,
    *,
    host: str,
    port: int,
    tool_set: ToolSet,
    cwd: str,
    warn: Callable[[str], object],
    ready: Callable[[str], object],
) -> None:
    """Answer every program that shows a token, until a signal comes. `ready` hears the address.

    Raises:
        Invalid: the host is no single address of this machine.
        Unavailable: the port cannot be had.
    """
    listening = _listening(host, port)
    bound = listening.getsockname()[1]
    shown = f"[{host}]" if ":" in host else host
    if not _is_loopback(host):
        warn(
            f"everybody who reaches {shown}:{bound} can try tokens, and what they send is not"
            " encrypted. Put it behind something that is."
        )
    async with Reception(office, cwd=cwd, tool_set=tool_set, warn=warn) as reception:
        server = _Server(
            uvicorn.Config(
                _app(reception, shown),
                log_level="warning",
                access_log=False,
                timeout_graceful_shutdown=_GRACE_S,
                lifespan="on",
            )
        )
        async with anyio.create_task_group() as group:
            group.start_soon(end_by_signal, server.end)
            with listening:
                ready(f"http://{shown}:{bound}{PATH}")
                await server.serve(sockets=[listening])
            group.cancel_scope.cancel()


class _Server(uvicorn.Server):
    """A server that leaves signals to us: it would raise them again when it has ended."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    def end(self) -> None:
        """Answer what is being answered, for a moment, then end."""
        self.should_exit = True


class _Verifier:
    """Tells from a token who shows it."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    async def verify_token(self, token: str) -> AccessToken | None:
        """Whose token it is; None if nobody's, or nobody's any more."""
        grant = self._tokens.find(token)
        if grant is None:
            return None
        # The SDK keeps this with the session, which only the same token may use again.
        return AccessToken(
            token=grant.digest,
            client_id=f"{grant.member}@{grant.team}",
            scopes=[],
            subject=grant.digest,
            claims={"grant": grant},
        )


def _app(reception: Reception, host: str) -> Starlette:
    def find(context: Context) -> Seat:
        user = context.request.scope["user"] if context.request is not None else None
        if not isinstance(user, AuthenticatedUser):
            raise RuntimeError("A request came in without its user.")
        grant = (user.access_token.claims or {})["grant"]
        if not isinstance(grant, Grant):
            raise RuntimeError("A token came in without its member.")
        return reception.seat_of(grant)

    names = [*_LOOPBACK, *([] if host in _LOOPBACK else [host])]
    sessions = StreamableHTTPSessionManager(
        app=team_server(find, lambda: reception.group),
        security_settings=TransportSecuritySettings(
            enable_dns_rebinding_protection=True,
            allowed_hosts=[f"{name}:*" for name in names],
            allowed_origins=[f"http://{name}:*" for name in names],
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
                AuthenticationMiddleware, backend=BearerAuthBackend(_Verifier(reception.tokens))
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
    """A socket on one address: programs must name it in their requests, which keeps others out."""
    if host in ("", "0.0.0.0", "::"):  # noqa: S104 - it is refused, not bound
        raise Invalid(
            f"{host!r} is every address of this machine.",
            remedy="Name the one that programs shall use.",
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise Unavailable(
            f"Nothing can listen on {host} port {port}: {error.strerror or error}.",
            remedy="Choose another --port, or none: then a free one is taken.",
        ) from error
