"""The pages of links that answer a request: what is asked, and one tap.

Whoever has a link needs no session. Opening it changes nothing, because chats open links to preview
them; only the form of the page answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import anyio
from anyio import to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from bullpen.app.app import App
from bullpen.doors.actions.person_actions import PersonActions
from bullpen.doors.web.form_actions import read_form
from bullpen.doors.web.live import Live
from bullpen.doors.web.phone.answer_limits import Tries
from bullpen.doors.web.render_piece import PieceRenderer
from bullpen.doors.web.shown_request import shown_request
from bullpen.errors import BullpenError, Invalid, NotFound, Refused, Unavailable
from bullpen.protocol import request as protocol
from bullpen.protocol.names import LEAD
from bullpen.runs.reach.answer_keys import UsedLinks, answer_key
from bullpen.runs.reach.answer_links import (
    AnswerLink,
    Flaw,
    flaw_of,
    may_choose,
    request_of,
    verified,
)
from bullpen.team.requests.handles import short_id
from bullpen.view.scene import ask_card

_BODY_BYTES_MAX = 16 * 1024
_BAD_MAX = 30
_GOOD_MAX = 20
_STORY_S = 10.0
_ALL = b"all"

_FLAWS: Mapping[Flaw, tuple[int, str, str]] = {
    "forged": (403, "This link is not valid", "Use the newest notice, or open the dashboard."),
    "other_team": (403, "This link is of another team", "Open the dashboard of that team."),
    "expired": (410, "This link has expired", "Open the dashboard to answer, if it still waits."),
    "no_request": (410, "This request is gone", "There is nothing to answer any more."),
    "changed": (409, "The request has changed", "Wait for the new notice, or open the dashboard."),
    "answered": (409, "This was answered already", "There is nothing more to do."),
    "used": (410, "This link was used already", "Each link works once."),
}


@dataclass(frozen=True, slots=True)
class _Found:
    """A good link, and the request as it is."""

    link: AnswerLink
    request: protocol.Request


class _Flawed(Exception):
    """A link that does not count."""

    def __init__(self, flaw: Flaw) -> None:
        super().__init__(flaw)
        self.flaw = flaw


class AnswerPages:
    """What links of one team lead to."""

    def __init__(
        self,
        actions: PersonActions,
        app: App,
        team: str,
        renderer: PieceRenderer,
        *,
        static: Mapping[str, tuple[str, str]],
        live: Live,
        now: Callable[[], int],
    ) -> None:
        self._actions = actions
        self._team = app.teams.open(team)
        self._home = app.settings.home
        self._used = UsedLinks(self._home)
        self._renderer = renderer
        self._static = static
        self._live = live
        self._now = now
        self._bad, self._good = Tries(_BAD_MAX), Tries(_GOOD_MAX)

    def app(self, *, read_only: bool = False, more: Sequence[Route] = ()) -> Starlette:
        """The routes that need no session, and `more` of them.

        A server that is only to look at answers nothing.
        """
        files = [
            Route(f"/{name}", self._file, methods=["GET"])
            for name in ("answer.css", "icon.svg", "sw.js")
        ]
        links = Route("/answer/{token}", self._link, methods=["GET", "POST"])
        return Starlette(
            routes=files if read_only else [*files, links, *more],
            exception_handlers={
                HTTPException: self._http_error,
                _Flawed: self._flawed,
                BullpenError: self._failed,
            },
        )

    async def _file(self, request: Request) -> Response:
        text, kind = self._static[request.url.path.lstrip("/")]
        return Response(text, media_type=kind)

    async def _link(self, request: Request) -> Response:
        found = await self._checked(request.path_params["token"])
        if request.method != "POST":
            return await self._shown(found)
        return await self._answered(request, found)

    async def _checked(self, token: str) -> _Found:
        """The link and its request. Raises _Flawed, HTTPException."""
        key = await to_thread.run_sync(answer_key, self._home)
        link = verified(token, key)
        if link is None:
            # Those who guess must not keep those out who have a link.
            if self._bad.too_many(_ALL, self._now()):
                raise HTTPException(429)
            raise _Flawed("forged")
        if self._good.too_many(link.number, self._now()):
            raise HTTPException(429)
        if await to_thread.run_sync(self._used.has, link):
            raise _Flawed("used")
        request = request_of(link, (await self._team.approvals.all()).values())
        flaw = flaw_of(link, self._team.name, request, now_ms=self._now())
        if flaw is not None or request is None:
            raise _Flawed(flaw or "no_request")
        return _Found(link, request)

    async def _shown(self, found: _Found) -> Response:
        """The page with exactly what is asked."""
        # Drawing a change needs to know where its member works.
        with anyio.move_on_after(_STORY_S):
            await self._live.ready()
            story = self._live.following.story
            self._renderer.show_lead_as(story.shown_name(LEAD))
            colors = {each.name: each.color for each in self._live.scene.members}
            self._renderer.show_colors(colors)
        card = ask_card(found.request, short_id(found.request.id), self._live.following.story)
        shown = shown_request(card, found.request, back="")
        return self._page(
            "answer.html",
            shown=shown,
            may_allow=may_choose(found.link, "allow"),
            may_deny=may_choose(found.link, "deny"),
            expires_ms=found.link.expires_ms,
            now_ms=self._now(),
        )

    async def _answered(self, request: Request, found: _Found) -> Response:
        """Answer, once. Raises _Flawed and as the operation does."""
        form = await read_form(request, bytes_max=_BODY_BYTES_MAX)
        choice, asked = form.get("choice", ""), found.request
        if not may_choose(found.link, choice):
            raise Invalid("The link does not allow this answer.", remedy="Open the link again.")
        words = (form.get("option") or form.get("words") or "").strip() or None
        if asked.kind == "question" and choice == "allow" and words is None:
            raise Invalid("The answer is empty.", remedy="Go back and write something.")
        if not await to_thread.run_sync(self._used.take, found.link):
            raise _Flawed("used")
        try:
            await self._answer(asked, choice, words)
        except BullpenError as error:
            if isinstance(error, Refused) and error.reason == "already_answered":
                raise _Flawed("answered") from None
            await to_thread.run_sync(self._used.give_back, found.link)
            raise
        await to_thread.run_sync(self._used.forget, self._now())
        done = _DONE[choice == "allow"].get(asked.kind, "Done")
        return self._page("answered.html", good=choice == "allow", title=done, remedy="")

    async def _answer(self, asked: protocol.Request, choice: str, words: str | None) -> None:
        if choice == "allow":
            given = words if asked.kind == "question" else None
            await self._actions.approve(asked.id, digest=asked.digest, words=given)
        else:
            await self._actions.deny(asked.id, digest=asked.digest, why=None)

    def _page(self, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
        text = self._renderer.page(template, csrf=None, team=self._team.name, **values)
        return HTMLResponse(text, status)

    def _refused(self, status: int, title: str, remedy: str) -> HTMLResponse:
        return self._page("answered.html", status=status, good=None, title=title, remedy=remedy)

    async def _flawed(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, _Flawed)
        return self._refused(*_FLAWS[error.flaw])

    async def _failed(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, BullpenError)
        codes = ((Invalid, 400), (Refused, 403), (NotFound, 410), (Unavailable, 503))
        status = next((code for kind, code in codes if isinstance(error, kind)), 409)
        return self._refused(status, error.message, error.remedy)

    async def _http_error(self, request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        title, remedy = _HTTP.get(status, ("That did not work", "Open the link again."))
        answer = self._refused(status, title, remedy)
        if status == 429:
            answer.headers["Retry-After"] = "60"
        return answer


_HTTP: Mapping[int, tuple[str, str]] = {
    404: ("There is no such page", "Open the dashboard."),
    405: ("The address does not take such a request", "Open the link again."),
    429: ("Too many tries", "Wait a minute."),
}
_DONE: Mapping[bool, Mapping[str, str]] = {
    True: {
        "permission": "Allowed",
        "plan": "Plan approved",
        "question": "Answered",
        "shutdown": "Approved",
    },
    False: {
        "permission": "Denied",
        "plan": "Plan rejected",
        "question": "Denied",
        "shutdown": "Denied",
    },
}
