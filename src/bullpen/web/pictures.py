"""What each page shows of a team, as pieces. The same pieces make the page and its updates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any
from urllib.parse import urlencode

from markupsafe import Markup

from bullpen.errors import NotFound
from bullpen.protocol.names import EVERYBODY
from bullpen.protocol.policy import MODES
from bullpen.view import sentences
from bullpen.view.acts import shown_input
from bullpen.view.drawing import gantt_svg, graph_svg, spend_svg
from bullpen.view.graph import critical_path, graph_of
from bullpen.view.scene import TASK_STATES, AskCard, MemberCard, Scene, TaskCard
from bullpen.view.story import Said, Story
from bullpen.web.pen import Pen, Picture
from bullpen.web.transcripts import Row

COLUMN_MAX = 50
"""How many tasks of a state a board shows, unless somebody wants all."""

LETTERS = 200
GRAPH_MAX = 250

_NEWS = 25
_ASKS = 8
_ROWS_MAX = 24


@dataclass(frozen=True, slots=True)
class Sight:
    """A team as somebody looks at it: what they may do, and what they want to see."""

    scene: Scene
    story: Story
    act: bool
    # What the address asks for.
    wants: Mapping[str, str]
    # The transcript of the member that the page is about; None if there is none here.
    rows: Sequence[Row] | None = None
    # Whether it is the team's past.
    past: bool = False


def overview(pen: Pen, sight: Sight) -> Picture:
    """Who is there and does what, what waits, what happened."""
    picture = _common(pen, sight)
    picture.lists["members"] = _members(pen, sight.scene.members)
    picture.lists["asks"] = {
        f"ask-line-{card.id}": pen.piece("ask_line", f"ask-line-{card.id}", (card,))
        for card in sight.scene.asks[:_ASKS]
    }
    picture.lists["news"] = _news(pen, sight.story)
    return picture


def tasks(pen: Pen, sight: Sight) -> Picture:
    """The board and the graph."""
    picture = _common(pen, sight)
    _board(pen, sight, picture)
    shown: Sequence[TaskCard] = sight.scene.tasks
    if sight.wants.get("graph") != "all":
        shown = _for_graph(shown)
    picture.singles["graph"] = pen.piece("graph", "graph", _GraphOf(shown, sight.scene.tasks))
    return picture


def messages(pen: Pen, sight: Sight) -> Picture:
    """Who said what to whom, the newest first."""
    picture = _common(pen, sight)
    found = list(islice(_letters(sight.story, sight.wants), LETTERS))
    picture.lists["letters"] = _drawn_letters(pen, found, sight.story)
    words = "" if found else "No messages like that."
    picture.singles["no-letters"] = pen.piece("empty", "no-letters", (words,))
    return picture


def older(sight: Sight, picture: Picture) -> str | None:
    """The address of the messages before those of a picture; None if there are none."""
    shown = picture.lists["letters"]
    if len(shown) < LETTERS:
        return None
    before = list(shown)[-1].removeprefix("letter-")
    return f"/messages?{urlencode({**sight.wants, 'before': before}, errors='replace')}"


def waiting(pen: Pen, sight: Sight) -> Picture:
    """What waits for an answer, with all it takes to give one."""
    picture = _common(pen, sight)
    asks = sight.scene.asks
    picture.lists["asks"] = {
        f"ask-{card.id}": pen.piece("ask", f"ask-{card.id}", _ask(card), act=sight.act)
        for card in asks
    }
    words = "" if asks else "Nothing waits for an answer."
    picture.singles["no-asks"] = pen.piece("empty", "no-asks", (words,))
    return picture


def member(pen: Pen, sight: Sight) -> Picture:
    """One member: what it does, its transcript as it grows, its mail. Raises NotFound."""
    name = sight.wants.get("name", "")
    card = next((each for each in sight.scene.members if each.name == name), None)
    if card is None:
        raise NotFound(f"There is no member {name!r}.", remedy="See who is there on the overview.")
    picture = _common(pen, sight)
    picture.singles["member"] = pen.piece("member_card", "member", (card,))
    rows = sight.rows or ()
    picture.lists["rows"] = {
        f"row-{row.number}": pen.piece(
            "row", f"row-{row.number}", (row.time, row.kind, row.style, row.text)
        )
        for row in rows
    }
    words = "" if rows else "There is no transcript of it on this machine."
    picture.singles["no-rows"] = pen.piece("empty", "no-rows", (words,))
    mail = islice(_letters(sight.story, {"with": name, "notices": "yes"}), 30)
    picture.lists["letters"] = _drawn_letters(pen, list(mail), sight.story)
    return picture


def task(pen: Pen, sight: Sight) -> Picture:
    """One task. Raises NotFound."""
    wanted = sight.wants.get("id", "")
    card = next((each for each in sight.scene.tasks if each.id == wanted), None)
    if card is None:
        raise NotFound(f"There is no task {wanted!r}.", remedy="See the board.")
    picture = _common(pen, sight)
    picture.singles["task"] = pen.piece("task_whole", "task", (card,))
    return picture


def timeline(pen: Pen, sight: Sight) -> Picture:
    """Who was in which state when, and what it cost."""
    picture = _common(pen, sight)
    _times(pen, sight, picture)
    return picture


def replay(pen: Pen, sight: Sight) -> Picture:
    """The whole team as it was."""
    picture = _common(pen, sight)
    picture.lists["members"] = _members(pen, sight.scene.members)
    _board(pen, sight, picture)
    _times(pen, sight, picture)
    picture.lists["news"] = _news(pen, sight.story)
    letters = list(islice(_letters(sight.story, {}), 20))
    picture.lists["letters"] = _drawn_letters(pen, letters, sight.story)
    return picture


PAGES: dict[str, Callable[[Pen, Sight], Picture]] = {
    "overview": overview,
    "tasks": tasks,
    "messages": messages,
    "waiting": waiting,
    "member": member,
    "task": task,
    "timeline": timeline,
}


class _GraphOf:
    """A graph that is laid out and drawn only if its tasks are not those it was drawn of."""

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


def _common(pen: Pen, sight: Sight) -> Picture:
    scene = sight.scene
    counts = dict.fromkeys(TASK_STATES, 0)
    for each in scene.tasks:
        counts[each.state] += 1
    about = (scene.team, scene.description, counts, len(scene.tasks), scene.total)
    picture = Picture()
    picture.singles["head"] = pen.piece("head", "head", (*about, scene.limits.usd, scene.result))
    if not sight.past:
        picture.singles["waits"] = pen.piece("waits", "waits", (len(scene.asks),))
        picture.singles["problems"] = pen.piece("problems", "problems", (scene.problems,))
    return picture


def _members(pen: Pen, cards: Sequence[MemberCard]) -> dict[str, str]:
    return {
        f"member-{card.name}": pen.piece("member_row", f"member-{card.name}", (card,))
        for card in cards
    }


def _news(pen: Pen, story: Story) -> dict[str, str]:
    last = story.told[-_NEWS:]
    before = len(story.told) - len(last)
    named = {f"news-{before + number}": happened for number, happened in enumerate(last)}
    return {name: pen.piece("told", name, (named[name],)) for name in reversed(named)}


def _board(pen: Pen, sight: Sight, picture: Picture) -> None:
    by_state: dict[str, list[TaskCard]] = {state: [] for state in TASK_STATES}
    for card in sight.scene.tasks:
        by_state[card.state].append(card)
    for state, cards in by_state.items():
        whole = sight.wants.get("all") == state and not sight.past
        # What was done last says more than what was done first.
        shown = cards if whole else cards[-COLUMN_MAX:] if state == "done" else cards[:COLUMN_MAX]
        hidden = 0 if sight.past else len(cards) - len(shown)
        picture.singles[f"head-{state}"] = pen.piece(
            "column", f"head-{state}", (state, len(cards), hidden, f"/tasks?all={state}")
        )
        picture.lists[f"column-{state}"] = {
            f"task-{card.id}": pen.piece("task_card", f"task-{card.id}", (card,)) for card in shown
        }


def _times(pen: Pen, sight: Sight, picture: Picture) -> None:
    scene, story = sight.scene, sight.story
    now = scene.at_ms
    names = sorted(story.spans, key=lambda name: name not in story.members)
    gantt = Markup(gantt_svg(story, names=names, now_ms=now))  # noqa: S704
    spend = Markup(spend_svg(story.spending, now_ms=now))  # noqa: S704
    picture.singles["gantt"] = pen.piece("drawing", "gantt", ("States over time", gantt))
    picture.singles["spend"] = pen.piece("drawing", "spend", ("Spend over time", spend))


def _letters(story: Story, wants: Mapping[str, str]) -> Iterable[tuple[int, Said]]:
    """Messages that fit, the newest first, each with its place in the story."""
    sender, to, either = wants.get("from"), wants.get("to"), wants.get("with")
    words, before = wants.get("text", "").casefold(), wants.get("before", "")
    last = int(before) if before.isascii() and before.isdigit() else len(story.said)
    for place in range(min(last, len(story.said)) - 1, -1, -1):
        said = story.said[place]
        if said.kind is not None and not wants.get("notices"):
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


def _drawn_letters(pen: Pen, found: Sequence[tuple[int, Said]], story: Story) -> dict[str, str]:
    drawn = {}
    for place, said in found:
        name = f"letter-{place}"
        shows = (said, sentences.body(said.message), story.delivery(said))
        drawn[name] = pen.piece("letter", name, shows)
    return drawn


def _for_graph(cards: Sequence[TaskCard]) -> Sequence[TaskCard]:
    """As many as one can look at: what is not done, then what was done last."""
    if len(cards) <= GRAPH_MAX:
        return cards
    is_open = [card for card in cards if card.state != "done"][:GRAPH_MAX]
    room = GRAPH_MAX - len(is_open)
    done = [card for card in cards if card.state == "done"][-room:] if room else []
    kept = {card.id for card in (*is_open, *done)}
    return [card for card in cards if card.id in kept]


def _ask(card: AskCard) -> tuple[AskCard, dict[str, Any]]:
    text = None if card.input is None else shown_input(card.input)
    rows = min(_ROWS_MAX, 2 + (text or "").count("\n"))
    return card, {"input": text, "rows": rows, "modes": MODES}


def _task_address(task_id: str) -> str:
    return f"/task?{urlencode({'id': task_id}, errors='replace')}"
