"""One line on standard error that says what an agent that starts is doing, and for how long."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio

from bullpen.doors.cli.output.text import say
from bullpen.errors import one_error
from bullpen.view.text import one_line

QUIET_S = 0.3
"""A start that is over before is not worth a line that comes and goes."""

PLAIN_AFTER_S = 2.0
"""After how long a plain line is written, once."""

_TICK_S = 0.2
_CLEAR = "\r\x1b[K"


class StartLine:
    """The line. With `live` it is drawn anew; without, it is written once if a start takes long."""

    def __init__(
        self,
        *,
        live: bool,
        draw: Callable[[str], None],
        width: Callable[[], int],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._live, self._draw, self._width, self._now = live, draw, width, now
        self._text = ""
        self._begun = now()
        self._drawn = self._written = False

    def step(self, name: str, what: str) -> None:
        """Take note of what an agent is doing by now."""
        text = one_line(f"starting {name}: {what}")
        if text != self._text:
            self._text, self._begun = text, self._now()

    def clear(self) -> None:
        """Remove the line, so that something else can be written."""
        if self._drawn:
            self._drawn = False
            self._draw(_CLEAR)

    def look(self, elapsed_s: float) -> None:
        """Show the line, if it is time; `elapsed_s` is for how long the start has taken."""
        if not self._text:
            return
        if not self._live:
            if elapsed_s >= PLAIN_AFTER_S and not self._written:
                self._written = True
                self._draw(f"{self._text}\n")
        elif elapsed_s >= QUIET_S:
            self._drawn = True
            # The last column stays free: a line that fills it would move the cursor on.
            line = f"{self._text} {self._now() - self._begun:.0f} s"[: self._width() - 1]
            self._draw(f"{_CLEAR}{line}")


@asynccontextmanager
async def start_line(*, live: bool) -> AsyncIterator[StartLine]:
    """Show the line while something starts; only where a person looks at standard error."""
    line = StartLine(live=live, draw=_draw, width=lambda: shutil.get_terminal_size().columns)
    seen = sys.stderr is not None and sys.stderr.isatty()

    async def tick() -> None:
        begun = time.monotonic()
        while seen:
            await anyio.sleep(_TICK_S)
            line.look(time.monotonic() - begun)

    with one_error():
        async with anyio.create_task_group() as group:
            group.start_soon(tick)
            try:
                yield line
            finally:
                line.clear()
                group.cancel_scope.cancel()


def _draw(text: str) -> None:
    """Write to standard error as it is, if there is one."""
    if text.endswith("\n"):
        say(text.removesuffix("\n"))
    else:
        sys.stderr.write(text)
        sys.stderr.flush()
