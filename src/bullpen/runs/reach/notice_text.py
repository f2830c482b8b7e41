"""What a notice says. Words of agents are plain text: no markup, no link, no mention. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bullpen.agents.tools.outside_text.harmless import one_line
from bullpen.runs.reach.due_rules import BLOCKED
from bullpen.team.agents.verdict import MANNERS
from bullpen.view.notable_events import Happening

TITLE_MAX = 100
TEXT_MAX = 400
LINES_MAX = 12
LINKED_MAX = 5

# Chats make markup, links and mentions of these characters. Their lookalikes mean nothing.
_LOOKALIKES = str.maketrans({
    "<": "‹", ">": "›", "&": "＆", "*": "∗", "_": "＿", "`": "ˋ", "~": "∼", "|": "∣",
    "[": "［", "]": "］", "@": "＠", "\\": "∖",
})  # fmt: skip
_ADDRESS = re.compile(r"(?<=[\w-]):(?=//)")
_SCHEME = re.compile(r"\b(mailto|tel|javascript|data|xmpp|sms):", re.IGNORECASE)
# A dot between words makes a name of a host: `setup.py` is one.
_DOT = re.compile(r"(?<=\w)\.(?=\w)")
_TAG = re.compile(r"(?<!\w)#(?=[^\W\d])")


@dataclass(frozen=True, slots=True)
class Link:
    """A link that Bullpen made."""

    words: str
    address: str


@dataclass(frozen=True, slots=True)
class Notice:
    """What is sent: a title, lines of plain text, and links."""

    title: str
    lines: tuple[str, ...]
    links: tuple[Link, ...] = ()
    # A later notice with the same tag takes the place of this one in a browser.
    tag: str = ""

    @property
    def body(self) -> str:
        """The lines and the links as one text."""
        links = [f"{each.words}: {each.address}" for each in self.links]
        return "\n".join([*self.lines, *([""] if links else []), *links])


def notice_of(
    team: str,
    happenings: Sequence[Happening],
    *,
    links: Callable[[Happening], Sequence[Link]],
    redacted: Callable[[str], str],
    tag: str,
) -> Notice:
    """One notice about a happening, or a digest of several; `links` makes those of a request."""
    if len(happenings) == 1:
        (only,) = happenings
        text = _said(only, redacted)
        return Notice(_title(team, only), (text,), tuple(links(only)), tag)
    # What waits for the person comes first, and the newest is the most important of the rest.
    blocked = [each for each in happenings if each.kind in BLOCKED]
    others = [each for each in happenings if each.kind not in BLOCKED]
    shown = [*blocked, *reversed(others)][:LINES_MAX]
    lines = [f"– {_said(each, redacted)}" for each in shown]
    if len(happenings) > len(shown):
        lines.append(f"– and {len(happenings) - len(shown)} more")
    made: list[Link] = []
    for each in blocked[:LINKED_MAX]:
        about = plain(each.agent or "", 40)
        made += [Link(f"{link.words} ({about})", link.address) for link in links(each)[-1:]]
    count = f"{len(happenings)} notices"
    waits = f", {len(blocked)} wait for you" if len(blocked) > 1 else ", 1 waits for you"
    title = f"Bullpen: {plain(team, 40)}: {count}{waits if blocked else ''}"
    return Notice(title, tuple(lines), tuple(made), tag)


def plain(text: str, length_max: int) -> str:
    """Text of agents on one line in which no chat finds markup, a link or a mention."""
    text = one_line(text, length_max)
    text = _DOT.sub("․", _SCHEME.sub(r"\1∶", _ADDRESS.sub("∶", text)))
    return _TAG.sub("＃", text).translate(_LOOKALIKES)


def _title(team: str, happening: Happening) -> str:
    name = plain(team, 40)
    if happening.kind == "ended":
        did = "has ended" if happening.status is None else MANNERS[happening.status].did
        return f"Bullpen: {name} {did}"
    if happening.kind in BLOCKED:
        return f"Bullpen: {name} needs you"
    return f"Bullpen: {name}: {happening.kind.replace('_', ' ')}"[:TITLE_MAX]


def _said(happening: Happening, redacted: Callable[[str], str]) -> str:
    return plain(redacted(happening.text), TEXT_MAX)
