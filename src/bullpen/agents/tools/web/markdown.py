"""A web page as Markdown: its main content, without scripts, navigation and hidden text. Pure.

It needs no tree of the page: libraries for this recurse into one, which a page can make as deep as
it likes.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from urllib.parse import urljoin

from bullpen.agents.tools.web.html_tokens import Tag, tokens_of

PARSE_S = 4.0
"""A page that takes longer to parse is cut."""

_AT_ONCE = 500
_MAIN_CHARS_MIN = 200
_NESTING_MAX = 8

_NEVER = frozenset(
    """
    script style noscript template svg math iframe object canvas audio video select button textarea
    datalist dialog
    """.split()  # noqa: SIM905 - one name a line would fill the page
)
_AROUND = frozenset(["nav", "footer", "aside"])
_VOID = frozenset(
    "area base br col embed hr img input link meta param source track wbr".split()  # noqa: SIM905
)
# Elements that must be closed, so that one with hidden text has a known end.
_CLOSED = frozenset("div span section article main header ul ol table form a".split())  # noqa: SIM905
_BLOCKS = frozenset(
    """
    address article blockquote body center dd details div dl dt fieldset figcaption figure form
    header hgroup legend main ol p section summary table ul
    """.split()  # noqa: SIM905 - one name a line would fill the page
)
_HEADINGS = {f"h{level}": "#" * level for level in range(1, 7)}
_HIDDEN = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_SPACE = re.compile(r"[ \t\n\r\f\v]+")
_EMPTY_LINES = re.compile(r"\n{3,}")


@dataclass(frozen=True, slots=True)
class Page:
    """A page in Markdown. `cut` says that there is more."""

    title: str
    text: str
    cut: bool = False


def markdown_of(html: str, base: str, chars_max: int) -> Page:
    """A page as Markdown, with links relative to `base`, and at most about so many characters."""
    page = _parsed(html, base, chars_max, without=_NEVER | _AROUND)
    # Some pages are in one element that we leave out, or forget to close one.
    return page if page.text else _parsed(html, base, chars_max, without=_NEVER)


def _parsed(html: str, base: str, chars_max: int, *, without: frozenset[str]) -> Page:
    reader = _Reader(base, chars_max, without)
    until = time.monotonic() + PARSE_S
    tokens, cut = tokens_of(html), False
    while some := list(islice(tokens, _AT_ONCE)):
        for token in some:
            reader.read(token)
        if reader.full or time.monotonic() > until:
            cut = True
            break
    reader.end()
    text = reader.text
    return Page(reader.title.strip(), text[:chars_max], cut or len(text) > chars_max)


@dataclass(slots=True)
class _Written:
    """Text as it is written; `size` bounds it."""

    parts: list[str] = field(default_factory=list)
    size: int = 0

    def add(self, text: str) -> None:
        self.parts.append(text)
        self.size += len(text)

    @property
    def text(self) -> str:
        return _EMPTY_LINES.sub("\n\n", "".join(self.parts)).strip()


class _Reader:
    """Writes Markdown while it reads tags."""

    def __init__(self, base: str, chars_max: int, without: frozenset[str]) -> None:
        self.title = ""
        self._base = base
        self._chars_max = chars_max
        self._without = without
        self._all, self._main = _Written(), _Written()
        self._in_main = 0
        # The element that is left out, and how many of its name are open inside it.
        self._skips: tuple[str, int] | None = None
        self._in_title = False
        self._pre = 0
        self._lists: list[int | None] = []
        self._quotes = 0
        self._cells: list[str] | None = None
        self._rows = 0
        self._line: list[str] = []
        self._prefix = ""
        # The links that are open: where their text begins, and where they lead.
        self._links: list[tuple[int, str]] = []

    @property
    def text(self) -> str:
        """The main content if the page marks it, else everything."""
        main = self._main.text
        return main if len(main) >= _MAIN_CHARS_MIN else self._all.text

    @property
    def full(self) -> bool:
        """Whether there is enough text."""
        return self._main.size > self._chars_max or self._all.size > 4 * self._chars_max

    def read(self, token: Tag | str) -> None:
        """Take the next tag or text of the page."""
        if isinstance(token, str):
            self._text(token)
        elif token.ends:
            self._end(token.name)
        else:
            self._begin(token.name, token.attributes)

    def _begin(self, tag: str, given: Mapping[str, str]) -> None:
        if self._skips is not None:
            name, depth = self._skips
            self._skips = (name, depth + (tag == name))
            return
        if tag in self._without or _is_hidden(tag, given):
            if tag not in _VOID:
                self._skips = (tag, 1)
            return
        if tag == "title":
            self._in_title = True
        elif tag in ("main", "article"):
            self.end_block()
            self._in_main += 1
        elif tag == "a":
            # Links do not nest.
            self._end("a")
            self._links.append((len(self._line), given.get("href", "")))
        elif tag == "img" and (alt := given.get("alt", "").strip()):
            source = self._whole(given.get("src", ""))
            self._line.append(f"![{_flat(alt)}]({source or ''})")
        elif tag == "code" and not self._pre:
            self._line.append("`")
        elif tag == "br":
            self._line.append("\n")
        else:
            self._begin_block(tag)

    def _end(self, tag: str) -> None:
        if self._skips is not None:
            name, depth = self._skips
            depth -= tag == name
            self._skips = (name, depth) if depth else None
            return
        if tag == "title":
            self._in_title = False
        elif tag in ("main", "article"):
            self.end_block()
            self._in_main = max(self._in_main - 1, 0)
        elif tag == "a" and self._links:
            self._end_link(*self._links.pop())
        elif tag == "code" and not self._pre:
            self._line.append("`")
        elif tag in ("ul", "ol"):
            self.end_block()
            if self._lists:
                self._lists.pop()
        elif tag == "pre":
            self._end_pre()
        elif tag in ("tr", "tbody", "thead", "tfoot"):
            self._end_row()
        elif tag == "table":
            # What follows is not in its last row, even if that was not closed.
            self._end_row()
            self.end_block()
        elif tag == "blockquote":
            self.end_block()
            self._quotes = max(self._quotes - 1, 0)
        elif tag in _BLOCKS or tag in _HEADINGS:
            self.end_block()

    def _text(self, data: str) -> None:
        if self._skips is not None:
            return
        if self._in_title:
            self.title = _flat(self.title + data)[:300]
        elif self._pre:
            self._line.append(data)
        else:
            self._line.append(_SPACE.sub(" ", data))

    def _begin_block(self, tag: str) -> None:
        if tag in _HEADINGS:
            self.end_block()
            self._prefix = f"{_HEADINGS[tag]} "
        elif tag in ("ul", "ol"):
            self.end_block(tight=bool(self._lists))
            self._lists.append(0 if tag == "ol" else None)
        elif tag == "li":
            self._begin_item()
        elif tag == "pre":
            self.end_block()
            self._pre += 1
        elif tag == "blockquote":
            self.end_block()
            self._quotes += 1
        elif tag == "hr":
            self.end_block()
            self._write("---\n\n")
        elif tag == "table":
            self.end_block()
            self._rows = 0
        elif tag == "tr":
            self._end_row()
            self._cells = []
        elif tag in ("td", "th"):
            self._end_cell()
        elif tag in _BLOCKS and self._cells is None:
            self.end_block()

    def _begin_item(self) -> None:
        self.end_block(tight=True)
        number = self._lists[-1] if self._lists else None
        if number is not None:
            self._lists[-1] = number + 1
        sign = "-" if number is None else f"{number + 1}."
        self._prefix = f"{'  ' * min(max(len(self._lists) - 1, 0), _NESTING_MAX)}{sign} "

    def _end_link(self, start: int, href: str) -> None:
        text = _flat("".join(self._line[start:]))
        leads = href.strip()
        if not text or not leads or leads.lower().startswith(("#", "javascript:", "data:")):
            return
        whole = self._whole(leads)
        if whole is not None:
            self._line[start:] = [f"[{text}]({whole})"]

    def _whole(self, address: str) -> str | None:
        """An absolute address without blanks; None if it is not one."""
        try:
            return _SPACE.sub("%20", urljoin(self._base, address.strip()))
        except ValueError:
            return None

    def _end_pre(self) -> None:
        if not self._pre:
            return
        self._pre -= 1
        if not self._pre:
            code = "".join(self._line).strip("\n")
            self._line.clear()
            self._write(f"```\n{code}\n```\n\n")

    def _end_cell(self) -> None:
        if self._cells is not None:
            text = _flat("".join(self._line))
            self._cells.append(text.replace("|", "\\|"))
            self._line.clear()
            self._links.clear()
            # Headings and items are just text in a cell.
            self._prefix = ""

    def _end_row(self) -> None:
        if self._cells is None:
            return
        self._end_cell()
        # The first is what stood before the first cell.
        cells, self._cells = self._cells[1:], None
        if any(cells):
            self._rows += 1
            rule = f"|{' --- |' * len(cells)}\n" if self._rows == 1 else ""
            self._write(f"| {' | '.join(cells)} |\n{rule}")

    def end(self) -> None:
        """Write what is left. A page need not close its last row."""
        self._end_row()
        self.end_block()

    def end_block(self, *, tight: bool = False) -> None:
        """Write what is in the line as a block of its own."""
        if self._cells is not None:
            return
        lines = [_flat(line) for line in "".join(self._line).split("\n")]
        text = "\n".join(line for line in lines if line)
        self._line.clear()
        self._links.clear()
        if text:
            quote = "> " * min(self._quotes, _NESTING_MAX)
            indent = quote + " " * len(self._prefix)
            body = text.replace("\n", f"\n{indent}")
            end = "" if self._lists else "\n"
            self._write(f"{quote}{self._prefix}{body}\n{end}")
            self._prefix = ""
        elif not tight and not self._lists:
            self._write("\n")

    def _write(self, text: str) -> None:
        self._all.add(text)
        if self._in_main:
            self._main.add(text)


def _is_hidden(tag: str, given: Mapping[str, str]) -> bool:
    if tag not in _CLOSED:
        return False
    hidden = "hidden" in given or given.get("aria-hidden") == "true"
    return hidden or _HIDDEN.search(given.get("style", "")) is not None


def _flat(text: str) -> str:
    return _SPACE.sub(" ", text).strip()
