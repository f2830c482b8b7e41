"""Follows a team: keeps its story up to date and gives a scene after each change.

It begins with the last part of the log, and then reads only new events and heartbeats, so a long
history costs nothing. While nothing happens, it reads heartbeats only.
"""

from __future__ import annotations

import time
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
from bullpen.view.cards import TaskCards
from bullpen.view.scene import Scene, scene_of
from bullpen.view.story import Story, story_at

HEARTBEATS_S = 1.0
"""How often heartbeats are read; they do not count as changes."""

GAP_S = 0.05
"""The least time between two scenes, so that many changes at once give one scene."""

_RETRY_S = 1.0

_LOG_S = 10.0
"""How often the log is read although nothing was reported: some file systems report nothing."""


class TeamFollower:
    """One team, followed by one reader."""

    def __init__(self, team: Team, *, clock: Clock = now_ms, every_s: float = HEARTBEATS_S) -> None:
        self._team = team
        self._every_s = every_s
        self._roster = RosterView(team, clock=clock)
        self._clock = clock
        self._cards = TaskCards()
        self.story = Story()
        self.events: list[Event] = []

    async def first_look(self) -> tuple[Scene, Story]:
        """The team as its records say, with a story that has no history: the log is not read.

        Raises NotFound, Unavailable.
        """
        snapshot = await self._team.snapshot()
        beats, unknown = await self._roster.beats()
        story = story_at(snapshot)
        scene = self._scene(story, TaskCards(), beats, unknown)
        unread = {view.member.name: view.unread for view in snapshot.members}
        members = (replace(card, unread=unread.get(card.name)) for card in scene.members)
        return replace(scene, members=tuple(members)), story

    async def look(self) -> Scene:
        """The team as it is now. Raises NotFound, Unavailable."""
        await self._read_on()
        return await self._look()

    async def _look(self) -> Scene:
        """The team as the log said at last, with the heartbeats of now."""
        beats, unknown = await self._roster.beats()
        return await to_thread.run_sync(self._scene, self.story, self._cards, beats, unknown)

    async def scenes(self) -> AsyncGenerator[Scene, None]:
        """The scene now, and again after each visible change.

        While the store cannot be read, the last scene is repeated with the problem. Raises
        NotFound when the team is deleted.
        """
        last: Scene | None = None
        while True:
            try:
                quiet = _Quiet(self._every_s)
                changes = self._team.changes(every_s=self._every_s)
                async with aclosing(changes):
                    async for seq in changes:
                        unchanged = quiet.was(time.monotonic()) and seq == self.story.seq
                        scene = await (self._look() if unchanged else self.look())
                        if scene != last:
                            last = scene
                            yield scene
                            await anyio.sleep(GAP_S)
                        quiet.begin(time.monotonic(), read=not unchanged)
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
            self._cards = TaskCards()
        if not self.story.seq:
            fresh = await self._team.recent_events()
            story = Story()
            # Nobody sees this story yet, so a thread can tell it without blocking other work.
            await to_thread.run_sync(story.tell, fresh)
            self.story = story
        else:
            fresh = await self._team.events(after=self.story.seq)
            for begin in range(0, len(fresh), 500):
                self.story.tell(fresh[begin : begin + 500])
                await anyio.lowlevel.checkpoint()
        self.events += fresh

    def _scene(
        self, story: Story, cards: TaskCards, beats: Mapping[str, Presence], unknown: str | None
    ) -> Scene:
        now = self._clock()
        # The scene gets their tasks and unread messages from the story.
        members = [
            member_view(member, beats.get(name), (), None, now)
            for name, member in story.members.items()
        ]
        views = self._roster.views(members, beats, unknown=unknown)
        scene = scene_of(story, now_ms=now, agents=views, cards=cards)
        return scene if unknown is None else replace(scene, problems=(*scene.problems, unknown))


class _Quiet:
    """Tells whether a wake-up came from the clock alone, so that the log need not be read.

    A change is reported at once, and the clock only after `every_s`. Whoever worked so long that
    both come together reads the log.
    """

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._woken = self._read = -_LOG_S
        self._waits = 0.0

    def was(self, now: float) -> bool:
        woken, self._woken = self._woken, now
        if now - self._read >= _LOG_S:
            return False
        return now - woken >= self._every_s and now - self._waits >= self._every_s / 2

    def begin(self, now: float, *, read: bool) -> None:
        """The wait begins; `read` is whether the log was read before it."""
        self._waits = now
        if read:
            self._read = now
