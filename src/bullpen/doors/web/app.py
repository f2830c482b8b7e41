"""The pages of the dashboard, their live updates, and the forms that people act with."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from importlib.resources import files
from urllib.parse import parse_qsl

import anyio
from anyio import to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from bullpen.app.app import App
from bullpen.doors.actions.person_actions import PersonActions
from bullpen.doors.web import pieces
from bullpen.doors.web.live import ALIVE_S, STREAMS_MAX, Live, Stream
from bullpen.doors.web.pieces import PAGES, PageView, draw
from bullpen.doors.web.render_piece import PieceRenderer, SentPieces, as_json
from bullpen.doors.web.replay import Replay
from bullpen.doors.web.security import Visitor, fits
from bullpen.doors.web.transcripts import Transcripts
from bullpen.errors import BullpenError, Conflict, Invalid, NotFound, Refused, Unavailable
from bullpen.protocol.clock import now_ms
from bullpen.view.drawing_style import STYLE
from bullpen.view.follow import TeamFollower
from bullpen.view.scene import scene_of

_FORM_BYTES_MAX = 1024 * 1024
_TRANSCRIPT_S = 0.3
_SHOWN_S = 1.0
_STATUS: tuple[tuple[type[BullpenError], int], ...] = (
    (Invalid, 400), (Refused, 403), (NotFound, 404), (Conflict, 409), (Unavailable, 503),
)  # fmt: skip
_MEDIA_TYPES = {"css": "text/css", "js": "text/javascript"}

Act = Callable[[Mapping[str, str]], Awaitable[str]]


class Dashboard:
    """One team in a browser."""

    def __init__(self, app: App, team: str, live: Live) -> None:
        self._team = team
        self._acts = PersonActions(app, team)
        self.live = live
        self._renderer = PieceRenderer()
        self._transcripts = Transcripts(app.supervisor(team))
        self._replay: Replay | None = None
        self._replay_wanted = anyio.Event()
        self._static = _static()
        self._acts_by_name: dict[str, Act] = {
            "approve": self._approve,
            "deny": self._deny,
            "send": self._send,
            "assign": self._assign,
            "stop": self._stop,
        }

    def app(self) -> Starlette:
        """All routes, without access control: wrap them in `AccessCheck`."""
        return Starlette(
            routes=[
                Route("/events", self.stream, methods=["GET"]),
                Route("/replay", self.replay, methods=["GET"]),
                Route("/replay/at", self.replay_at, methods=["GET"]),
                Route("/static/{name}", self.static, methods=["GET"]),
                Route("/act/{name}", self.act, methods=["POST"]),
                Route("/", self.page, methods=["GET"]),
                Route("/{page}", self.page, methods=["GET"]),
            ],
            exception_handlers={HTTPException: self._http_error, BullpenError: self._error_page},
        )

    async def page(self, request: Request) -> Response:
        page = _page_name(request.path_params.get("page", "overview"))
        view = await self._view(request, page)
        picture = draw(page, self._renderer, view)
        more = {"older": pieces.older(view, picture)} if page == "messages" else {}
        return self._html(request, f"{page}.html", page=page, picture=picture, view=view, **more)

    async def stream(self, request: Request) -> Response | Stream:
        """The changes of an open page."""
        page = _page_name(request.query_params.get("page", ""))
        if self.live.streams >= STREAMS_MAX:
            raise Unavailable("Too many pages are open.", remedy="Close some of them.")
        await self.live.ready()
        return Stream(self.live, lambda: self._lines(request, page))

    async def _lines(self, request: Request, page: str) -> AsyncIterator[str]:
        visitor, sent = _visitor(request), SentPieces()
        pause = _TRANSCRIPT_S if page == "member" else ALIVE_S
        silent_s = 0.0
        yield "retry: 1000\n\n"
        while self.live.over is None:
            version = self.live.version
            try:
                view = await self._view(request, page)
                update = sent.update(draw(page, self._renderer, view))
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
        form = await _form(request)
        request.state.back = _own_path(form.get("back", ""))
        visitor = _visitor(request)
        if not fits(visitor, form.get("csrf")):
            raise Refused(
                "The form belongs to another session.",
                reason="csrf",
                remedy="Load the page again.",
            )
        version = self.live.version
        note = await act(form)
        # The next page is to show the result.
        await self.live.newer_than(version, within_s=_SHOWN_S)
        visitor.notes.append(note)
        return RedirectResponse(request.state.back, status_code=303)

    async def _approve(self, form: Mapping[str, str]) -> str:
        answered = await self._acts.approve(
            form.get("id", ""),
            digest=form.get("digest") or None,
            changed=form.get("changed") or None,
            always=form.get("always") == "yes",
            choice=form.get("choice") or None,
            mode=form.get("mode") or None,
            words=form.get("words") or None,
        )
        more = f" {answered.untold}" if answered.untold else ""
        if answered.request.kind == "question":
            return f"Answered {answered.request.sender}.{more}"
        return f"Approved what {answered.request.sender} asked for.{more}"

    async def _deny(self, form: Mapping[str, str]) -> str:
        answered = await self._acts.deny(
            form.get("id", ""), digest=form.get("digest") or None, why=form.get("why") or None
        )
        return f"Denied what {answered.request.sender} asked for."

    async def _send(self, form: Mapping[str, str]) -> str:
        await self._acts.send(form.get("to", ""), form.get("text", ""))
        return f"Sent to {form.get('to')}."

    async def _assign(self, form: Mapping[str, str]) -> str:
        task = await self._acts.assign(form.get("id", ""), form.get("to", ""))
        return f"Task {task.id} is assigned to {task.owner}."

    async def _stop(self, form: Mapping[str, str]) -> str:
        name = form.get("name", "")
        if form.get("sure") != "yes":
            raise Invalid(f"{name} was not stopped.", remedy='Tick "I am sure" first.')
        await self._acts.stop(name, reason=form.get("reason") or None)
        return f"Stopped {name}."

    async def _view(self, request: Request, page: str) -> PageView:
        live, query = self.live, dict(request.query_params)
        await live.ready()
        if live.over is not None:
            raise NotFound(live.over, remedy="Open another team: bullpen web -t NAME")
        rows = None
        if page == "member" and query.get("name") in live.following.story.members:
            rows = await self._transcripts.last(query["name"])
        act = _visitor(request).may_act
        return PageView(live.scene, live.following.story, act, query, rows=rows)

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
            **values,
        )
        return HTMLResponse(text)

    async def _error_page(self, request: Request, error: Exception) -> Response:
        response = self._html(
            request,
            "trouble.html",
            page="",
            message=getattr(error, "message", str(error)),
            remedy=getattr(error, "remedy", ""),
            back=getattr(request.state, "back", "/"),
        )
        codes = (code for kind, code in _STATUS if isinstance(error, kind))
        response.status_code = next(codes, 500)
        return response

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


def _visitor(request: Request) -> Visitor:
    visitor = request.scope["visitor"]
    if not isinstance(visitor, Visitor):
        raise RuntimeError("A request came in without the access check.")
    return visitor


def _event(update: Mapping[str, object]) -> str:
    return f"data: {as_json(update)}\n\n"


def _number(text: str | None, default: int) -> int:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 12 else default


async def _form(request: Request) -> dict[str, str]:
    """The fields of a form. Raises Invalid."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise Invalid(
            f"A form cannot be sent as {kind!r}.", remedy="Send application/x-www-form-urlencoded."
        )
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > _FORM_BYTES_MAX:
            raise Invalid(
                "The form is too long.", remedy="Shorten the text, or put it into a file."
            )
    try:
        fields = parse_qsl(
            body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=100
        )
    except ValueError:
        raise Invalid("The form cannot be read.", remedy="Load the page again.") from None
    # Browsers send line breaks as CRLF.
    return {name: value.replace("\r\n", "\n") for name, value in fields}


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
