"""OAuth for MCP servers: a person logs in once, and agents use the stored tokens.

The SDK speaks the protocol. Tokens lie below Bullpen's home, readable by this user only.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, ExitStack, aclosing, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx2
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
_RENEWAL_S = 30.0
_LOOK_EVERY_S = 0.05
_PAGE = "You are logged in. You can close this page."


class TokenFile:
    """The stored tokens for one address, and what is needed to renew them."""

    def __init__(self, home: Path, url: str) -> None:
        self.path = home / FOLDER / f"{hashlib.sha256(url.encode()).hexdigest()[:32]}.json"
        self._kept: dict[str, Any] | None = None
        # The file that was read or written last.
        self._version: tuple[int, int] | None = None

    @property
    def exists(self) -> bool:
        """Whether somebody has logged in."""
        return "tokens" in self.kept

    @property
    def kept(self) -> dict[str, Any]:
        """What is stored. Raises Unavailable if there is something that cannot be read."""
        if self._kept is None:
            self._version = self._now()
            try:
                told = json_text.loads(self.path.read_bytes())
            except FileNotFoundError:
                told = {}
            except (OSError, ValueError) as error:
                raise Unavailable(
                    f"Cannot read the tokens in {self.path}: {error}.",
                    remedy="Check its permissions, or log in again: bullpen mcp login",
                ) from error
            self._kept = told if isinstance(told, dict) else {}
        return self._kept

    def changed(self) -> bool:
        """Whether another process has written the file since; then it is read again."""
        if self._now() == self._version:
            return False
        self._kept = None
        return True

    def _now(self) -> tuple[int, int] | None:
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns

    @asynccontextmanager
    async def renewing(self) -> AsyncIterator[None]:
        """Be the only process that renews these tokens: a server may accept each token once.

        After some time, or where there can be no lock, it goes on without: somebody may be stuck.
        """
        with ExitStack() as held:
            with suppress(OSError):
                make_private(self.path.parent)
                flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
                descriptor = os.open(self.path.with_suffix(".lock"), flags, 0o600)
                held.callback(os.close, descriptor)
                with anyio.move_on_after(_RENEWAL_S):
                    while not _locked(descriptor):  # noqa: ASYNC110 - of another process
                        await anyio.sleep(_LOOK_EVERY_S)
            yield

    def forget(self) -> None:
        """Remove everything, before a new login."""
        self.path.unlink(missing_ok=True)
        self._kept = {}

    def keep(self, name: str, value: Any) -> None:
        """Store a value. It is written completely or not at all. Raises Unavailable."""
        self.kept[name] = value
        beside = self.path.with_name(f"{self.path.name}.{secrets.token_hex(8)}")
        try:
            make_private(self.path.parent)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            try:
                with open(os.open(beside, flags, 0o600), "wb") as file:
                    file.write(json_text.dumps(self.kept))
                    file.flush()
                    os.fsync(file.fileno())
                beside.replace(self.path)
            finally:
                beside.unlink(missing_ok=True)
            self._version = self._now()
        except OSError as error:
            raise Unavailable(
                f"Cannot write {self.path}: {error.strerror}.", remedy="Check the disk."
            ) from error

    async def get_tokens(self) -> OAuthToken | None:
        """Return the tokens."""
        return _parsed(OAuthToken, self.kept.get("tokens"))

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Store new tokens, and when they expire."""
        self.kept.pop("expires_at", None)
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
    return _StoredAuth(url, tokens)


class _StoredAuth(OAuthClientProvider):
    """Adds stored tokens to requests. Of several processes, one renews them for all."""

    def __init__(self, url: str, tokens: TokenFile) -> None:
        super().__init__(url, _about("http://127.0.0.1/callback"), tokens)
        self._file = tokens
        self._take_expiry()
        self.context.oauth_metadata = _parsed(OAuthMetadata, tokens.kept.get("metadata"))

    def _take_expiry(self) -> None:
        """Set when the tokens expire. The SDK does not store it, and so would never renew them."""
        expires = self._file.kept.get("expires_at")
        self.context.token_expiry_time = expires if isinstance(expires, (int, float)) else None

    async def _must_renew(self) -> bool:
        """Whether the newest tokens have to be renewed."""
        context = self.context
        if self._file.changed() or context.current_tokens is None:
            context.current_tokens = await self._file.get_tokens()
            context.client_info = await self._file.get_client_info()
            self._take_expiry()
        return not context.is_token_valid() and context.can_refresh_token()

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send a request with tokens, renewed under the lock if need be."""
        async with AsyncExitStack() as held:
            if await self._must_renew():
                await held.enter_async_context(self._file.renewing())
                if not await self._must_renew():
                    # Another process was faster.
                    await held.aclose()
            async with aclosing(super().async_auth_flow(request)) as flow:
                sent = await anext(flow)
                while True:
                    if sent is request:
                        await held.aclose()
                    response = yield sent
                    try:
                        sent = await flow.asend(response)
                    except StopAsyncIteration:
                        return


@asynccontextmanager
async def login_auth(
    url: str, tokens: TokenFile, show: Callable[[str], Awaitable[None]]
) -> AsyncIterator[OAuthClientProvider]:
    """What lets a person log in: `show` is given the address to open in a browser.

    The answer arrives at a port of this machine. Nothing is stored before it is there.
    """
    states: set[str | None] = set()
    answered: asyncio.Future[AuthorizationCodeResult] = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        found = await _callback(reader)
        if found is not None and found.state not in states:
            # Any page in a browser can send something here.
            found = None
        status, page = ("200 OK", _PAGE) if found else ("404 Not Found", "Not found.")
        head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nConnection: close\r\n"
        writer.write(f"{head}Content-Length: {len(page)}\r\n\r\n{page}".encode())
        writer.close()
        if found is not None and not answered.done():
            answered.set_result(found)

    async def shown(address: str) -> None:
        states.update(parse_qs(urlsplit(address).query).get("state", ()))
        await show(address)

    async def wait() -> AuthorizationCodeResult:
        with anyio.fail_after(LOGIN_S):
            return await answered

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=_REQUEST_BYTES_MAX)
    async with server:
        port = server.sockets[0].getsockname()[1]
        tokens.forget()
        about = _about(f"http://127.0.0.1:{port}/callback")
        provider = OAuthClientProvider(url, about, tokens, shown, wait)
        yield provider
        if tokens.exists and (metadata := provider.context.oauth_metadata) is not None:
            tokens.keep("metadata", metadata.model_dump(mode="json", exclude_none=True))


def _about(redirect: str) -> OAuthClientMetadata:
    return OAuthClientMetadata(
        client_name="Bullpen",
        redirect_uris=[AnyUrl(redirect)],
        # A program on somebody's machine cannot keep a secret of its own.
        token_endpoint_auth_method="none",  # noqa: S106
    )


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


async def _callback(reader: asyncio.StreamReader) -> AuthorizationCodeResult | None:
    """The answer in a browser's request, if it is one."""
    try:
        with anyio.fail_after(10):
            line = (await reader.readline()).decode("ascii", "replace").split()
        parts = urlsplit(line[1]) if len(line) > 1 else None
        if parts is None or parts.path != "/callback":
            return None
        told = {name: values[0] for name, values in parse_qs(parts.query).items()}
    except (ValueError, OSError, TimeoutError):
        return None
    return AuthorizationCodeResult(
        code=told.get("code", ""), state=told.get("state"), iss=told.get("iss")
    )


M = TypeVar("M", bound=BaseModel)


def _parsed(model: type[M], raw: Any) -> M | None:
    try:
        return None if raw is None else model.model_validate(raw)
    except ValidationError:
        return None
