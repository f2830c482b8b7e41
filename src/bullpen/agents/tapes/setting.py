"""The option of an agent whose model answers are recorded, or come from a tape. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from bullpen.agents.tapes.places import Places
from bullpen.errors import Invalid

TAPE = "tape"
"""The name of the option."""


@dataclass(frozen=True, slots=True)
class TapeSetting:
    """Where an agent records, and the tape that it gets its answers from, if it does.

    The file is known by its device and inode too: an agent could replace what is at its path.
    """

    record: str
    device: int
    inode: int
    begun_ms: int
    project: str
    home: str
    replay: str | None = None

    def places(self, team: str = "") -> Places:
        """The places of the run."""
        return Places({"project": self.project, "home": self.home}, team)

    def as_option(self) -> dict[str, Any]:
        """As an option of an agent."""
        return {TAPE: asdict(self)}

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> TapeSetting | None:
        """What the options of an agent say; None if it has no tape. Raises Invalid."""
        row = options.get(TAPE)
        if row is None:
            return None
        try:
            return cls(**row)
        except TypeError:
            raise Invalid(
                f"The option {TAPE} of the agent is damaged.", remedy="Start the run again."
            ) from None
