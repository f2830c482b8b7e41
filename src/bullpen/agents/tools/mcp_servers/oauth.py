"""OAuth for MCP servers: a person logs in once, and agents use the stored tokens.

The SDK speaks the protocol. Tokens lie below Bullpen's home, readable by this user only.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

import anyio
from mcp.client.auth import OAuthClientProvider
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
)
from pydantic import AnyUrl, BaseModel, ValidationError

from bullpen.errors import Unavailable
from bullpen.protocol import json_text
from bullpen.store.private_folder import make_private

FOLDER = "mcp_tokens"
LOGIN_S = 300.0
"""How long a person has to log in."""

_REQUEST_BYTES_MAX = 16_384
_PAGE = "You are logged in. You can close this page."


class TokenFile:
    """The stored tokens for one address, and what is needed to renew them."""

    def __init__(self, home: Path, url: str) -> None:
        self.path = home / FOLDER / f"{hashlib.sha256(url.encode()).hexdigest()[:32]}.json"
        self._kept: dict[str, Any] | None = None

    @property
    def exists(self) -> bool:
        """Whether somebody has logged in."""
        return "tokens" in self.kept

    @property
    def kept(self) -> dict[str, Any]:
        """What is stored; nothing if it cannot be read."""
        if self._kept is None:
            try:
                told = json_text.loads(self.path.read_bytes())
            except (OSError, ValueError):
                told = {}
            self._kept = told if isinstance(told, dict) else {}
        return self._kept

    def forget(self) -> None:
        """Remove everything, before a new login."""
        self.path.unlink(missing_ok=True)
        self._kept = {}

    def keep(self, name: str, value: Any) -> None:
        """Store a value. It is written completely or not at all. Raises Unavailable."""
        self.kept[name] = value
        beside = self.path.with_name(f"{self.path.name}.{os.getpid()}")
        try:
            make_private(self.path.parent)
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
            with open(os.open(beside, flags, 0o600), "wb") as file:
                file.write(json_text.dumps(self.kept))
            beside.replace(self.path)
        except OSError as error:
            raise Unavailable(
                f"Cannot write {self.path}: {error.strerror}.", remedy="Check the disk."
            ) from error

    async def get_tokens(self) -> OAuthToken | None:
        """Return the tokens."""
        return _parsed(OAuthToken, self.kept.get("tokens"))

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Store new tokens, and when they expire."""
        if tokens.expires_in is not None:
            self.kept["expires_at"] = time.time() + tokens.expires_in
        self.keep("tokens", tokens.model_dump(mode="json", exclude_none=True))

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return how this client is registered there."""
        return _parsed(OAuthClientInformationFull, self.kept.get("client"))

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Store how this client is registered there."""
        self.keep("client", client_info.model_dump(mode="json", exclude_none=True))


def stored_auth(url: str, tokens: TokenFile) -> OAuthClientProvider | None:
    """What adds the stored tokens to requests and renews them; None if nobody has logged in."""
    if not tokens.exists:
        return None
    provider = _provider(url, tokens, "http://127.0.0.1/callback")
    expires = tokens.kept.get("expires_at")
    # The SDK keeps neither, and without them it could not renew the tokens.
    provider.context.token_expiry_time = expires if isinstance(expires, (int, float)) else None
    provider.context.oauth_metadata = _parsed(OAuthMetadata, tokens.kept.get("metadata"))
    return provider


@asynccontextmanager
async def login_auth(
    url: str, tokens: TokenFile, show: Callable[[str], Awaitable[None]]
) -> AsyncIterator[OAuthClientProvider]:
    """What lets a person log in: `show` is given the address to open in a browser.

    The answer arrives at a port of this machine. Nothing is stored before it is there.
    """
    answered: asyncio.Future[AuthorizationCodeResult] = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        found = await _callback(reader)
        status, page = ("200 OK", _PAGE) if found else ("404 Not Found", "Not found.")
        head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nConnection: close\r\n"
        writer.write(f"{head}Content-Length: {len(page)}\r\n\r\n{page}".encode())
        writer.close()
        if found is not None and not answered.done():
            answered.set_result(found)

    async def wait() -> AuthorizationCodeResult:
        with anyio.fail_after(LOGIN_S):
            return await answered

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=_REQUEST_BYTES_MAX)
    async with server:
        port = server.sockets[0].getsockname()[1]
        tokens.forget()
        provider = _provider(url, tokens, f"http://127.0.0.1:{port}/callback", show, wait)
        yield provider
        if tokens.exists and (metadata := provider.context.oauth_metadata) is not None:
            tokens.keep("metadata", metadata.model_dump(mode="json", exclude_none=True))


def _provider(
    url: str,
    tokens: TokenFile,
    redirect: str,
    show: Callable[[str], Awaitable[None]] | None = None,
    wait: Callable[[], Awaitable[AuthorizationCodeResult]] | None = None,
) -> OAuthClientProvider:
    about = OAuthClientMetadata(
        client_name="Bullpen",
        redirect_uris=[AnyUrl(redirect)],
        # A program on somebody's machine cannot keep a secret of its own.
        token_endpoint_auth_method="none",  # noqa: S106
    )
    return OAuthClientProvider(url, about, tokens, show, wait)


async def _callback(reader: asyncio.StreamReader) -> AuthorizationCodeResult | None:
    """The answer in a browser's request, if it is one."""
    try:
        with anyio.fail_after(10):
            line = (await reader.readline()).decode("ascii", "replace").split()
    except (ValueError, OSError, TimeoutError):
        return None
    parts = urlsplit(line[1]) if len(line) > 1 else None
    if parts is None or parts.path != "/callback":
        return None
    told = {name: values[0] for name, values in parse_qs(parts.query).items()}
    return AuthorizationCodeResult(
        code=told.get("code", ""), state=told.get("state"), iss=told.get("iss")
    )


M = TypeVar("M", bound=BaseModel)


def _parsed(model: type[M], raw: Any) -> M | None:
    try:
        return None if raw is None else model.model_validate(raw)
    except ValidationError:
        return None
