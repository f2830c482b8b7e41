"""The pieces that each page consists of. The same pieces make the page and its updates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any
from urllib.parse import urlencode

from markupsafe import Markup

from bullpen.doors.actions.answer import shown_input
from bullpen.doors.web.render_piece import PieceRenderer, Pieces
from bullpen.doors.web.transcripts import TranscriptRow
from bullpen.errors import NotFound
from bullpen.protocol.names import EVERYBODY, LEAD
from bullpen.protocol.policy import MODES
from bullpen.view import sentences
from bullpen.view.cards import TaskCard
from bullpen.view.drawing import gantt_svg, graph_svg, spend_svg
from bullpen.view.graph import critical_path, graph_of
from bullpen.view.scene import AskCard, Scene
from bullpen.view.story import Said, Story
from bullpen.view.task_state import FINISHED, TASK_STATES

COLUMN_MAX = 50
"""How many tasks of a state the board shows, unless all are asked for."""

MESSAGES_MAX = 200
GRAPH_MAX = 250

_NEWS = 25
_ASKS = 8
_ROWS_MAX = 24


@dataclass(frozen=True, slots=True)
class PageView:
    """A team as one visitor sees it."""

    scene: Scene
    story: Story
    act: bool
    # The parameters of the address.
    query: Mapping[str, str]
    # The transcript of the member that the page is about; None if there is none on this machine.
    rows: Sequence[TranscriptRow] | None = None
    is_replay: bool = False

    @property
    def last_news(self) -> str:
        """What happened last, in words."""
        return self.story.shown_news(self.story.told[-1]) if self.story.told else ""


class _Page:
    """A page that is being put together."""

    def __init__(self, renderer: PieceRenderer, view: PageView) -> None:
        self._renderer = renderer
        self.view, self.scene, self.story, self.query = view, view.scene, view.story, view.query
        self.pieces = Pieces()
        renderer.show_lead_as(view.story.shown_name(LEAD))

    def single(self, name: str, kind: str, shows: Iterable[object]) -> None:
        self.pieces.singles[name] = self._renderer.piece(kind, name, shows)

    def listed(
        self, name: str, kind: str, shows: Mapping[str, Iterable[object]], *, act: bool = False
    ) -> None:
        self.pieces.lists[name] = {
            piece_id: self._renderer.piece(kind, piece_id, shown, act=act)
            for piece_id, shown in shows.items()
        }

    def head(self) -> None:
        """Add what is above every page."""
        scene = self.scene
        counts = dict.fromkeys((state for state in TASK_STATES if state not in FINISHED), 0)
        for card in scene.tasks:
            if card.state in counts:
                counts[card.state] += 1
        about = (scene.team, scene.description, scene.finished, counts, len(scene.tasks))
        self.single("head", "head", (*about, scene.total, scene.limits.usd, scene.result))
        if not self.view.is_replay:
            self.single("waits", "waits", (len(scene.asks),))
            self.single("problems", "problems", (scene.problems,))

    def members(self) -> None:
        cards = self.scene.members
        self.listed("members", "member_row", {f"member-{card.name}": (card,) for card in cards})

    def news(self) -> None:
        """Add what happened last, newest first."""
        last = self.story.told[-_NEWS:]
        first = len(self.story.told) - len(last)
        rows = {
            f"news-{first + number}": (item.at_ms, self.story.shown_news(item))
            for number, item in enumerate(last)
        }
        self.listed("news", "told", {name: rows[name] for name in reversed(rows)})

    def board(self) -> None:
        by_state: dict[str, list[TaskCard]] = {state: [] for state in TASK_STATES}
        for card in self.scene.tasks:
            by_state[card.state].append(card)
        replay = self.view.is_replay
        for state, cards in by_state.items():
            whole = self.query.get("all") == state and not replay
            # Of finished tasks, the last ones are the most interesting.
            some = cards[-COLUMN_MAX:] if state in FINISHED else cards[:COLUMN_MAX]
            shown = cards if whole else some
            hidden = 0 if replay else len(cards) - len(shown)
            self.single(
                f"head-{state}", "column", (state, len(cards), hidden, f"/tasks?all={state}")
            )
            self.listed(
                f"column-{state}", "task_card", {f"task-{card.id}": (card,) for card in shown}
            )

    def charts(self) -> None:
        story, now = self.story, self.scene.at_ms
        names = sorted(story.spans, key=lambda name: name not in story.members)
        gantt = Markup(gantt_svg(story, names=names, now_ms=now))  # noqa: S704
        spend = Markup(spend_svg(story.spending, now_ms=now))  # noqa: S704
        self.single("gantt", "drawing", ("States over time", gantt))
        self.single("spend", "drawing", ("Cost over time", spend))

    def messages(self, query: Mapping[str, str], most: int) -> bool:
        """Add the newest messages that match, and return whether there are any."""
        found = {
            f"letter-{place}": (said, sentences.body(said.message), self.story.delivery(said))
            for place, said in islice(_messages(self.story, query), most)
        }
        self.listed("letters", "letter", found)
        return bool(found)

    def empty(self, name: str, words: str, *, unless: object) -> None:
        """Add a sentence that is shown instead of an empty list."""
        self.single(name, "empty", ("" if unless else words,))


def _overview(page: _Page) -> None:
    page.members()
    asks = page.scene.asks[:_ASKS]
    page.listed("asks", "ask_line", {f"ask-line-{card.id}": (card,) for card in asks})
    page.news()


def _tasks(page: _Page) -> None:
    page.board()
    every = page.scene.tasks
    shown = every if page.query.get("graph") == "all" else _for_graph(every)
    page.single("graph", "graph", _GraphOf(shown, every))


def _messages_page(page: _Page) -> None:
    found = page.messages(page.query, MESSAGES_MAX)
    page.empty("no-letters", "No messages match.", unless=found)


def _waiting(page: _Page) -> None:
    asks = page.scene.asks
    rows = {f"ask-{card.id}": _ask(card) for card in asks}
    page.listed("asks", "ask", rows, act=page.view.act)
    page.empty("no-asks", "No requests are waiting.", unless=asks)


def _member(page: _Page) -> None:
    name = page.query.get("name", "")
    card = next((each for each in page.scene.members if each.name == name), None)
    if card is None:
        raise NotFound(
            f"There is no member {name!r}.", remedy="Open the overview to see all members."
        )
    page.single("member", "member_card", (card,))
    rows = page.view.rows or ()
    page.listed(
        "rows",
        "row",
        {f"row-{row.number}": (row.time, row.kind, row.style, row.text) for row in rows},
    )
    page.empty("no-rows", f"There is no transcript of {name} on this machine.", unless=rows)
    page.messages({"with": name, "notices": "yes"}, 30)


def _task(page: _Page) -> None:
    wanted = page.query.get("id", "")
    card = next((each for each in page.scene.tasks if each.id == wanted), None)
    if card is None:
        raise NotFound(f"There is no task {wanted!r}.", remedy="Open the board to see all tasks.")
    page.single("task", "task_whole", (card,))


def _replay(page: _Page) -> None:
    page.members()
    page.board()
    page.charts()
    page.news()
    page.messages({}, 20)


PAGES: dict[str, Callable[[_Page], None]] = {
    "overview": _overview,
    "tasks": _tasks,
    "messages": _messages_page,
    "waiting": _waiting,
    "member": _member,
    "task": _task,
    "timeline": _Page.charts,
}


def draw(name: str, renderer: PieceRenderer, view: PageView) -> Pieces:
    """The pieces of one of PAGES, or of the replay. Raises NotFound."""
    page = _Page(renderer, view)
    page.head()
    (_replay if view.is_replay else PAGES[name])(page)
    return page.pieces


def older(view: PageView, pieces: Pieces) -> str | None:
    """The address of the messages before those of a page; None if there are none."""
    shown = pieces.lists["letters"]
    if len(shown) < MESSAGES_MAX:
        return None
    before = list(shown)[-1].removeprefix("letter-")
    return f"/messages?{urlencode({**view.query, 'before': before}, errors='replace')}"


class _GraphOf:
    """A graph that is laid out and drawn only when its tasks have changed."""

    def __init__(self, shown: Sequence[TaskCard], tasks: Sequence[TaskCard]) -> None:
        self._shown, self._all = tuple(shown), tasks

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _GraphOf) and self._key == other._key

    __hash__ = None  # type: ignore[assignment]

    @property
    def _key(self) -> tuple[object, ...]:
        return (self._shown, len(self._all))

    def __iter__(self) -> Any:
        svg = graph_svg(graph_of(self._shown), links=_task_address)
        yield Markup(svg)  # noqa: S704
        yield critical_path(self._shown)
        yield len(self._all) - len(self._shown)


def _messages(story: Story, query: Mapping[str, str]) -> Iterable[tuple[int, Said]]:
    """Messages that match, newest first, each with its place in the story."""
    sender, to, either = query.get("from"), query.get("to"), query.get("with")
    words, before = query.get("text", "").casefold(), query.get("before", "")
    last = int(before) if before.isascii() and before.isdigit() else len(story.said)
    for place in range(min(last, len(story.said)) - 1, -1, -1):
        said = story.said[place]
        if said.kind is not None and not query.get("notices"):
            continue
        if sender and said.sender != sender:
            continue
        if to and to not in said.to and to != EVERYBODY:
            continue
        if to == EVERYBODY and len(said.to) < 2:
            continue
        if either and said.sender != either and either not in said.to:
            continue
        if words and words not in said.message.text.casefold():
            continue
        yield place, said


def _for_graph(cards: Sequence[TaskCard]) -> Sequence[TaskCard]:
    """As many tasks as a graph can show: open ones first, then those finished last."""
    if len(cards) <= GRAPH_MAX:
        return cards
    is_open = [card for card in cards if card.state not in FINISHED][:GRAPH_MAX]
    room = GRAPH_MAX - len(is_open)
    done = [card for card in cards if card.state in FINISHED][-room:] if room else []
    kept = {card.id for card in (*is_open, *done)}
    return [card for card in cards if card.id in kept]


def _ask(card: AskCard) -> tuple[AskCard, dict[str, Any]]:
    text = None if card.input is None else shown_input(card.input)
    rows = min(_ROWS_MAX, 2 + (text or "").count("\n"))
    return card, {"input": text, "rows": rows, "modes": MODES}


def _task_address(task_id: str) -> str:
    return f"/task?{urlencode({'id': task_id}, errors='replace')}"
