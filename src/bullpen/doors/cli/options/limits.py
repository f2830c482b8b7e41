"""Options for when an agent or a team stops at the latest."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from bullpen.doors.cli.options.option import LIMITS, option

_limit = partial(option, panel=LIMITS)

Turns = Annotated[int | None, _limit("Stop after N turns", "N", min=1)]
Tokens = Annotated[int | None, _limit("Stop after N tokens", "N", min=1)]
Usd = Annotated[float | None, _limit("Stop after X US dollars", "X", min=0.0001)]
Seconds = Annotated[float | None, _limit("Stop after S seconds", "S", min=0.1)]
Wait = Annotated[
    float | None,
    _limit("Seconds it has to get ready [default: 120, more under load]", "S", min=0.1),
]
Until = Annotated[
    str | None,
    _limit(
        "Stop when all tasks are done, when nobody has work, or at a time: "
        "done, idle, 07:00, 8h, 90m",
        "WHEN",
    ),
]
