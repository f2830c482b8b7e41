"""Words that somebody else wrote, as a forge or a model may show them. Pure.

On a forge, such words must not notify anybody, close or link an issue, hold HTML or Markdown, order
a bot about, or end what we wrote around them. For a model, they are lines that begin with `>`, with
the name of the person: no line of theirs can look like one of ours.
"""

from __future__ import annotations

import re
import unicodedata

_BREAK = "\u200b"
"""What stands between the parts of a mention, so that no forge finds one."""

_NEWLINES = re.compile(r"\r\n|[\r\n\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")

_EMOJI_JOINER = re.compile(r"(?<=[^\x00-\x7f])\u200d(?=[^\x00-\x7f])|(?<=[^\x00-\x7f])\ufe0f")

_UNSEEN = frozenset(
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0\u2800\ufe00\ufe01\ufe02\ufe0e\ufe0f"
)

_REFERENCES = re.compile(
    r"(?P<at>[@＠])"
    r"|(?P<hash>[#＃])(?=[\w/])"
    r"|(?P<bang>!)(?=\d)"
    r"|(?P<gh>\bGH)(?=-\d)"
    r"|(?P<scheme>:)(?=//)"
    r"|(?P<mail>\b(?:mailto|xmpp|javascript|data|vbscript|file))(?=:)"
    r"|(?P<www>\bwww)(?=\.)"
    r"|(?P<wiki>\[)(?=\[)"
    r"|(?P<bot>\[)(?=\s*(?:skip|ci|no|actions)\b)"
    r"|(?P<trailer>\bskip)(?=-checks\s*:)"
    r"|(?P<noci>\*\*\*)(?=NO_CI)"
    r"|(?P<comment><)(?=!--)",
    re.IGNORECASE,
)

_COMMAND = re.compile(r"^([ \t]*)/(?=[A-Za-z])", re.MULTILINE)

_PUNCTUATION = re.compile(r"([\\`*_{}\[\]#|~$])")

_AT_THE_START = re.compile(r"^(\d{0,9})([-+=.):])")

_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}

_FENCE = re.compile(r"`{3,}")


def visible(text: str) -> str:
    """Return text with plain line ends, and everything that is not seen written as an escape.

    That is: control characters, those that change the direction of text, those without width, and
    halves of characters. Tabs, line ends and joined emoji stay.
    """
    text = _NEWLINES.sub("\n", text)
    kept = {match.start() for match in _EMOJI_JOINER.finditer(text)}
    return "".join(
        f"\\u{{{ord(char):X}}}" if _is_unseen(char) and at not in kept else char
        for at, char in enumerate(text)
    )


def _is_unseen(char: str) -> bool:
    if char in "\n\t" or (char.isascii() and char.isprintable()):
        return False
    return char in _UNSEEN or unicodedata.category(char) in {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}


def clipped(text: str, length_max: int, *, end: bool = False) -> str:
    """Return at most so many characters of a text: its start, or its end."""
    if len(text) <= length_max:
        return text
    left = max(length_max - 2, 0)
    return f"…\n{text[len(text) - left :]}" if end else f"{text[:left]}\n…"


def one_line(text: str, length_max: int) -> str:
    """Return text on one line, cut if it is too long."""
    return _cut(" ".join(visible(_enough(text, length_max)).split()), length_max)


def _cut(flat: str, length_max: int) -> str:
    return flat if len(flat) <= length_max else f"{flat[: max(length_max - 1, 0)]}…"


def _enough(text: str, length_max: int) -> str:
    """Return the start of a text that may be huge, with more than is shown of it on one line."""
    return text[: 20 * length_max]


def framed(text: str, length_max: int, *, end: bool = False) -> str:
    """Return text for a model: each line of it begins with `>`."""
    lines = visible(clipped(text.strip("\r\n"), length_max, end=end)).split("\n")
    return "\n".join(f"> {line}" if line else ">" for line in lines)


def defused(text: str) -> str:
    """Return text in which a forge finds no mention, reference, address or order to a bot."""
    text = _REFERENCES.sub(lambda found: f"{found[0]}{_BREAK}", visible(text))
    return _COMMAND.sub(rf"\1/{_BREAK}", text)


def defused_line(text: str, length_max: int) -> str:
    """Return text on one line for a title, where a forge reads no Markdown."""
    return _cut(defused(" ".join(visible(_enough(text, length_max)).split())), length_max)


def inline(text: str, length_max: int) -> str:
    """Return text on one line of Markdown, which is shown as it was written."""
    return _escaped(defused_line(text, length_max))


def quoted(text: str, length_max: int) -> str:
    """Return text as a quotation in Markdown, in which every line is shown as it was written."""
    lines = defused(clipped(text.strip(), length_max)).split("\n")
    return "\n".join(f"> {_escaped_line(line)}".rstrip() for line in lines)


def fenced(text: str, length_max: int, *, end: bool = False) -> str:
    """Return text as a block of code in Markdown that it cannot end."""
    body = defused(clipped(text.strip("\n"), length_max, end=end))
    longest = max((len(run) for run in _FENCE.findall(body)), default=2)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{body}\n{fence}"


def _escaped_line(line: str) -> str:
    # Spaces at the start would make code.
    bare = line.expandtabs(4).rstrip()
    indent = len(bare) - len(bare.lstrip(" "))
    return "&nbsp;" * indent + _escaped(bare[indent:])


def _escaped(text: str) -> str:
    text = _PUNCTUATION.sub(r"\\\1", text)
    text = _AT_THE_START.sub(r"\1\\\2", text)
    return re.sub(r"[&<>]", lambda found: _ENTITIES[found[0]], text)
