"""What may be used at most: by an agent or for a task."""

from __future__ import annotations

from pydantic import Field

from bullpen.protocol.wire import Wire


class Budget(Wire):
    """What may be used at most. What is None is not limited.

    `tokens` are those that a model reads for the first time or writes: what comes from its cache
    costs a tenth, is read again with every request, and counts as money only.
    """

    turns: int | None = Field(default=None, gt=0)
    tokens: int | None = Field(default=None, gt=0)
    usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    # Seconds on the clock, at work or not.
    wall_s: float | None = Field(default=None, gt=0, allow_inf_nan=False)
