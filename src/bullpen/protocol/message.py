"""One entry of `teams/{team}/inboxes/{name}.json`, in every known variant."""

from __future__ import annotations

import hashlib
from typing import Any, Literal

from bullpen.protocol.record import OrAbsent, Wire, field

DeliveryState = Literal["stored", "injected", "seen", "consumed", "archived"]
"""`stored`: durable. `injected`: added to a turn. `seen`: in a model request that succeeded. Two
final states: `consumed`, removed from the inbox by another program; `archived`, seen long ago and
moved to the archive.
"""


class Message(Wire):
    """An inbox entry. Optional fields are left out, never null: Claude Code drops nulls."""

    sender: str = field(key="from", min_length=1)
    text: str
    summary: str | None = None
    timestamp: str = ""
    color: str | None = None
    msg_v: int | None = field(default=None, key="msgV")
    msg_id: str | None = field(default=None, key="msg_id")
    type: str | None = None
    in_reply_to: str | None = None
    read: bool = False
    lead_sig: str | None = field(default=None, key="lead_sig")
    # Bullpen's own facts. Other programs keep what they do not know.
    bullpen: OrAbsent[dict[str, Any] | None] = None

    @property
    def is_of_a_person(self) -> bool:
        """Return whether a person wrote it, in the name of its sender."""
        return (self.bullpen or {}).get("voice") == "human"

    @property
    def id(self) -> str:
        """Return its message id; for an entry without one, an id computed from its content."""
        if self.msg_id:
            return self.msg_id
        content = "\0".join((self.sender, self.timestamp, self.text))
        digest = hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()
        return f"sha-{digest[:20]}"
