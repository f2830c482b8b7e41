"""Renders the pieces of pages with templates, each piece once for all visitors.

A piece is rendered again only if its values changed. CSRF tokens differ by session, so pieces hold
a placeholder that nobody can guess.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from bullpen.doors.web import markdown
from bullpen.protocol.names import COLORS, LEAD
from bullpen.protocol.policy import MODES
from bullpen.view import agent_words
from bullpen.view.news import sender_of
from bullpen.view.task_state import TASK_STATES, state_word
from bullpen.view.text import visible

_DRAWN_MAX = 20_000
_TEMPLATES = ("pieces.html", "requests.html", "work.html")


@dataclass(slots=True)
class Pieces:
    """The pieces of a page by id: single ones, and lists by the id of the list."""

    singles: dict[str, str] = field(default_factory=dict)
    lists: dict[str, dict[str, str]] = field(default_factory=dict)

    def single(self, name: str) -> Markup:
        return Markup(self.singles[name])  # noqa: S704

    def listed(self, name: str) -> Markup:
        return Markup("").join(map(Markup, self.lists[name].values()))


class PieceRenderer:
    """Renders pieces and caches them."""

    def __init__(self) -> None:
        self._lead = LEAD
        self._colors: dict[str, str] = {}
        self._env = Environment(
            loader=PackageLoader("bullpen.doors.web"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            # Control characters in the text of members are shown as escapes.
            finalize=_shown,
        )
        filters: dict[str, Callable[..., object]] = {
            "sender": sender_of,
            "clock": lambda at_ms: _local(at_ms, "%H:%M:%S"),
            "moment": lambda at_ms: _local(at_ms, "%Y-%m-%d %H:%M:%S"),
            "amount": agent_words.count,
            "money": agent_words.money,
            "color": lambda name: self._colors.get(name, "none"),
            "words": state_word,
            "shown": lambda name: self._lead if name == LEAD else name,
            "query": lambda given: urlencode(given, errors="replace"),
            "markdown": markdown.rendered,
        }
        self._env.filters |= filters
        self._env.globals |= {"task_states": TASK_STATES, "modes": MODES}
        modules = [self._env.get_template(name).module for name in _TEMPLATES]
        self._macros = {name: macro for each in modules for name, macro in vars(each).items()}
        self._drawn: dict[tuple[str, str, bool], tuple[object, str]] = {}
        self._mark = f"csrf-{secrets.token_hex(16)}"

    def show_lead_as(self, name: str) -> None:
        if name != self._lead:
            self._lead = name
            self._drawn.clear()

    def show_colors(self, colors: Mapping[str, str | None]) -> None:
        """Show members in their colours. A new member changes no piece that was drawn before."""
        known = {name: color for name, color in colors.items() if color in COLORS}
        if any(known.get(name, color) != color for name, color in self._colors.items()):
            self._drawn.clear()
        self._colors |= known

    def piece(self, kind: str, piece_id: str, shows: Iterable[object], *, act: bool = False) -> str:
        """A piece of a page. `shows` is everything that it depends on."""
        place = (kind, piece_id, act)
        known = self._drawn.get(place)
        if known is not None and known[0] == shows:
            return known[1]
        drawn = str(self._macros[kind](piece_id, *shows, self._mark if act else None))
        if len(self._drawn) >= _DRAWN_MAX:
            self._drawn.clear()
        self._drawn[place] = (shows, drawn)
        return drawn

    def page(self, template: str, *, csrf: str | None, **values: Any) -> str:
        act = csrf is not None
        drawn = self._env.get_template(template).render(csrf=self._mark if act else None, **values)
        return self.signed(drawn, csrf)

    def signed(self, drawn: str, csrf: str | None) -> str:
        """What was rendered, with the CSRF token of one session in its forms."""
        return drawn if csrf is None else drawn.replace(self._mark, csrf)


class SentPieces:
    """What one browser was sent, so that an update holds only what changed."""

    def __init__(self) -> None:
        self._pieces: dict[str, int] = {}
        self._orders: dict[str, tuple[str, ...]] = {}

    def update(self, page: Pieces) -> dict[str, Any] | None:
        """What to send so that the browser shows this page; None if nothing changed."""
        pieces = dict(page.singles)
        for listed in page.lists.values():
            pieces |= listed
        hashes = {name: hash(drawn) for name, drawn in pieces.items()}
        changed = {
            name: drawn for name, drawn in pieces.items() if self._pieces.get(name) != hashes[name]
        }
        gone = [name for name in self._pieces if name not in pieces]
        orders = {name: tuple(listed) for name, listed in page.lists.items()}
        moved = {name: order for name, order in orders.items() if self._orders.get(name) != order}
        self._pieces, self._orders = hashes, orders
        if not (changed or gone or moved):
            return None
        return {"set": changed, "gone": gone, "order": moved}


def as_json(update: Mapping[str, Any]) -> str:
    # Lone surrogates were escaped before, so that all of it can be encoded.
    return json.dumps(update, ensure_ascii=False, separators=(",", ":"))


def _shown(value: object) -> object:
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _local(at_ms: float | None, form: str) -> str:
    if at_ms is None:
        return ""
    try:
        return datetime.fromtimestamp(at_ms / 1000).astimezone().strftime(form)
    except (ValueError, OverflowError, OSError):
        return "?"
