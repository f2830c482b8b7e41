"""Follows a team: keeps its story up to date and gives a scene after each change.

It begins with the last part of the log, and then reads only new events and heartbeats, so a long
history costs nothing.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import replace

import anyio
import anyio.lowlevel
from anyio import to_thread

from bullpen.agents.supervisor.roster_view import RosterView
from bullpen.errors import Unavailable
from bullpen.protocol.changes import Event
from bullpen.protocol.clock import Clock, now_ms
from bullpen.protocol.presence import Presence
from bullpen.team.snapshot import member_view
from bullpen.team.team import Team
from bullpen.view.scene import Drawn, Scene, scene_of
from bullpen.view.story import Story

HEARTBEATS_S = 1.0
"""How often heartbeats are read; they do not count as changes."""

GAP_S = 0.05
"""The least time between two scenes, so that many changes at once give one scene."""

_RETRY_S = 1.0


class TeamFollower:
    """One team, followed by one reader."""

    def __init__(self, team: Team, *, clock: Clock = now_ms, every_s: float = HEARTBEATS_S) -> None:
        self._team = team
        self._every_s = every_s
        self._roster = RosterView(team, clock=clock)
        self._clock = clock
        self._drawn: Drawn = {}
        self.story = Story()
        self.events: list[Event] = []

    async def look(self) -> Scene:
        """The team as it is now. Raises NotFound, Unavailable."""
        await self._read_on()
        beats, unknown = await self._roster.beats()
        return await to_thread.run_sync(self._scene, beats, unknown)

    async def scenes(self) -> AsyncGenerator[Scene, None]:
        """The scene now, and again after each visible change.

        While the store cannot be read, the last scene is repeated with the problem. Raises
        NotFound when the team is deleted.
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
                trouble = replace(last, problems=(f"{error} Trying again.",))
                if trouble != last:
                    last = trouble
                    yield trouble
                await anyio.sleep(_RETRY_S)

    async def _read_on(self) -> None:
        config = await self._team.agents.config()
        if self.story.seq and config.created_at != self.story.team.created_at:
            # Another team with this name was created.
            self.story, self.events = Story(), []
            self._drawn.clear()
        if self.story.seq:
            fresh = await self._team.events(after=self.story.seq)
        else:
            fresh = await self._team.recent_events()
        # In pieces, so that a long log does not block other work.
        for begin in range(0, len(fresh), 500):
            self.story.tell(fresh[begin : begin + 500])
            await anyio.lowlevel.checkpoint()
        self.events += fresh

    def _scene(self, beats: Mapping[str, Presence], unknown: str | None) -> Scene:
        story, now = self.story, self._clock()
        # The scene gets their tasks and unread messages from the story.
        members = [
            member_view(member, beats.get(name), (), None, now)
            for name, member in story.members.items()
        ]
        views = self._roster.views(members, beats, unknown=unknown)
        scene = scene_of(story, now_ms=now, agents=views, drawn=self._drawn)
        return scene if unknown is None else replace(scene, problems=(*scene.problems, unknown))
