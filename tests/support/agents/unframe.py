"""A strict reader of frames: it refuses everything that `frames` does not write."""

from __future__ import annotations

import html
import re

from bullpen.agents.mail.message_frame import notice_of_provenance
from bullpen.agents.tools.outside_text.harmless import _OPENER, _is_reserved

_OPENING = re.compile(
    r'<teammate-message teammate_id="(?P<sender>[^"<>\n]+)"(?: color="[^"<>\n]+")?'
    r'(?: summary="[^"<>\n]+")?(?: verified="false")?>'
)
_CLOSING = "</teammate-message>"


def unframe(text: str) -> list[tuple[str, str]]:
    """Sender and body of every frame, in order, the body as a model reads it.

    Raises:
        ValueError: the text holds something that `frames` does not write.
    """
    found: list[tuple[str, str]] = []
    sender: str | None = None
    body: list[str] = []
    for line in text.split("\n"):
        opening = _OPENING.fullmatch(line)
        if sender is None and opening:
            sender, body = html.unescape(opening["sender"]), []
        elif sender is None and line not in {"", notice_of_provenance}:
            raise ValueError(f"outside of every frame: {line!r}")
        elif sender is not None and line == _CLOSING:
            found.append((sender, "\n".join(body)))
            sender = None
        elif sender is not None:
            body.append(line)
    if sender is not None:
        raise ValueError(f"the frame of {sender!r} is not closed")
    for who, words in found:
        if any(_is_reserved(words, opener) for opener in _OPENER.finditer(words)):
            raise ValueError(f"a tag in what {who!r} wrote")
    return found
