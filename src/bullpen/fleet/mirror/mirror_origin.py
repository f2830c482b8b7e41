"""How an event says that it came over a mirror, which makes loops impossible.

Every change that a mirror makes is in an event of its own kind. In the home the mirror is its
actor; in the other store its op names the mirror and the number of the home's event that it
carries. So each log tells what was already carried, in the very commit that carried it.
"""

from __future__ import annotations

from dataclasses import dataclass

from bullpen.protocol.changes import Event

_ACTOR = "mirror:"


@dataclass(frozen=True, slots=True)
class NumberedOp:
    """An op that ends with the number of an event of the other side."""

    prefix: str

    def of(self, seq: int) -> str:
        """Return the op for an event."""
        return f"{self.prefix}{seq}"

    def seq_in(self, event: Event) -> int | None:
        """Return the number in an event with this op; None if it has another."""
        text = event.op.removeprefix(self.prefix)
        return int(text) if text != event.op and text.isascii() and text.isdecimal() else None


TAKEN = NumberedOp("mirror.taken:")
"""The op, in the home, for bringing it up to an event of the other store."""

REFUSED = NumberedOp("mirror.refused:")
"""The op, in the home, for answering an event of it that the other store refused."""


@dataclass(frozen=True, slots=True)
class MirrorOrigin:
    """One mirror. It gets its name when the team is created in its home, and keeps it."""

    mirror: str

    @classmethod
    def of_first(cls, event: Event) -> MirrorOrigin | None:
        """Return the mirror that created a team; None if its first event is not a mirror's."""
        made_by = event.actor.removeprefix(_ACTOR)
        return cls(made_by) if made_by not in ("", event.actor) and not event.observed else None

    @property
    def actor(self) -> str:
        """Return the actor in the home when the mirror acts."""
        return f"{_ACTOR}{self.mirror}"

    def is_ours(self, event: Event) -> bool:
        """Return whether an event of the home is the mirror's own."""
        return event.actor == self.actor

    @property
    def sent(self) -> NumberedOp:
        """Return the op, in the other store, for carrying an event of this mirror's home."""
        return NumberedOp(f"mirror.sent:{self.mirror}:")
