"""The pages of the dashboard, their updates, and the forms by which people act."""

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

from bullpen.errors import BullpenError, Conflict, Invalid, NotFound, Refused, Unavailable
from bullpen.office import Office
from bullpen.store.clock import now_ms
from bullpen.view.acts import Acts
from bullpen.view.drawing_style import STYLE
from bullpen.view.following import Following
from bullpen.view.scene import scene_of
from bullpen.web import pictures
from bullpen.web.live import ALIVE_S, STREAMS_MAX, Live, Stream
from bullpen.web.pen import Pen, Sent, as_json
from bullpen.web.pictures import PAGES, Sight
from bullpen.web.replay import Replay
from bullpen.web.security import Visitor, fits
from bullpen.web.transcripts import Transcripts

_FORM_BYTES_MAX = 1024 * 1024
_TRANSCRIPT_S = 0.3
_SHOWN_S = 1.0
_STATUS: tuple[tuple[type[BullpenError], int], ...] = (
    (Invalid, 400), (Refused, 403), (NotFound, 404), (Conflict, 409), (Unavailable, 503),
)  # fmt: skip
_STATIC = {
    "app.css": "text/css",
    "live.js": "text/javascript",
    "replay.js": "text/javascript",
    "theme.js": "text/javascript",
}

Act = Callable[[Mapping[str, str]], Awaitable[str]]


