"""The keys that act on a member, on every screen that shows one."""

from __future__ import annotations

from textual.binding import Binding

MEMBER_BINDINGS = (
    Binding("m", "message", "Message"),
    Binding("t", "assign", "Assign"),
    Binding("s", "stop", "Stop"),
    Binding("o", "attach", "Attach"),
    # The key of Claude Code.
    Binding("shift+tab", "mode", "Mode", show=False),
)
