"""All there is to see of one item of a stream. Pure."""

from __future__ import annotations

from bullpen.doors.tui.line_view import Blocks
from bullpen.doors.tui.member.diff_lines import diff_blocks
from bullpen.view.stream import StreamItem


def item_text(item: StreamItem) -> tuple[str, Blocks]:
    """The title and the text of an item: of an edit its diff, of a call its input and result."""
    if item.kind in ("words", "mail"):
        who = f"{item.sender}:" if item.sender else "Words"
        return who, [(item.body or item.text, "")]
    blocks: list[tuple[str, str]] = []
    if item.diff is not None:
        blocks += diff_blocks([item.diff])
        blocks.append(("", ""))
    if item.body:
        blocks.append((item.body, ""))
    return f"{item.text}  {item.aside}".rstrip(), blocks or [("There is no more to see.", "muted")]
