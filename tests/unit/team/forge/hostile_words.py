"""Words that strangers and agents could write to be obeyed, and what a forge would find in them.

`Rendered` reads Markdown as the forges do: CommonMark with tables, strikethrough and bare links. On
its text, and on the raw text, which becomes the message of a squashed commit, it looks for what the
forges act on by patterns taken from their documentation and source.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from markdown_it import MarkdownIt
from markdown_it.token import Token

HOSTILE = {
    "mention": "@octocat please look",
    "team mention": "cc @bullpen-dev/security and@ann.b (@eve) \\@ann &commat;ann",
    "wide mention": "＠ann and @\u200bann",
    "closing word": "Fixes #1, closes #2; RESOLVES: #3",
    "closing address": "Closes https://forge.test/o/r/issues/4",
    "closing elsewhere": "fixes o/other#5 and GH-6 and gh-7, closes !8",
    "escaped number": "Fixes \\#1 and Fixes &#35;1 and Fixes &num;1",
    "script": "<script>alert(1)</script>",
    "image with handler": '<img src=x onerror="alert(1)">',
    "details": "</details></div><details open><summary>Approved</summary>",
    "comment": "<!-- bullpen:crew/1/pull/1:" + "0" * 32 + " -->",
    "open comment": "<!-- everything after this is hidden",
    "real marker": "<!-- bullpen:crew/1/pull/1:MAC -->",
    "link": "[click here](https://evil.test) and [x]: https://evil.test and [x]",
    "image": "![logo](https://evil.test/track.png)",
    "autolink": "<https://evil.test> https://evil.test www.evil.test ann@evil.test",
    "script address": "[a](javascript:alert(1)) javascript:alert(1) data:text/html,x mailto:a@b.c",
    "headings": "# Approved\n\n## Checks\n\nAll passed\n===\nText\n---",
    "rule": "***\n---\n___\n- - -",
    "list": "- one\n* two\n+ three\n1. four\n2) five\n- [x] done",
    "table": "| a | b |\n|---|---|\n| 1 | 2 |",
    "fence": "```\nout\n```\n# Free\n````\n~~~\n``````\n@ann\n",
    "indented code": "    @ann\n\tFixes #1\n",
    "quote": "> quoted\n\nnot quoted: Closes #1\n\n\n",
    "fake frame": "> ann writes:\n[1] ann asks for changes:\nThe lines that begin with > end here.",
    "fake frame with line ends": "a\rCloses #1\x0b\x0cFixes #2\u2028# big\u2029@ann\x85@eve",
    "emphasis": "*a* **b** _c_ ~~d~~ `e` $x^2$ [^1] [[wiki]] [[a|b]]",
    "control characters": "a\x00b\x1b[31mred\x07\x08\x7f\x9b",
    "directions": "\u202eevil\u202d \u2066a\u2069 \u200f\u061c",
    "no width": "@\u200dann \u2060#1 \ufeffFixes\u00ad #1",
    "half characters": "\ud800 and \udfff",
    "orders to bots": "/merge\n  /approve\n@dependabot merge\n[skip ci] [ci skip] skip-checks:",
    "trailers": "Co-authored-by: eve <eve@evil.test>\nSigned-off-by: eve\n***NO_CI***",
    "draft": "WIP: not yet",
    "huge": "@ann Fixes #1 <b> ](x) " * 20_000,
    "one huge line of marks": "`" * 70_000,
    "huge and wide": "漢😀" * 60_000,
    "empty": "",
    "spaces": " \n\t\n  ",
    "front": "---\ntitle: x\n---\n",
    "entities": "&lt;b&gt; &#64;ann &#x40;ann &amp;lt;",
}  # fmt: skip
"""Words to be quoted, by what they try."""

_MENTION = re.compile(r"(?:^|[^\w])[@＠](?=[A-Za-z0-9])")
_REFERENCE = re.compile(r"(?:[#＃]|\bGH-|!)(?=\d)", re.IGNORECASE)
_ADDRESS = re.compile(r"\w+://|\bwww\.\w|\b(?:javascript|mailto|data|xmpp):", re.IGNORECASE)
_ORDER = re.compile(
    r"(?m)^\s*/[a-z]+|\[(?:skip|ci|no|actions)\b|skip-checks\s*:|\*\*\*NO_CI", re.IGNORECASE
)
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200c-\u200f\u2028-\u202e\u2060-\u2069\ufeff]"
    "|[\ud800-\udfff]"
)

_OURS = {
    "paragraph_open", "paragraph_close", "inline", "text", "softbreak", "text_special",
    "blockquote_open", "blockquote_close", "heading_open", "heading_close", "fence",
    "bullet_list_open", "bullet_list_close", "list_item_open", "list_item_close",
    "strong_open", "strong_close",
}  # fmt: skip


@dataclass
class Rendered:
    """A text as a forge shows it."""

    body: str
    kinds: list[str] = field(default_factory=list)
    headings: list[str] = field(default_factory=list)
    strong: list[str] = field(default_factory=list)
    shown: str = ""

    def __post_init__(self) -> None:
        tokens = MarkdownIt("gfm-like", {"html": True}).parse(self.body)
        for index, token in enumerate(tokens):
            if token.type == "heading_open":
                self.headings.append(tokens[index + 1].content)
        self._read(tokens)

    def _read(self, tokens: list[Token]) -> None:
        for index, token in enumerate(tokens):
            self.kinds.append(token.type)
            if token.type in ("text", "text_special", "fence", "code_inline", "code_block"):
                self.shown += token.content
            elif token.type in ("softbreak", "hardbreak", "paragraph_close"):
                self.shown += "\n"
            if token.type == "strong_open":
                self.strong.append(tokens[index + 1].content)
            self._read(token.children or [])

    @property
    def html(self) -> int:
        """How many pieces of HTML it has."""
        return sum(kind.startswith("html_") for kind in self.kinds)

    @property
    def foreign(self) -> set[str]:
        """What it has that Bullpen never writes."""
        return {kind for kind in self.kinds if kind not in _OURS and not kind.startswith("html_")}


def unseen_in(text: str) -> list[str]:
    """What of a text nobody would see, or would see in another place."""
    return _UNSEEN.findall(text)


def acted_on(text: str) -> list[str]:
    """What a forge would find in a text to act on."""
    patterns = (_MENTION, _REFERENCE, _ADDRESS, _ORDER, _UNSEEN)
    return [found[0] for pattern in patterns for found in pattern.finditer(text)]
