"""Access control for the dashboard: tokens, host names, origins and security headers.

A plain ASGI layer, so that streams pass through it without being buffered.
"""

from __future__ import annotations

import hmac
import secrets
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import HTMLResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK = ("127.0.0.1", "localhost", "::1")
STREAM = "/events"
ANSWERS = "/answer/"
"""Where signed links lead."""

HOOK = "/forge/hook"
"""Where a forge sends signed deliveries."""

PUBLIC = frozenset({"/answer.css", "/icon.svg", "/sw.js"})
"""Files without anything of a team: a phone that follows a link has no session."""

_SESSIONS_MAX = 1000
_NOTES_MAX = 5
_SAFE = frozenset({"GET", "HEAD"})
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; worker-src 'self'; form-action 'self'; frame-ancestors 'none'; "
        "base-uri 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    # Other sites learn nothing. With `no-referrer` our own forms would have no origin.
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_SIGN_IN = (
    "Open the address that bullpen web printed. It contains a token. "
    'If you followed a link from another site, <a href="/">continue here</a>.'
)


@dataclass(frozen=True, slots=True)
class Visitor:
    """Somebody with a valid token. Without `csrf`, every request carries the token itself."""

    may_act: bool
    csrf: str | None = None
    # Shown on the next page they open.
    notes: deque[str] = field(default_factory=lambda: deque(maxlen=_NOTES_MAX))


class WebTokens:
    """The tokens of one run of the server, and the sessions that use them."""

    def __init__(self, *, read_only: bool = False) -> None:
        self.acting = None if read_only else _token()
        self.looking = _token()
        self._codes: dict[str, Visitor] = {}
        self._sessions: dict[str, Visitor] = {}

    def code(self) -> str:
        """A new code that signs in one visitor, once, with the rights of this server."""
        code = _token()
        self._codes[code] = Visitor(may_act=self.acting is not None)
        return code

    def signing_in(self, given: str) -> Visitor | None:
        """The visitor who signs in with a token or a code. A code is used up by this."""
        # A code is 256 random bits, so timing this lookup does not help to guess it.
        return self.visitor(given) or self._codes.pop(given, None)

    def visitor(self, token: str) -> Visitor | None:
        """The visitor that a token belongs to; None if it is not valid."""
        given = token.encode("utf-8", "surrogateescape")
        # Always compare both, so that the time reveals nothing.
        acts = self.acting is not None and hmac.compare_digest(given, self.acting.encode())
        looks = hmac.compare_digest(given, self.looking.encode())
        return Visitor(may_act=acts) if acts or looks else None

    def begin(self, visitor: Visitor) -> str:
        while len(self._sessions) >= _SESSIONS_MAX:
            self._sessions.pop(next(iter(self._sessions)))
        cookie = secrets.token_urlsafe(32)
        self._sessions[cookie] = Visitor(visitor.may_act, csrf=secrets.token_urlsafe(24))
        return cookie

    def of_cookie(self, cookie: str) -> Visitor | None:
        """The visitor whose session has this cookie."""
        # A cookie is 256 random bits, so timing this lookup does not help to guess it.
        return self._sessions.get(cookie)


class AccessCheck:
    """Admits requests with a token that come from our own pages, and adds security headers."""

    def __init__(
        self,
        app: ASGIApp,
        tokens: WebTokens,
        *,
        hosts: Iterable[str],
        port: int,
        public: ASGIApp | None = None,
    ) -> None:
        """`public` gets the requests that need no token, as their links prove what they may do."""
        self._app = app
        self._public = public
        self._tokens = tokens
        self._hosts = {host.lower() for host in hosts}
        # Cookies ignore ports, so each server on this machine needs its own name.
        self._cookie = f"bullpen-{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def protected(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
            await send(message)

        await (self._refusal(scope) or self._app)(scope, receive, protected)

    def _refusal(self, scope: Scope) -> ASGIApp | None:
        """The response to a request that is refused; None if it may pass."""
        headers = Headers(scope=scope)
        if not self._is_our_host(headers):
            return _refused(400, "This server does not serve that host name.")
        method, path = scope["method"], scope["path"]
        if (method not in _SAFE or path == STREAM) and not _is_from_us(headers):
            return _refused(403, "This request came from another site.")
        if self._public is not None and is_public(path):
            return self._public
        given = parse_qs(scope["query_string"].decode("latin-1"), max_num_fields=100)
        if path == "/" and method in _SAFE and "token" in given:
            return self._sign_in(given.pop("token")[-1], given)
        visitor = self._visitor(headers)
        if visitor is None:
            return _refused(401, _SIGN_IN)
        if method not in _SAFE and not visitor.may_act:
            return _refused(403, "This token is read-only.")
        scope["visitor"] = visitor
        return None

    def _is_our_host(self, headers: Headers) -> bool:
        """Whether the host name is ours: any name on the internet could point here."""
        values = headers.getlist("host")
        return len(values) == 1 and _host_of(values[0]) in self._hosts

    def _sign_in(self, token: str, rest: dict[str, list[str]]) -> ASGIApp:
        visitor = self._tokens.signing_in(token)
        if visitor is None:
            return _refused(401, _SIGN_IN)
        query = urlencode(rest, doseq=True)
        response = RedirectResponse(f"/?{query}" if query else "/", status_code=303)
        response.set_cookie(
            self._cookie, self._tokens.begin(visitor), httponly=True, samesite="strict", path="/"
        )
        return response

    def _visitor(self, headers: Headers) -> Visitor | None:
        kind, _, token = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return self._tokens.visitor(token.strip())
        cookie = cookie_parser(headers.get("cookie", "")).get(self._cookie)
        return None if cookie is None else self._tokens.of_cookie(cookie)


def is_public(path: str) -> bool:
    """Whether a path needs no token."""
    return path.startswith(ANSWERS) or path in PUBLIC or path == HOOK


def fits(visitor: Visitor, csrf: str | None) -> bool:
    """Whether a form came from one of our pages. Requests that carry the token need no proof."""
    if visitor.csrf is None:
        return True
    given = (csrf or "").encode("utf-8", "surrogateescape")
    return hmac.compare_digest(given, visitor.csrf.encode())


def _is_from_us(headers: Headers) -> bool:
    """Whether a browser sent the request from one of our pages."""
    site = headers.get("sec-fetch-site")
    if site is not None and site != "same-origin":
        return False
    origin = headers.get("origin")
    if origin is None:
        return True
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and parts.netloc.lower() == headers["host"].lower()


def _host_of(value: str) -> str | None:
    try:
        name = urlsplit(f"//{value}").hostname
    except ValueError:
        return None
    # Other programs would read anything but a name and a port differently.
    plain = value.lower().rsplit(":", 1)[0] if not value.endswith("]") else value.lower()
    return name if name is not None and plain.strip("[]") == name else None


def _refused(status: int, words: str) -> HTMLResponse:
    """A page of one sentence, which is ours and may hold links."""
    return HTMLResponse(
        f'<!doctype html><html lang="en"><title>Bullpen</title><p>{words}</p></html>\n',
        status_code=status,
    )


def _token() -> str:
    """A new token, in a shape that redaction knows."""
    return f"bpw_{secrets.token_urlsafe(32)}"
