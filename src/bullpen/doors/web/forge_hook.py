"""The address that a forge calls when something changed. It needs no session, but a signature."""

from __future__ import annotations

from collections.abc import Callable

import anyio
from anyio import to_thread
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bullpen.app.app import App
from bullpen.doors.web.phone.answer_limits import Tries
from bullpen.doors.web.security import HOOK
from bullpen.errors import BullpenError
from bullpen.runs.forge.webhooks.deliveries import (
    BODY_BYTES_MAX,
    Flaw,
    Hint,
    hint_of,
    is_signed,
    may_be_signed,
)
from bullpen.runs.forge.webhooks.hints import Hints, hook_secret
from bullpen.team.forge.work_rules import repository_of

_BAD_MAX = 30
_GOOD_MAX = 600
_BODIES_MAX = 20
"""How many bodies are read at the same time."""

_BODY_S = 10.0
_ALL = b"all"
_STATUS: dict[Flaw, int] = {
    "wrong_type": 415, "malformed": 400, "other_repository": 403,
}  # fmt: skip


class _TooLarge(Exception):
    """A body that is not read to its end."""


class ForgeHook:
    """What a forge may tell one team: that there is something to look at."""

    def __init__(self, app: App, team: str, *, now: Callable[[], int]) -> None:
        self._team = app.teams.open(team)
        self._home = app.settings.home
        self._hints = Hints(self._home, team)
        self._now = now
        self._bad, self._good = Tries(_BAD_MAX), Tries(_GOOD_MAX)
        self._bodies = 0

    @property
    def route(self) -> Route:
        """Where deliveries come in."""
        return Route(HOOK, self._delivered, methods=["POST"])

    async def _delivered(self, request: Request) -> Response:
        """Answer a delivery. An answer never says why."""
        try:
            status = await self._status(request)
        except _TooLarge:
            status = 413
        except TimeoutError:
            status = 408
        except (BullpenError, ValueError):
            status = 503
        more = {"Retry-After": "60"} if status == 429 else {}
        return Response(status_code=status, headers=more)

    async def _status(self, request: Request) -> int:
        headers = {
            name: request.headers.getlist(name)
            for name in {each.lower() for each in request.headers}
        }
        if not may_be_signed(headers):
            return self._unsigned()
        if self._bodies >= _BODIES_MAX:
            return 429
        self._bodies += 1
        try:
            with anyio.fail_after(_BODY_S):
                body = await _body(request)
        finally:
            self._bodies -= 1
        secret = await to_thread.run_sync(hook_secret, self._home, self._team.name)
        if secret is None or not is_signed(headers, body, secret):
            return self._unsigned()
        if self._good.too_many(_ALL, self._now()):
            return 429
        settings = await self._team.forge.settings()
        if settings is None:
            return 204
        name = "/".join(repository_of(settings).split("/")[-2:])
        found = hint_of(headers, body, name)
        if not isinstance(found, Hint):
            return 204 if found is None else _STATUS[found]
        return 202 if await to_thread.run_sync(self._hints.add, found) else 204

    def _unsigned(self) -> int:
        # Those who guess must not keep the forge out: both are counted apart.
        return 429 if self._bad.too_many(_ALL, self._now()) else 401


async def _body(request: Request) -> bytes:
    """Return the whole body. Raises _TooLarge, before it is read if it says so itself."""
    said = request.headers.get("content-length", "0")
    if not (said.isascii() and said.isdigit()) or int(said[:20]) > BODY_BYTES_MAX:
        raise _TooLarge
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > BODY_BYTES_MAX:
            raise _TooLarge
    return bytes(body)
