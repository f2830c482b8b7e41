"""The record of what every target got and what it still has to get. It survives a kill."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from bullpen.errors import Unavailable, Unreadable
from bullpen.protocol import json_text
from bullpen.runs.reach.due_rules import Line, WaitingNotice
from bullpen.runs.reach.home_files import MAKE_WRITABLE, read_private, write_private
from bullpen.runs.reach.targets import Target
from bullpen.view.notable_events import Happening

_KNOWN = {each.name for each in fields(Happening)}


@dataclass(slots=True)
class Outbox:
    """The lines of all targets of a team, by their keys, and the last event that all have heard."""

    seq: int | None = None
    lines: dict[str, Line] = field(default_factory=dict)
    # The targets, so that another process can send what is left after the run.
    targets: tuple[Target, ...] = ()

    @property
    def waits(self) -> bool:
        """Whether anything waits to be sent."""
        return any(line.waiting for line in self.lines.values())

    def line(self, key: str) -> Line:
        """The line of a target."""
        return self.lines.get(key, Line())

    def aim(self, targets: Iterable[Target]) -> None:
        """Have these targets, and forget others."""
        self.targets = tuple(targets)
        self.lines = {target.key: self.line(target.key) for target in self.targets}


def read_outbox(path: Path) -> Outbox:
    """The record in a file; an empty one if there is none. Raises Unreadable."""
    data = read_private(path)
    if data is None:
        return Outbox()
    try:
        row = json_text.loads(data)
        lines = {key: _line(each) for key, each in row["lines"].items()}
        targets = [Target(**{**each, "on": tuple(each["on"])}) for each in row["targets"]]
        return Outbox(row.get("seq"), lines, tuple(targets))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise Unreadable(
            str(path), "it is no record of notices", remedy="Remove it: notices begin anew."
        ) from None


def write_outbox(path: Path, outbox: Outbox) -> None:
    """Write the record. Raises Unavailable."""
    lines = {
        key: {"waiting": [asdict(each) for each in line.waiting], "sent": list(line.sent)}
        for key, line in outbox.lines.items()
    }
    targets = [asdict(each) for each in outbox.targets]
    row = {"seq": outbox.seq, "targets": targets, "lines": lines}
    try:
        write_private(path, json_text.dumps_line(row))
    except OSError as error:
        raise Unavailable(
            f"What was sent cannot be recorded: {error}.", remedy=MAKE_WRITABLE
        ) from None


def _line(row: Mapping[str, Any]) -> Line:
    waiting = []
    for each in row["waiting"]:
        with suppress(TypeError):
            # A newer Bullpen may know more of a happening.
            about = {key: value for key, value in each["happening"].items() if key in _KNOWN}
            more = {**each, "happening": Happening(**about), "got": tuple(each["got"])}
            waiting.append(WaitingNotice(**more))
    return Line(tuple(waiting), tuple(row["sent"]))
