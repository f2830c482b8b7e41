"""Makes the links of a notice when it is sent, if there is still something to answer."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path

from anyio import to_thread

from bullpen.errors import NotFound
from bullpen.protocol.clock import Clock, now_ms
from bullpen.protocol.request import Request
from bullpen.runs.reach.answer_keys import answer_key
from bullpen.runs.reach.answer_links import NUMBER_BYTES, Choice, link_to, signed
from bullpen.runs.reach.notice_text import Link
from bullpen.team.requests import rules as request_rules
from bullpen.team.team import Team
from bullpen.view.notable_events import Happening

PATH = "/answer/"

_WORDS: dict[Choice, str] = {"allow": "Allow", "deny": "Deny", "open": "Open"}
_CHOICES: tuple[Choice, ...] = ("allow", "deny", "open")


class RequestLinks:
    """Makes links to the requests of one team. Without an address there are none."""

    def __init__(
        self, team: Team, home: Path, address: Callable[[], str | None], *, clock: Clock = now_ms
    ) -> None:
        self._team = team
        self._home = home
        self._address = address
        self._clock = clock

    async def of(self, happening: Happening, *, life_ms: int) -> tuple[Link, ...] | None:
        """The links of a notice; None if it is about a request that waits no more.

        Raises Unavailable, Unreadable: the store or the key cannot be read.
        """
        request: Request | None = None
        if happening.request is not None:
            try:
                request = await self._team.approvals.get(happening.request)
            except NotFound:
                return None
            overdue = request_rules.is_overdue(request, self._clock())
            if request.state != "pending" or request.used_ms is not None or overdue:
                return None
        address = await to_thread.run_sync(self._address)
        if address is None:
            return ()
        if request is None:
            return (Link("Open", f"{address}/"),)
        return await to_thread.run_sync(self._links, request, address, life_ms)

    def _links(self, request: Request, address: str, life_ms: int) -> tuple[Link, ...]:
        key = answer_key(self._home)
        # One tap does not answer a question in words.
        choices: tuple[Choice, ...] = ("open",) if request.kind == "question" else _CHOICES
        return tuple(
            Link(
                _WORDS[choice],
                address
                + PATH
                + signed(
                    link_to(
                        request,
                        self._team.name,
                        choice,
                        number=secrets.token_bytes(NUMBER_BYTES),
                        now_ms=self._clock(),
                        life_ms=life_ms,
                    ),
                    key,
                ),
            )
            for choice in choices
        )
