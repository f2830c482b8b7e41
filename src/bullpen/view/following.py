"""Following a team: its story as it goes on, and its scene again whenever that changes.

What is read each time is what is new in the log, and the heartbeats: a long history and a long
list of tasks cost nothing while nothing happens to them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import replace

import anyio
import anyio.lowlevel
from anyio import to_thread

from bullpen.agents.rollcall import RollCall
from bullpen.errors import Unavailable
from bullpen.protocol.changes import Event
from bullpen.protocol.presence import Presence
from bullpen.store.clock import Clock, now_ms
from bullpen.team.snapshot import member_view
from bullpen.team.team import Team
from bullpen.view.scene import Drawn, Scene, scene_of
from bullpen.view.story import Story

HEARTBEATS_S = 1.0
"""How often heartbeats are looked at, which wake nobody."""

GAP_S = 0.05
"""The least time between two scenes: many changes at once are one."""

_AGAIN_S = 1.0


class Following:
    """One team, followed by one reader."""

    def __init__(self, team: Team, *, clock: Clock = now_ms, every_s: float = HEARTBEATS_S) -> None:
        """`every_s` is how often heartbeats are looked at."""
        self._team = team
        self._every_s = every_s
        self._roll = RollCall(team, clock=clock)
        self._clock = clock
        self._drawn: Drawn = {}
        self.story = Story()
        self.events: list[Event] = []

    async def look(self) -> Scene:
        """The team as it is now. Raises NotFound if there is none, Unavailable."""
        await self._read_on()
        beats = await self._team.agents.presence()
        return await to_thread.run_sync(self._scene, beats)

    async def scenes(self) -> AsyncGenerator[Scene, None]:
        """The scene now, and again after each change that shows.

        While the store cannot be read, the last scene says so; that it is back shows too. Ends
        with NotFound when the team is deleted.
        """
        last: Scene | None = None
        while True:
            try:
                changes = self._team.changes(every_s=self._every_s)
                async with aclosing(changes):
                    async for _ in changes:
                        scene = await self.look()
                        if scene != last:
                            last = scene
                            yield scene
                            await anyio.sleep(GAP_S)
            except Unavailable as error:
                if last is None:
                    raise
                trouble = replace(last, problems=(f"{error} It is tried again.",))
                if trouble != last:
                    last = trouble
                    yield trouble
                await anyio.sleep(_AGAIN_S)

    async def _read_on(self) -> None:
        config = await self._team.agents.config()
        if self.story.seq and config.created_at != self.story.team.created_at:
            # Another team has the name now.
            self.story, self.events = Story(), []
            self._drawn.clear()
        fresh = await self._team.events(after=self.story.seq)
        # In pieces, so that a long log does not hold up whoever waits.
        for begin in range(0, len(fresh), 500):
            self.story.tell(fresh[begin : begin + 500])
            await anyio.lowlevel.checkpoint()
        self.events += fresh

    def _scene(self, beats: Mapping[str, Presence]) -> Scene:
        story, now = self.story, self._clock()
        # Which tasks they have and what they have not read, the scene counts from the story.
        members = [
            member_view(member, beats.get(name), (), None, now)
            for name, member in story.members.items()
        ]
        views = self._roll.views(members, beats)
        return scene_of(story, now_ms=now, agents=views, drawn=self._drawn)
