"""Where a replay leaves its tape. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from bullpen.agents.tapes.format import Tape, key


@dataclass(frozen=True, slots=True)
class Departure:
    """The first request that is not as on the tape: whose it is, and what differs."""

    agent: str
    stream: str
    number: int
    what: str
    lines: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """Where it is, in a sentence."""
        where = "" if self.stream == "main" else f" ({self.stream})"
        return f"{self.agent}{where} leaves the tape at call {self.number}: {self.what}"

    @property
    def row(self) -> dict[str, Any]:
        """As JSON."""
        return {**asdict(self), "lines": list(self.lines)}

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Departure:
        """From JSON."""
        lines = tuple(str(line) for line in row["lines"])
        agent, stream, what = str(row["agent"]), str(row["stream"]), str(row["what"])
        return cls(agent, stream, int(row["number"]), what, lines)


def departure_line(left: Departure) -> str:
    """A line about it, for the tape that a replay writes itself."""
    return json.dumps({"kind": "left", **left.row}, ensure_ascii=False) + "\n"


def calls_left(taped: Tape, replayed: Tape) -> Departure | None:
    """The first call of the tape that a replay did not make, when it is over."""
    made = {key(call) for call in replayed.calls}
    for call in taped.calls:
        cut = call.failed is not None and call.failed.get("kind") == "cancelled"
        if not cut and key(call) not in made:
            news = [line for piece in call.asked.pieces for line in piece.text.splitlines()]
            lines = (*(f"- {line}" for line in news[:8]), "+ the run ended before")
            return Departure(call.agent, call.stream, call.number, "number of calls", lines)
    return None
