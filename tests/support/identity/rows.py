"""The rows of the table: who tries what through which door, what should happen, and what did."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from bullpen.errors import BullpenError, NotFound
from bullpen.team.requests.operations import CLOCKWORK

from .cast import Identity

IDENTITY_REASONS = frozenset(
    {"not_a_person", "other_identity", "not_owner", "not_lead", "not_approver", "checks_fixed"}
)
"""Why somebody is refused because of who it is."""

Way = Literal["own name", "as the owner", "as a person", "no form", "other site"]
Verdict = Literal["done", "let in", "refused", "own name only"]
"""`let in`: nobody objects to who it is; something else may be missing.
`own name only`: it may be done or refused, and never in the name of another."""


@dataclass(frozen=True, slots=True)
class Row:
    """One try."""

    door: str
    what: str
    identity: Identity
    way: Way
    expected: Verdict


@dataclass(frozen=True, slots=True)
class Seen:
    """What a try did: whether it was refused and why, and in whose name something was done."""

    row: Row
    refused: str | None
    done: bool
    names: frozenset[str] = frozenset()

    @property
    def word(self) -> str:
        """What happened, in a word."""
        if self.refused is not None:
            return f"refused ({self.refused})"
        return "done" if self.done else "nothing happened"

    def fits(self, name: str) -> bool:
        """Whether it is what was expected of somebody with this name."""
        if self.row.expected == "done":
            return self.done
        if self.row.expected == "let in":
            return self.refused not in IDENTITY_REASONS and self.names <= {name, CLOCKWORK}
        if self.row.expected == "refused":
            return not self.done
        return self.names <= {name, CLOCKWORK}


async def tried(call: Callable[[], Awaitable[object]]) -> str | None:
    """Why a call was refused; None if it was not."""
    try:
        await call()
    except NotFound:
        return "not_found"
    except BullpenError as error:
        return str(getattr(error, "reason", "") or type(error).__name__)
    return None


def table(seen: Iterable[Seen]) -> str:
    """The rows as lines."""
    return "\n".join(
        f"{each.row.door:12} {each.row.what:42} {each.row.identity.value:22} {each.row.way:13}"
        f" expected: {each.row.expected:14} seen: {each.word}"
        for each in seen
    )
