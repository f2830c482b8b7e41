"""Drawing pieces of pages with templates: each piece once, for whoever is to see it.

A piece is drawn again only if what it shows is not what it showed. The proof that a form came
from a page of ours differs by session, so pieces hold a mark in its place that nobody can guess.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from bullpen.protocol.names import COLORS
from bullpen.view import agent_words
from bullpen.view.text import visible

_DRAWN_MAX = 20_000


@dataclass(slots=True)
class Picture:
    """The pieces of a page: those that stand alone by id, and lists of them by the list's id."""

    singles: dict[str, str] = field(default_factory=dict)
    lists: dict[str, dict[str, str]] = field(default_factory=dict)

    def single(self, name: str) -> Markup:
        """A piece, for a template."""
        return Markup(self.singles[name])  # noqa: S704

    def listed(self, name: str) -> Markup:
        """The pieces of a list, for a template."""
        return Markup("").join(map(Markup, self.lists[name].values()))


class Pen:
    """Draws pieces, and remembers what it drew."""

    def __init__(self) -> None:
        self._env = Environment(
            loader=PackageLoader("bullpen.web"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            # Whatever a member wrote shows what would steer the text around it.
            finalize=_shown,
        )
        self._env.filters |= {
            "clock": _clock,
            "moment": _moment,
            "amount": agent_words.count,
            "money": agent_words.money,
            "color": lambda name: name if name in COLORS else "none",
            "words": lambda state: state.replace("_", " "),
            "query": lambda given: urlencode(given, errors="replace"),
        }
        self._pieces = self._env.get_template("pieces.html").module
        self._drawn: dict[tuple[str, str, bool], tuple[object, str]] = {}
        self._mark = f"csrf-{secrets.token_hex(16)}"

    def piece(self, kind: str, piece_id: str, shows: Iterable[object], *, act: bool = False) -> str:
        """A piece of a page. `shows` is all that it depends on."""
        place = (kind, piece_id, act)
        known = self._drawn.get(place)
        if known is not None and known[0] == shows:
            return known[1]
        drawn = str(getattr(self._pieces, kind)(piece_id, *shows, self._mark if act else None))
        if len(self._drawn) >= _DRAWN_MAX:
            self._drawn.clear()
        self._drawn[place] = (shows, drawn)
        return drawn

    def page(self, template: str, *, csrf: str | None, **values: Any) -> str:
        """A whole page for a session."""
        act = csrf is not None
        drawn = self._env.get_template(template).render(csrf=self._mark if act else None, **values)
        return self.signed(drawn, csrf)

    def signed(self, drawn: str, csrf: str | None) -> str:
        """What was drawn, with the proof of one session in its forms."""
        return drawn if csrf is None else drawn.replace(self._mark, csrf)


class Sent:
    """What one browser was sent: by it the next picture becomes no more than what changed."""

    def __init__(self) -> None:
        self._pieces: dict[str, int] = {}
        self._orders: dict[str, tuple[str, ...]] = {}

    def update(self, picture: Picture) -> dict[str, Any] | None:
        """What to send so that the browser shows this picture; None if it does."""
        pieces = dict(picture.singles)
        for listed in picture.lists.values():
            pieces |= listed
        hashes = {name: hash(drawn) for name, drawn in pieces.items()}
        changed = {
            name: drawn for name, drawn in pieces.items() if self._pieces.get(name) != hashes[name]
        }
        gone = [name for name in self._pieces if name not in pieces]
        orders = {name: tuple(listed) for name, listed in picture.lists.items()}
        moved = {name: order for name, order in orders.items() if self._orders.get(name) != order}
        self._pieces, self._orders = hashes, orders
        if not (changed or gone or moved):
            return None
        return {"set": changed, "gone": gone, "order": moved}


def as_json(update: Mapping[str, Any]) -> str:
    """An update as one line."""
    # Lone surrogates were made visible, so that all of it can be encoded.
    return json.dumps(update, ensure_ascii=False, separators=(",", ":"))


def _shown(value: object) -> object:
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _clock(at_ms: float | None) -> str:
    return "" if at_ms is None else _local(at_ms, "%H:%M:%S")


def _moment(at_ms: float | None) -> str:
    return "" if at_ms is None else _local(at_ms, "%Y-%m-%d %H:%M:%S")


def _local(at_ms: float, form: str) -> str:
    try:
        return datetime.fromtimestamp(at_ms / 1000).astimezone().strftime(form)
    except (ValueError, OverflowError, OSError):
        return "?"