class Dashboard:
    """One team in a browser."""

    def __init__(self, office: Office, team: str, live: Live) -> None:
        self._team = team
        self._acts = Acts(office, team)
        self.live = live
        self._pen = Pen()
        self._transcripts = Transcripts(office.supervisor(team))
        self._replay: Replay | None = None
        self._replay_wanted = anyio.Event()
        self._static = _static()
        self._doable: dict[str, Act] = {
            "approve": self._approve,
            "deny": self._deny,
            "send": self._send,
            "assign": self._assign,
            "stop": self._stop,
        }

    def app(self) -> Starlette:
        """Everything there is to ask for, without the gate that belongs around it."""
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
            exception_handlers={HTTPException: self._http_trouble, BullpenError: self._trouble},
        )

    async def page(self, request: Request) -> Response:
        """One of the pages."""
        page = request.path_params.get("page", "overview")
        if page not in PAGES:
            raise NotFound("There is no such page.", remedy="Go back to the overview.")
        sight = await self._sight(request, page)
        picture = PAGES[page](self._pen, sight)
        more = {"older": pictures.older(sight, picture)} if page == "messages" else {}
        return self._html(request, f"{page}.html", page=page, picture=picture, sight=sight, **more)

    async def stream(self, request: Request) -> Response | Stream:
        """What changes on a page, as long as somebody looks at it."""
        page = request.query_params.get("page", "")
        if page not in PAGES:
            raise NotFound("There is no such page.", remedy="Go back to the overview.")
        if self.live.streams >= STREAMS_MAX:
            raise Unavailable("Too many pages are open.", remedy="Close some.")
        return Stream(self.live, lambda: self._lines(request, page))

    async def _lines(self, request: Request, page: str) -> AsyncIterator[str]:
        visitor, sent = _visitor(request), Sent()
        pause = _TRANSCRIPT_S if page == "member" else ALIVE_S
        silent_s = 0.0
        yield "retry: 1000\n\n"
        while self.live.over is None:
            version = self.live.version
            try:
                update = sent.update(PAGES[page](self._pen, await self._sight(request, page)))
            except NotFound as error:
                yield _event({"over": str(error)})
                return
            if update is not None:
                yield self._pen.signed(_event(update), visitor.csrf)
                silent_s = 0.0
            elif silent_s >= ALIVE_S:
                yield ": still here\n\n"
                silent_s = 0.0
            await self.live.past(version, within_s=pause)
            silent_s += pause
        yield _event({"over": self.live.over})

    async def replay(self, request: Request) -> Response:
        """The team as it was after an event."""
        replay = self._past()
        sight = await self._moment(request, replay)
        picture = pictures.replay(self._pen, sight)
        return self._html(
            request, "replay.html", page="replay", picture=picture, sight=sight, end=replay.end
        )

    async def replay_at(self, request: Request) -> Response:
        """The same as pieces, for a page that is open."""
        sight = await self._moment(request, self._past())
        update = Sent().update(pictures.replay(self._pen, sight)) or {}
        scene, story = sight.scene, sight.story
        told = story.told[-1].text if story.told else ""
        return JSONResponse({**update, "at": scene.seq, "at_ms": scene.at_ms, "told": told})

    def _past(self) -> Replay:
        events = self.live.following.events
        if self._replay is None or not self._replay.is_of(events):
            self._replay = Replay(events)
            self._replay_wanted.set()
        return self._replay

    async def _moment(self, request: Request, replay: Replay) -> Sight:
        """What somebody wants to see of the past."""
        at = _number(request.query_params.get("at"), replay.end)
        story = self.live.following.story
        if at >= replay.end and story.seq == replay.end:
            # The newest moment was told already.
            scene = scene_of(story, now_ms=story.at_ms)
        else:
            scene, story = await to_thread.run_sync(replay.at, at)
        return Sight(scene, story, act=False, wants={}, past=True)

    async def run(self) -> None:
        """Follow the team, and prepare its past once somebody looks at it."""
        async with anyio.create_task_group() as group:
            group.start_soon(self.live.follow)
            while True:
                await self._replay_wanted.wait()
                self._replay_wanted = anyio.Event()
                if self._replay is not None:
                    await to_thread.run_sync(self._replay.prepare)

    async def static(self, request: Request) -> Response:
        """A style sheet or a script of ours."""
        found = self._static.get(request.path_params["name"])
        if found is None:
            raise NotFound("There is no such file.")
        return Response(found[0], media_type=found[1])

    async def act(self, request: Request) -> Response:
        """What a person decided."""
        act = self._doable.get(request.path_params["name"])
        if act is None:
            raise NotFound("Nothing of that name can be done here.")
        form = await _form(request)
        request.state.back = _own_path(form.get("back", ""))
        visitor = _visitor(request)
        if not fits(visitor, form.get("csrf")):
            raise Refused(
                "This form is of another session.", reason="csrf", remedy="Load the page again."
            )
        version = self.live.version
        note = await act(form)
        # The page that comes next shows what was done.
        await self.live.past(version, within_s=_SHOWN_S)
        visitor.notes.append(note)
        return RedirectResponse(request.state.back, status_code=303)

    async def _approve(self, form: Mapping[str, str]) -> str:
        answered = await self._acts.approve(
            form.get("id", ""),
            digest=form.get("digest") or None,
            changed=form.get("changed") or None,
            always=form.get("always") == "yes",
            mode=form.get("mode") or None,
            words=form.get("words") or None,
        )
        more = f" {answered.untold}" if answered.untold else ""
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
        return f"Task {task.id} is {task.owner}'s now."

    async def _stop(self, form: Mapping[str, str]) -> str:
        name = form.get("name", "")
        if form.get("sure") != "yes":
            raise Invalid("Nothing was stopped.", remedy="Tick that you are sure.")
        await self._acts.stop(name, reason=form.get("reason") or None)
        return f"Stopped {name}."

    async def _sight(self, request: Request, page: str) -> Sight:
        if self.live.over is not None:
            raise NotFound(self.live.over)
        wants = dict(request.query_params)
        rows = None
        if page == "member" and wants.get("name") in self.live.following.story.members:
            rows = await self._transcripts.last(wants["name"])
        live = self.live
        return Sight(live.scene, live.following.story, _visitor(request).may_act, wants, rows=rows)

    def _html(self, request: Request, template: str, **values: object) -> HTMLResponse:
        visitor = _visitor(request)
        notes = [visitor.notes.popleft() for _ in range(len(visitor.notes))]
        text = self._pen.page(
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

    async def _trouble(self, request: Request, error: Exception) -> Response:
        status = next((code for kind, code in _STATUS if isinstance(error, kind)), 500)
        message = getattr(error, "message", str(error))
        remedy = getattr(error, "remedy", "")
        back = getattr(request.state, "back", "/")
        response = self._html(
            request, "trouble.html", page="", message=message, remedy=remedy, back=back
        )
        response.status_code = status
        return response

    async def _http_trouble(self, request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        words = {404: "There is no such page.", 405: "That cannot be done with this address."}
        response = await self._trouble(request, BullpenError(words.get(status, str(error))))
        response.status_code = status
        return response


async def dashboard(office: Office, team: str) -> Dashboard:
    """The dashboard of a team, as it is now. Raises NotFound, Unavailable."""
    following = Following(office.teams.open(team))
    return Dashboard(office, team, Live(following, await following.look()))


def _visitor(request: Request) -> Visitor:
    visitor = request.scope["visitor"]
    if not isinstance(visitor, Visitor):
        raise RuntimeError("A request came in past the gate.")
    return visitor


def _event(update: Mapping[str, object]) -> str:
    return f"data: {as_json(update)}\n\n"


def _number(text: str | None, default: int) -> int:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 12 else default


async def _form(request: Request) -> dict[str, str]:
    """The fields of a form. Raises Invalid."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise Invalid("That is no form.", remedy="Send application/x-www-form-urlencoded.")
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > _FORM_BYTES_MAX:
            raise Invalid("The form is too long.", remedy="Write less, or put it into a file.")
    try:
        fields = parse_qsl(
            body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=100
        )
    except ValueError:
        raise Invalid("The form cannot be read.", remedy="Load the page again.") from None
    # A browser sends line breaks of its own kind.
    return {name: value.replace("\r\n", "\n") for name, value in fields}


def _own_path(path: str) -> str:
    """A path of ours to go back to, whatever somebody wrote into the form."""
    plain = path.isascii() and path.isprintable() and "\\" not in path
    return path if plain and path.startswith("/") and not path.startswith("//") else "/"


def _static() -> dict[str, tuple[str, str]]:
    folder = files("bullpen.web") / "static"
    found = {name: ((folder / name).read_text("utf-8"), kind) for name, kind in _STATIC.items()}
    return {**found, "drawing.css": (STYLE, "text/css")}
