"""Runs a mirror: it wakes when either side changes, and waits when one is unreachable."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from dataclasses import asdict, dataclass, field
from typing import Literal

import anyio

from bullpen.errors import Conflict, NotFound, Unavailable, one_error
from bullpen.fleet.mirror.mirror import TeamMirror
from bullpen.protocol.clock import Clock, now_ms
from bullpen.store.contract import Store

_LOOK_EVERY_S = 10.0
_RETRY_S = (0.2, 0.5, 1.0, 2.0, 5.0)

State = Literal["in step", "away"]


@dataclass(frozen=True, slots=True)
class Status:
    """The state of a mirror. Two are equal if they say the same, whenever they were taken."""

    team: str
    home: str
    state: State
    near_seq: int
    far_seq: int
    sent: int
    taken: int
    refused: int
    last_refusal: str
    problem: str
    # When the other store last answered, and how long ago that was.
    contact_ms: int | None = field(compare=False)
    contact_age_ms: int | None = field(compare=False)


class Running:
    """A mirror that runs until it is cancelled, or until its team is gone."""

    def __init__(
        self,
        mirror: TeamMirror,
        near: Store,
        far: Store,
        *,
        tell: Callable[[Status], None],
        clock: Clock = now_ms,
    ) -> None:
        self._mirror, self._sides = mirror, (near, far)
        self._tell, self._clock = tell, clock
        self._bell = anyio.Event()
        self._told: Status | None = None

    async def run(self) -> None:
        """Run the mirror. Raises NotFound when the team is gone, Conflict if it cannot start.

        If a side cannot be reached, the mirror waits for it, however long that takes.
        """
        with self._mirror.place.held(), one_error():
            async with anyio.create_task_group() as tasks:
                listening = False
                failed = 0
                while True:
                    try:
                        while await self._mirror.step():
                            self._show("in step")
                        failed = 0
                    except Unavailable as error:
                        failed += 1
                        self._show("away", str(error), again=True)
                        await anyio.sleep(_RETRY_S[min(failed, len(_RETRY_S)) - 1])
                        continue
                    if not listening:
                        listening = True
                        for side in self._sides:
                            tasks.start_soon(self._listen, side)
                        continue
                    self._show("in step")
                    with anyio.move_on_after(_LOOK_EVERY_S):
                        await self._bell.wait()
                    self._bell = anyio.Event()

    async def _listen(self, side: Store) -> None:
        """Signal whenever a side changes. The step finds changes missed while a side was away."""
        failed = 0
        while True:
            try:
                async with aclosing(side.watch(self._mirror.team)) as changes:
                    async for _ in changes:
                        failed = 0
                        self._bell.set()
            except (NotFound, Conflict):
                # The step reports it better.
                self._bell.set()
                return
            except Unavailable:
                failed += 1
                await anyio.sleep(_RETRY_S[min(failed, len(_RETRY_S)) - 1])

    def _show(self, state: State, problem: str = "", *, again: bool = False) -> None:
        """Report the state if it is new; while a side is away, after each attempt."""
        mirror, now = self._mirror, self._clock()
        near_seq, far_seq = mirror.position
        heard = mirror.contact_ms
        status = Status(
            team=mirror.team,
            home=str(mirror.place.home),
            state=state,
            near_seq=near_seq,
            far_seq=far_seq,
            **asdict(mirror.counts),
            problem=problem,
            contact_ms=heard,
            contact_age_ms=None if heard is None else max(0, now - heard),
        )
        if again or status != self._told:
            self._told = status
            self._tell(status)
