"""What a tape keeps of a request, and how two requests differ. Pure.

Compared are the system text, the tools, and what is new in the conversation. Not compared is what
changes by nature: places, ids, times, and what the briefing says of the others at that moment.
"""

from __future__ import annotations

import difflib
import hashlib
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bullpen.agents.mail.briefing import BEGIN, END
from bullpen.agents.mail.message_frame import notice_of_provenance

SHOWN_LINES_MAX = 12
"""How many lines of a difference are shown."""

_KEPT_CHARS = 4_000
"""How much of a result of a tool is kept. Beyond that, its digest tells whether it is the same."""

_LINE_MAX = 200
_USER_SAYS = "Your user says:\n"
_BLOCKS = re.compile(
    rf"(?P<digest>{re.escape(BEGIN)}.*?{re.escape(END)})"
    r"|(?P<mail><teammate-message .*?</teammate-message>)"
    rf"|(?P<user>{re.escape(_USER_SAYS)}.*?)"
    rf"(?=\n\n{re.escape(_USER_SAYS)}|\n\n{re.escape(notice_of_provenance)}|\Z)",
    re.DOTALL,
)
_STATE = re.compile(r"^(- [^\n:]+: )(?:starting|working|waiting|idle|lost)[^\n]*$", re.MULTILINE)
_OF_OTHERS = (
    "- ",
    "Your open tasks: ",
    "You have no open tasks",
    "Since ⟦time⟧",
    "Unread messages for",
)


@dataclass(frozen=True, slots=True)
class Piece:
    """One part of what is new in a conversation: `text`, `mail`, `user`, `digest`, or `Read`."""

    kind: str
    text: str

    @property
    def arrives(self) -> bool:
        """Whether it is a message, which arrives when its sender sends it."""
        return self.kind in ("mail", "user")


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, as far as a tape has it."""

    system: str
    # The digest of each tool that it lists.
    tools: Mapping[str, str]
    # How many messages the conversation has.
    messages: int
    pieces: tuple[Piece, ...]
    words_only: bool = False

    def since(self, before: Asked | None) -> dict[str, Any]:
        """As JSON, without what is as before."""
        row: dict[str, Any] = {
            "messages": self.messages,
            "pieces": [[piece.kind, piece.text] for piece in self.pieces],
        }
        if before is None or before.system != self.system:
            row["system"] = self.system
        if before is None or before.tools != self.tools:
            row["tools"] = dict(self.tools)
        if self.words_only:
            row["words_only"] = True
        return row

    def changed(self, change: Callable[[str], str]) -> Asked:
        """The same with all texts changed."""
        pieces = tuple(replace(piece, text=change(piece.text)) for piece in self.pieces)
        return replace(self, system=change(self.system), pieces=pieces)

    @classmethod
    def of(cls, row: Mapping[str, Any], before: Asked | None) -> Asked:
        """From JSON. Raises KeyError, TypeError or ValueError if it is none."""
        system = row["system"] if before is None else row.get("system", before.system)
        tools = row["tools"] if before is None else row.get("tools", before.tools)
        pieces = tuple(Piece(kind, text) for kind, text in row["pieces"])
        known = isinstance(system, str) and isinstance(tools, Mapping)
        texts = [text for piece in pieces for text in (piece.kind, piece.text)]
        if not known or not all(isinstance(text, str) for text in [*texts, *tools.values()]):
            raise TypeError("asked")
        return cls(system, tools, int(row["messages"]), pieces, row.get("words_only") is True)


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two requests differ: the part, and the first lines that do."""

    what: str
    lines: tuple[str, ...]


def digest(text: str) -> str:
    """A short digest of a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def kept(piece: Piece) -> Piece:
    """A piece as it is kept on a tape: long ones are cut, with the digest of the whole."""
    if len(piece.text) <= _KEPT_CHARS:
        return piece
    cut = f"{piece.text[:_KEPT_CHARS]}\n⟦cut: {len(piece.text)} characters, {digest(piece.text)}⟧"
    return replace(piece, text=cut)


def pieces_of(text: str) -> list[Piece]:
    """The parts of a prompt, in order."""
    found: list[Piece] = []
    at = 0
    for block in _BLOCKS.finditer(text):
        found += _between(text[at : block.start()])
        kind = str(block.lastgroup)
        found.append(Piece(kind, block.group().strip()))
        at = block.end()
    return [*found, *_between(text[at:])]


def together(pieces: Sequence[Piece]) -> str:
    """A prompt of these parts, as an agent reads it."""
    texts: list[str] = []
    noticed = False
    for piece in pieces:
        if piece.kind == "mail" and not noticed:
            texts.append(notice_of_provenance)
        noticed = piece.kind == "mail"
        texts.append(piece.text)
    return "\n\n".join(texts)


def difference(taped: Asked, now: Asked, *, alone: bool) -> Difference | None:
    """How a request differs from the one on the tape; None if it does not.

    `alone` says that no other agent is on the tape: then the whole briefing is compared.
    """
    if taped.system != now.system:
        return Difference("system prompt", _lines(taped.system, now.system))
    if taped.tools != now.tools:
        return Difference("tools", _tools(taped.tools, now.tools))
    if taped.words_only != now.words_only:
        words = ("a request for words only", "a request that may call tools")
        was, is_ = words if taped.words_only else reversed(words)
        return Difference("kind of request", (f"- {was}", f"+ {is_}"))
    before, after = _compared(taped.pieces, alone=alone), _compared(now.pieces, alone=alone)
    if before != after:
        return Difference("messages", _lines("\n".join(before), "\n".join(after)))
    if taped.messages != now.messages:
        counts = f"- {taped.messages} messages", f"+ {now.messages} messages"
        return Difference("length of the conversation", counts)
    return None


def _compared(pieces: Sequence[Piece], *, alone: bool) -> list[str]:
    """The parts as they are compared: messages in any order, for they may have raced."""
    mail = Counter(piece.text for piece in pieces if piece.arrives)
    rest = [
        f"[{piece.kind}]\n{_briefing(piece.text, alone=alone)}"
        if piece.kind == "digest"
        else f"[{piece.kind}]\n{piece.text}"
        for piece in pieces
        if not piece.arrives
    ]
    return [*rest, *(f"[message]\n{text}" for text in sorted(mail.elements()))]


def _briefing(text: str, *, alone: bool) -> str:
    """A briefing without states, and of a team without what others did: they may be further."""
    text = _STATE.sub(r"\1⟦state⟧", text)
    if alone:
        return text
    lines = text.splitlines()
    return "\n".join(
        line for line in lines if not line.startswith(_OF_OTHERS) and not line.endswith(":")
    )


def _tools(was: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    lines = [f"- {name}" for name in was if name not in now]
    lines += [f"+ {name}" for name in now if name not in was]
    lines += [
        f"~ {name}: its description or input differs"
        for name in was
        if name in now and was[name] != now[name]
    ]
    return tuple(lines[:SHOWN_LINES_MAX]) or ("~ their order",)


def _lines(was: str, now: str) -> tuple[str, ...]:
    """The first lines that differ, as diff shows them."""
    found = difflib.unified_diff(was.splitlines(), now.splitlines(), lineterm="", n=1)
    shown = [line[:_LINE_MAX] for line in found if not line.startswith(("---", "+++", "@@"))]
    return tuple(shown[:SHOWN_LINES_MAX])


def _between(text: str) -> list[Piece]:
    text = text.replace(notice_of_provenance, "").strip()
    return [Piece("text", text)] if text else []
