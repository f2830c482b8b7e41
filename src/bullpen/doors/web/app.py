"""The pages of the dashboard, their live updates, and the forms that people act with."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from importlib.resources import files

import anyio
from anyio import to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from bullpen.app.app import App
from bullpen.doors.actions.changes import Changes, member_changes
from bullpen.doors.actions.person_actions import PersonActions
from bullpen.doors.web import pieces
from bullpen.doors.web.changes_cache import CHANGES_S, ChangesCache
from bullpen.doors.web.forge_hook import ForgeHook
from bullpen.doors.web.form_actions import FormActions, read_form
from bullpen.doors.web.live import ALIVE_S, STREAMS_MAX, Live, Stream
from bullpen.doors.web.member_records import MemberRecords
from bullpen.doors.web.phone.answer_pages import AnswerPages
from bullpen.doors.web.phone.push_actions import PushActions
from bullpen.doors.web.pieces import PAGES, PageView, draw
from bullpen.doors.web.render_piece import PieceRenderer, SentPieces, as_json
from bullpen.doors.web.replay import Replay
from bullpen.doors.web.security import Visitor, fits
from bullpen.errors import BullpenError, Conflict, Invalid, NotFound, Refused, Unavailable
from bullpen.protocol.clock import now_ms
from bullpen.view.drawings.style import STYLE
from bullpen.view.follow import TeamFollower
from bullpen.view.scene import scene_of

_MEDIA_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_RECORD_S = 0.3
_SHOWN_S = 1.0
_STATUS: tuple[tuple[type[BullpenError], int], ...] = (
    (Invalid, 400), (Refused, 403), (NotFound, 404), (Conflict, 409), (Unavailable, 503),
)  # fmt: skip
_PAUSES_S = {
    "overview": _RECORD_S,
    "member": _RECORD_S,
    "transcript": _RECORD_S,
    "changes": CHANGES_S,
}
"""How often a page looks at what no event tells: records and files of members."""


class Dashboard:
    """One team in a browser."""

    def __init__(self, app: App, team: str, live: Live) -> None:
        self._team = team
        self.live = live
        self._renderer = PieceRenderer()
        self._records = MemberRecords(app.supervisor(team), lambda: live.following.story)
        self._changes = ChangesCache(
            lambda member, task: member_changes(app, team, member, task=task)
        )
        self._replay: Replay | None = None
        self._replay_wanted = anyio.Event()
        self._static = _static()
        actions = PersonActions(app, team)
        acts = FormActions(actions, lambda: live.following.story)
        self._pushes = PushActions(app.settings.home, team)
        self.answers = AnswerPages(
            actions, app, team, self._renderer, static=self._static, live=live, now=now_ms
        )
        self._acts_by_name = acts.by_name
        self.hook = ForgeHook(app, team, now=now_ms)

    def app(self) -> Starlette:
        """All routes, without access control: wrap them in `AccessCheck`."""
        return Starlette(
            routes=[
                Route("/events", self.stream, methods=["GET"]),
                Route("/replay", self.replay, methods=["GET"]),
                Route("/replay/at", self.replay_at, methods=["GET"]),
                Route("/static/{name}", self.static, methods=["GET"]),
                Route("/act/{name}", self.act, methods=["POST"]),
                Route("/push", self.push_key, methods=["GET"]),
                Route("/push/{what}", self.push, methods=["POST"]),
                Route("/", self.page, methods=["GET"]),
                Route("/{page}", self.page, methods=["GET"]),
            ],
            exception_handlers={HTTPException: self._http_error, BullpenError: self._error_page},
        )

    def public_app(self, *, read_only: bool = False) -> Starlette:
        """The routes that need no session, because what they are sent is signed."""
        return self.answers.app(read_only=read_only, more=[self.hook.route])

    async def page(self, request: Request) -> Response:
        page = _page_name(request.path_params.get("page", "overview"))
        view = await self._view(request, page)
        picture = draw(page, self._renderer, view)
        more = {"older": pieces.older(view, picture)} if page == "messages" else {}
        shown = {"picture": picture, "view": view, "waiting": len(view.scene.asks), **more}
        return self._html(request, f"{page}.html", page=page, **shown)

    async def stream(self, request: Request) -> Response | Stream:
        """The changes of an open page."""
        page = _page_name(request.query_params.get("page", ""))
        if self.live.streams >= STREAMS_MAX:
            raise Unavailable("Too many pages are open.", remedy="Close some of them.")
        await self.live.ready()
        return Stream(self.live, lambda: self._lines(request, page))

    async def _lines(self, request: Request, page: str) -> AsyncIterator[str]:
        visitor, sent = _visitor(request), SentPieces()
        pause = _PAUSES_S.get(page, ALIVE_S)
        silent_s = 0.0
        shown: PageView | None = None
        yield "retry: 1000\n\n"
        while self.live.over is None:
            version = self.live.version
            try:
                view = await self._view(request, page)
                # Pages look often at what seldom changes.
                same = view.shows_the_same(shown)
                update = None if same else sent.update(draw(page, self._renderer, view))
                shown = view
            except NotFound as error:
                yield _event({"over": str(error)})
                return
            if update is not None:
                yield self._renderer.signed(_event(update), visitor.csrf)
                silent_s = 0.0
            elif silent_s >= ALIVE_S:
                yield ": still here\n\n"
                silent_s = 0.0
            await self.live.newer_than(version, within_s=pause)
            silent_s += pause
        yield _event({"over": self.live.over})

    async def replay(self, request: Request) -> Response:
        """The team right after an event."""
        replay = await self._past()
        view = await self._past_view(request, replay)
        picture = draw("replay", self._renderer, view)
        return self._html(
            request, "replay.html", page="replay", picture=picture, view=view, end=replay.end
        )

    async def replay_at(self, request: Request) -> Response:
        """The pieces of another moment, for a replay page that is open."""
        view = await self._past_view(request, await self._past())
        update = SentPieces().update(draw("replay", self._renderer, view)) or {}
        at = {"at": view.scene.seq, "at_ms": view.scene.at_ms, "told": view.last_news}
        return JSONResponse({**update, **at})

    async def _past(self) -> Replay:
        await self.live.ready()
        events = self.live.following.events
        if self._replay is None or not self._replay.is_of(events):
            self._replay = Replay(events)
            self._replay_wanted.set()
        return self._replay

    async def _past_view(self, request: Request, replay: Replay) -> PageView:
        at = _number(request.query_params.get("at"), replay.end)
        story = self.live.following.story
        if at >= replay.end and story.seq == replay.end:
            # The live story is at this moment already.
            scene = scene_of(story, now_ms=story.at_ms)
        else:
            scene, story = await to_thread.run_sync(replay.at, at)
        return PageView(scene, story, act=False, query={}, is_replay=True)

    async def run(self) -> None:
        """Follow the team, and prepare the replay once somebody opens it."""
        async with anyio.create_task_group() as group:
            group.start_soon(self.live.follow)
            while True:
                await self._replay_wanted.wait()
                self._replay_wanted = anyio.Event()
                if self._replay is not None:
                    await to_thread.run_sync(self._replay.prepare)

    async def static(self, request: Request) -> Response:
        found = self._static.get(request.path_params["name"])
        if found is None:
            name = request.path_params["name"]
            raise NotFound(f"There is no file {name!r}.", remedy="Load the page again.")
        return Response(found[0], media_type=found[1])

    async def act(self, request: Request) -> Response:
        """Do what a form asks for."""
        name = request.path_params["name"]
        act = self._acts_by_name.get(name)
        if act is None:
            raise NotFound(f"There is no action {name!r}.", remedy="Load the page again.")
        form = await read_form(request)
        request.state.back = _own_path(form.get("back", ""))
        visitor = _visitor(request)
        if not fits(visitor, form.get("csrf")):
            raise _other_session()
        version = self.live.version
        note = await act(form)
        # The next page is to show the result.
        await self.live.newer_than(version, within_s=_SHOWN_S)
        if _wants_json(request):
            return JSONResponse({"note": note})
        visitor.notes.append(note)
        return RedirectResponse(request.state.back, status_code=303)

    async def push_key(self, request: Request) -> Response:
        """The key with which a browser subscribes to pushes."""
        del request
        return JSONResponse({"key": await to_thread.run_sync(self._pushes.key)})

    async def push(self, request: Request) -> Response:
        """Subscribe a browser to pushes, or end that."""
        form = await read_form(request)
        if not fits(_visitor(request), form.get("csrf")):
            raise _other_session()
        what = request.path_params["what"]
        return JSONResponse({"note": await to_thread.run_sync(self._pushes.act, what, form)})

    async def _view(self, request: Request, page: str) -> PageView:
        live, query = self.live, dict(request.query_params)
        await live.ready()
        if live.over is not None:
            raise NotFound(live.over, remedy="Open another team: bullpen web -t NAME")
        story, act = live.following.story, _visitor(request).may_act
        view = PageView(live.scene, story, act, query)
        chosen = view.chosen
        if page in ("overview", "member", "transcript") and chosen is not None:
            view = replace(view, record=await self._records.last(chosen.name))
        if page == "changes":
            view = replace(view, changes=await self._changes_of(view))
        return view

    async def _changes_of(self, view: PageView) -> Changes | None:
        task = next((card for card in view.scene.tasks if card.id == view.query.get("task")), None)
        name = view.query.get("member") or (None if task is None else task.by or task.owner)
        if name is None:
            return None if task is None else Changes("", None, (), "Nobody has worked on it yet.")
        return await self._changes.of(name, None if task is None else task.id)

    def _html(self, request: Request, template: str, **values: object) -> HTMLResponse:
        visitor = _visitor(request)
        notes = [visitor.notes.popleft() for _ in range(len(visitor.notes))]
        text = self._renderer.page(
            template,
            csrf=(visitor.csrf or "") if visitor.may_act else None,
            team=self._team,
            notes=notes,
            path=request.url.path + (f"?{request.url.query}" if request.url.query else ""),
            query=request.url.query,
            now_ms=now_ms(),
            **{"waiting": self.live.waiting, **values},
        )
        return HTMLResponse(text)

    async def _error_page(self, request: Request, error: Exception) -> Response:
        if request.method == "POST" and _wants_json(request):
            failed = {"message": getattr(error, "message", str(error))}
            response: Response = JSONResponse({**failed, "remedy": getattr(error, "remedy", "")})
        else:
            response = self._trouble(request, error)
        codes = (code for kind, code in _STATUS if isinstance(error, kind))
        response.status_code = next(codes, 500)
        return response

    def _trouble(self, request: Request, error: Exception) -> HTMLResponse:
        return self._html(
            request,
            "trouble.html",
            page="",
            message=getattr(error, "message", str(error)),
            remedy=getattr(error, "remedy", ""),
            back=getattr(request.state, "back", "/"),
        )

    async def _http_error(self, request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        words = {404: "There is no such page.", 405: "The address does not take such a request."}
        failed = BullpenError(words.get(status, str(error)), remedy="Open the first page.")
        response = await self._error_page(request, failed)
        response.status_code = status
        return response


async def dashboard(app: App, team: str) -> Dashboard:
    """The dashboard of a team. Raises NotFound, Unavailable."""
    opened = app.teams.open(team)
    # The log can be long: it is read while the address is shown.
    await opened.agents.config()
    return Dashboard(app, team, Live(TeamFollower(opened)))


def _page_name(name: str) -> str:
    if name not in PAGES:
        raise NotFound(f"There is no page {name!r}.", remedy="Go back to the overview.")
    return name


def _other_session() -> Refused:
    return Refused(
        "The form belongs to another session.", reason="csrf", remedy="Load the page again."
    )


def _visitor(request: Request) -> Visitor:
    visitor = request.scope["visitor"]
    if not isinstance(visitor, Visitor):
        raise RuntimeError("A request came in without the access check.")
    return visitor


def _wants_json(request: Request) -> bool:
    """Whether a script of ours asks, which shows the answer without leaving the page."""
    return request.headers.get("accept", "") == "application/json"


def _event(update: Mapping[str, object]) -> str:
    return f"data: {as_json(update)}\n\n"


def _number(text: str | None, default: int) -> int:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 12 else default


def _own_path(path: str) -> str:
    """A path on this server to go back to, even if the form holds something else."""
    plain = path.isascii() and path.isprintable() and "\\" not in path
    return path if plain and path.startswith("/") and not path.startswith("//") else "/"


def _static() -> dict[str, tuple[str, str]]:
    folder = files("bullpen.doors.web") / "static"
    found = {
        each.name: (each.read_text("utf-8"), _MEDIA_TYPES[each.name.rpartition(".")[2]])
        for each in folder.iterdir()
    }
    return {**found, "drawing.css": (STYLE, "text/css")}
