"""How an event says that it came over a mirror, and from where: what makes loops impossible.

Every change that a mirror makes is in an event of its own kind. In the home it bears the mirror's
name as its actor, in the other store it has an op that names the mirror and the number of the
home's event that it carries. So either log tells what was carried already, in the very commit that
carried it.
"""

from __future__ import annotations

from dataclasses import dataclass

from bullpen.protocol.changes import Event

_ACTOR = "mirror:"


@dataclass(frozen=True, slots=True)
class Origin:
    """One mirror. It is given its name when its home's team is made, and has it for good."""

    mirror: str

    @classmethod
    def of_first(cls, event: Event) -> Origin | None:
        """The mirror that made a team; None if the team's first event is nobody's like that."""
        made_by = event.actor.removeprefix(_ACTOR)
        return cls(made_by) if made_by not in ("", event.actor) and not event.observed else None

    @property
    def actor(self) -> str:
        """Who acts in the home when the mirror does."""
        return f"{_ACTOR}{self.mirror}"

    def is_ours(self, event: Event) -> bool:
        """Whether an event of the home is the mirror's own."""
        return event.actor == self.actor

    def sent(self, seq: int) -> str:
        """The op, in the other store, of what carries an event of the home."""
        return f"mirror.sent:{self.mirror}:{seq}"

    def sent_seq(self, event: Event) -> int | None:
        """Which event of this mirror's home an event of the other store carries, if any."""
        return _number(event.op, f"mirror.sent:{self.mirror}:")

    @staticmethod
    def taken(seq: int) -> str:
        """The op, in the home, of what brings it to where the other store was at `seq`."""
        return f"mirror.taken:{seq}"

    @staticmethod
    def taken_seq(event: Event) -> int | None:
        """Up to which event of the other store an event of the home brought it, if it did."""
        return _number(event.op, "mirror.taken:")

    @staticmethod
    def refused(seq: int) -> str:
        """The op, in the home, of what answers an event that the other store refused."""
        return f"mirror.refused:{seq}"

    @staticmethod
    def refused_seq(event: Event) -> int | None:
        """Which event of the home was refused, if an event says so."""
        return _number(event.op, "mirror.refused:")


def _number(op: str, prefix: str) -> int | None:
    text = op.removeprefix(prefix)
    return int(text) if text != op and text.isascii() and text.isdecimal() else None
