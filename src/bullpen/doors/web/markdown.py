"""Renders the Markdown that agents write as HTML that cannot link to, load or run anything."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

from bullpen.view.text import visible

RENDERED_MAX = 50_000
"""Longer texts are shown as they are."""

_HEADINGS = ("h3", "h4", "h5", "h6", "h6", "h6")
# An address in the text of an agent is shown, and leads nowhere.
_PARSER = (
    MarkdownIt("commonmark", {"html": False, "breaks": True})
    .enable(["table", "strikethrough"])
    .disable(["link", "image", "autolink", "entity", "reference", "html_inline", "html_block"])
)


def rendered(text: str) -> Markup:
    """A text in Markdown as HTML of a few plain elements without attributes."""
    if len(text) > RENDERED_MAX:
        return Markup(f'<pre class="text">{escape(visible(text))}</pre>')  # noqa: S704
    tokens = _PARSER.parse(visible(text))
    _make_plain(tokens)
    # The renderer escapes all text, and no token has an attribute any more.
    return Markup(_PARSER.renderer.render(tokens, _PARSER.options, {}))  # noqa: S704


def _make_plain(tokens: Iterable[Token]) -> None:
    for token in tokens:
        start = token.attrs.get("start")
        token.attrs = {"start": start} if isinstance(start, int) else {}
        if token.type == "fence":
            # It would become the name of a class.
            token.info = ""
        elif token.type in ("heading_open", "heading_close"):
            # The headings of the page are above those of the text.
            token.tag = _HEADINGS[int(token.tag[1]) - 1]
        _make_plain(token.children or ())
