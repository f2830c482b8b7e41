"""Split HTML into tags and text, in a time that is linear in its length. Pure.

The standard library's parser is not linear: half a megabyte of `<!` keeps it busy for minutes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import unescape

_NAME = re.compile(r"[a-zA-Z][^\s/>\x00]*+")
# An end that is missing makes a quote a part of the value. Then no other quote follows, so this
# is tried in vain only once.
_ATTRIBUTE = re.compile(r"[\s/]*+([^\s/>=]++)(?:\s*+=\s*+(?:\"([^\"]*+)\"|'([^']*+)'|([^\s>]*+)))?")
_TAG_END = re.compile(r"[\s/=]*+>?")
_RAW = frozenset(("script", "style", "textarea", "title", "noscript", "iframe", "xmp"))


@dataclass(frozen=True, slots=True)
class Tag:
    """The start or the end of an element."""

    name: str
    attributes: Mapping[str, str]
    ends: bool = False


def tokens_of(html: str) -> Iterator[Tag | str]:
    """The tags and texts of a page, in order. What is not closed goes on to the end."""
    at = 0
    while at < len(html):
        start = html.find("<", at)
        if start < 0:
            yield _unescaped(html[at:])
            return
        if start > at:
            yield _unescaped(html[at:start])
        found = _NAME.match(html, start + 1)
        if found is not None:
            tag, at = _start_tag(html, found)
            yield tag
            if tag.name in _RAW:
                end = re.compile(rf"</{tag.name}\b", re.IGNORECASE).search(html, at)
                text = html[at : end.start() if end else len(html)]
                yield _unescaped(text) if tag.name in ("textarea", "title") else text
                at = end.start() if end else len(html)
            continue
        at = _after_markup(html, start)
        name = _NAME.match(html, start + 2) if html.startswith("</", start) else None
        if name is not None:
            yield Tag(name[0].lower(), {}, ends=True)
        elif at == start + 1:
            yield "<"


def _after_markup(html: str, start: int) -> int:
    """The position after an end tag, a comment or a declaration; after `<` if it is just that."""
    if html.startswith("<!--", start):
        end = html.find("-->", start + 4)
        return len(html) if end < 0 else end + 3
    if html.startswith(("</", "<!", "<?"), start):
        end = html.find(">", start + 2)
        return len(html) if end < 0 else end + 1
    return start + 1


def _start_tag(html: str, name: re.Match[str]) -> tuple[Tag, int]:
    attributes: dict[str, str] = {}
    at = name.end()
    while (found := _ATTRIBUTE.match(html, at)) is not None:
        value = next((each for each in found.groups()[1:] if each is not None), "")
        attributes.setdefault(found[1].lower(), _unescaped(value))
        at = found.end()
    end = _TAG_END.match(html, at)
    return Tag(name[0].lower(), attributes), end.end() if end else at


def _unescaped(text: str) -> str:
    """The text without entities. Python reads no number of thousands of digits."""
    try:
        return unescape(text)
    except ValueError:
        return text
