"""The pieces that each page consists of. The same pieces make the page and its updates."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any
from urllib.parse import urlencode

from markupsafe import Markup

from bullpen.doors.actions.changes import Changes
from bullpen.doors.web.member_records import MemberRecord
from bullpen.doors.web.render_piece import PieceRenderer, Pieces
from bullpen.doors.web.shown_request import shown_request
from bullpen.errors import NotFound
from bullpen.protocol.names import EVERYBODY, LEAD
from bullpen.protocol.record.note import in_order
from bullpen.view import sentences
from bullpen.view.cards import MemberCard, TaskCard
from bullpen.view.diff import total
from bullpen.view.drawings.graph import critical_path, graph_of
from bullpen.view.drawings.svg import gantt_svg, graph_svg, spend_svg
from bullpen.view.scene import AskCard, Scene
from bullpen.view.story import Said, Story
from bullpen.view.task_state import FINISHED, TASK_STATES

COLUMN_MAX = 50
"""How many tasks of a state the board shows, unless all are asked for."""

MESSAGES_MAX = 200
GRAPH_MAX = 250

_NEWS = 25
_ASKS = 1
_TODO = 40
_FILES_MAX = 300


@dataclass(frozen=True, slots=True)
class PageView:
    """A team as one visitor sees it."""

    scene: Scene
    story: Story
    act: bool
    # The parameters of the address.
    query: Mapping[str, str]
    # What the member that the page is about said; None if there is no record on this machine.
    record: MemberRecord | None = None
    # What the member or task that the page is about changed.
    changes: Changes | None = None
    is_replay: bool = False

    def shows_the_same(self, other: PageView | None) -> bool:
        """Whether this is another look at the same things."""
        return (
            other is not None
            and self.scene is other.scene
            and self.record is other.record
            and self.changes is other.changes
        )

    @property
    def chosen(self) -> MemberCard | None:
        """The member that the page is about; on the overview the lead if nobody was chosen."""
        cards = self.scene.members
        wanted = self.query.get("member") or self.query.get("name")
        if wanted is not None:
            return next((card for card in cards if card.name == wanted), None)
        agents = [card for card in cards if card.driver is not None]
        return next((card for card in agents if card.lead), next(iter(agents), None))

    @property
    def mode(self) -> str | None:
        """The permission mode of the chosen member, if it is an agent."""
        member = None if self.chosen is None else self.story.members.get(self.chosen.name)
        return None if member is None or member.agent is None else member.agent.mode

    @property
    def people(self) -> Sequence[MemberCard]:
        """The members that a person can write to: all but the person."""
        shown = self.story.shown_name
        return [card for card in self.scene.members if shown(card.name) != "you"]

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
        renderer.show_colors({card.name: card.color for card in view.scene.members})

    @cached_property
    def tasks(self) -> Mapping[str, TaskCard]:
        """The tasks by id."""
        return {card.id: card for card in self.scene.tasks}

    @cached_property
    def asked(self) -> Mapping[str, AskCard]:
        """The oldest request of each member who waits."""
        return {card.sender: card for card in reversed(self.scene.asks)}

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
        self.single(
            "head", "head", (*about, scene.total, scene.limits.usd, scene.verdict, scene.result)
        )
        if not self.view.is_replay:
            last = scene.asks[-1] if scene.asks else None
            asked = "" if last is None else f"{last.sender} asks: {last.about[:200]}"
            self.single("waits", "waits", (len(scene.asks), asked))
            self.single("problems", "problems", (scene.problems,))

    def members(self) -> None:
        cards = {f"member-{card.name}": (card,) for card in self.scene.members}
        self.listed("members", "member_row", cards)

    def asks(self, asks: Iterable[AskCard], *, prefix: str, back: str) -> None:
        """Add requests with the forms that answer them."""
        requests = self.story.requests
        rows = {
            f"{prefix}-{card.id}": (shown_request(card, requests.get(card.id), back=back),)
            for card in asks
        }
        self.listed("asks", "ask", rows, act=self.view.act)

    def member_head(self, card: MemberCard, tab: str) -> None:
        """Add who a page is about, what they do, and the other pages about them."""
        shown = (card.name, card.lead, card.state, card.since_ms, card.tasks[:3])
        self.single("chosen", "member_head", (*shown, _doing(self, card), tab))

    def stream(self, name: str) -> None:
        """Add what a member says and does."""
        record = self.view.record
        items = () if record is None else record.items
        self.listed("stream", "stream_item", {f"item-{item.key}": (item,) for item in items})
        words = (
            f"There is no record of {self.story.shown_name(name)} on this machine. "
            "The agent runs elsewhere, or has not started yet."
            if record is None
            else "Nothing was said yet. Write a message to begin."
        )
        self.empty("no-stream", words, unless=items or not name)

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
    scene, chosen = page.scene, page.view.chosen
    name = "" if chosen is None else chosen.name
    rows = {
        f"team-{card.name}": (
            *(card.name, card.lead, card.state, card.name == name),
            _doing(page, card),
        )
        for card in scene.members
    }
    page.listed("team", "team_member", rows)
    todo = _todo(scene.tasks)
    page.listed("todo", "todo_item", {f"todo-{card.id}": (card,) for card in todo})
    page.single("more-todo", "more_todo", (len(scene.tasks) - len(todo), len(scene.tasks)))
    page.asks(scene.asks[:_ASKS], prefix="now", back="/")
    page.single("more-asks", "more_asks", (max(0, len(scene.asks) - _ASKS),))
    if chosen is None:
        page.single("chosen", "nobody", ())
    else:
        page.member_head(chosen, "stream")
    page.stream(name)
    page.news()


def _tasks(page: _Page) -> None:
    page.board()
    every = page.scene.tasks
    shown = every if page.query.get("graph") == "all" else _for_graph(every)
    page.single("graph", "graph", _GraphOf(shown, every))


def _messages_page(page: _Page) -> None:
    found = page.messages(page.query, MESSAGES_MAX)
    page.empty("no-letters", "No messages match. Clear the filters to see all.", unless=found)


def _notes(page: _Page) -> None:
    notes = in_order(page.story.notes)
    page.listed("notes", "note", {f"note-{note.name}": (note,) for note in notes})
    words = "The team has no notes yet. Its lead keeps the plan in the note `plan`."
    page.empty("no-notes", words, unless=notes)


def _waiting(page: _Page) -> None:
    asks = page.scene.asks
    page.asks(asks, prefix="ask", back="/waiting")
    words = "No requests are waiting. Agents ask here before they do what their mode forbids."
    page.empty("no-asks", words, unless=asks)


def _member_of(page: _Page) -> MemberCard:
    card = page.view.chosen
    if card is None:
        name = page.query.get("name") or page.query.get("member", "")
        raise NotFound(
            f"There is no member {name!r}.",
            remedy="Open the overview to see all members.",
        )
    return card


def _member(page: _Page) -> None:
    card = _member_of(page)
    page.member_head(card, "about")
    page.single("member", "member_card", (card,))
    page.stream(card.name)
    page.messages({"with": card.name, "notices": "yes"}, 30)


def _transcript(page: _Page) -> None:
    card = _member_of(page)
    page.member_head(card, "transcript")
    rows = () if page.view.record is None else page.view.record.rows
    shown = {f"row-{row.number}": (row.time, row.kind, row.style, row.text) for row in rows}
    page.listed("rows", "row", shown)
    page.empty("no-rows", f"There is no transcript of {card.name} on this machine.", unless=rows)


def _changes(page: _Page) -> None:
    changes, to = page.view.changes, page.query.get("member", "")
    if task_id := page.query.get("task"):
        task = _task_of(page, task_id)
        to = to or task.by or task.owner or ""
        page.single("chosen", "task_head", (task, "changes"))
    else:
        page.member_head(_member_of(page), "changes")
    files = () if changes is None else changes.files
    shown = files[:_FILES_MAX]
    names = [
        hashlib.sha256(file.path.encode("utf-8", "replace")).hexdigest()[:12] for file in files
    ]
    added, removed = total(files)
    note = "" if changes is None else changes.note
    summary = (len(files), added, removed, None if changes is None else changes.base, note)
    page.single("changed", "changed", (*summary, len(files) - len(shown)))
    rows = list(zip(names, shown, strict=False))
    page.listed("tree", "file_link", {f"tree-{name}": (name, file) for name, file in rows})
    page.listed(
        "files",
        "file_diff",
        {f"file-{name}": (file, to, _address(page.query)) for name, file in rows},
        act=page.view.act and bool(to),
    )
    page.empty("no-files", "" if note else "There are no changes.", unless=files)


def _task_of(page: _Page, wanted: str) -> TaskCard:
    card = page.tasks.get(wanted)
    if card is None:
        raise NotFound(f"There is no task {wanted!r}.", remedy="Open the board to see all tasks.")
    return card


def _task(page: _Page) -> None:
    card = _task_of(page, page.query.get("id", ""))
    page.single("chosen", "task_head", (card, "about"))
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
    "notes": _notes,
    "waiting": _waiting,
    "member": _member,
    "transcript": _transcript,
    "changes": _changes,
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


def _todo(cards: Sequence[TaskCard]) -> Sequence[TaskCard]:
    """The tasks for a narrow list: those at work first, then open ones, then the last finished."""
    order = {state: place for place, state in enumerate(TASK_STATES)}
    rest = sorted(
        (card for card in cards if card.state not in FINISHED), key=lambda card: order[card.state]
    )
    done = [card for card in cards if card.state in FINISHED][::-1]
    return [*rest, *done][:_TODO]


def _doing(page: _Page, card: MemberCard) -> str:
    """What a member does, in one line."""
    if page.story.shown_name(card.name) == "you":
        return "you lead this team"
    if (asked := page.asked.get(card.name)) is not None:
        return f"asks: {asked.about[:200]}"
    first = page.tasks.get(card.tasks[0]) if card.tasks else None
    about = "" if first is None else f"#{first.id} {first.activity or first.subject}"
    return ": ".join(part for part in (about, card.detail) if part) or card.state


def _address(query: Mapping[str, str]) -> str:
    return f"/changes?{urlencode(query, errors='replace')}"


def _task_address(task_id: str) -> str:
    return f"/task?{urlencode({'id': task_id}, errors='replace')}"
