"""Watch a turn in which the program has gone silent: say so, and finally give the turn up."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import NoReturn

import anyio

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.contracts.driver import TurnFailed
from bullpen.agents.drivers.acp.program_session import AcpSession


@dataclass(frozen=True, slots=True)
class SilenceLimits:
    """How long a program may be silent in a turn, in seconds, before it is shown or given up."""

    shown_s: float = 300.0
    # Longer than any model request takes.
    ended_s: float = 1800.0


async def watch_silence(
    session: AcpSession, desk: Desk, limits: SilenceLimits, is_busy: Callable[[], bool]
) -> NoReturn:
    """Watch until the turn ends. Raises TurnFailed when the program was silent for too long.

    `is_busy` says whether a command runs or somebody has to answer the program: it may then be
    silent for as long as that takes.
    """
    title = session.preset.title
    busy_at = anyio.current_time()
    with ExitStack() as shown:
        is_shown = False
        while True:
            await anyio.sleep(limits.shown_s / 10)
            now = anyio.current_time()
            if is_busy():
                busy_at = now
            silent_s = now - max(busy_at, session.heard_at)
            if silent_s >= limits.ended_s:
                raise TurnFailed(
                    f"{title} was silent for {silent_s / 60:.0f} minutes of its turn, without a"
                    " command or a question of its own.",
                    remedy="It may wait for an answer that it asked nobody for, for example in a"
                    " subagent. Turn subagents off in its settings.",
                )
            if silent_s < limits.shown_s:
                shown.close()
                is_shown = False
            elif not is_shown:
                is_shown = True
                text = f"{title}, which has been silent for {silent_s / 60:.0f} minutes"
                desk.record("trouble", text=f"Waiting for {text}.")
                shown.enter_context(desk.waiting(text))
