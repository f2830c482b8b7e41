"""Follows a team for its screen, also through errors."""

from __future__ import annotations

from contextlib import aclosing
from typing import Protocol

import anyio

from bullpen.errors import BullpenError, NotFound
from bullpen.protocol.clock import Clock
from bullpen.team.team import Teams
from bullpen.view.follow import TeamFollower
from bullpen.view.scene import Scene
from bullpen.view.story import Story

_GAP_S = 0.15
"""The least time between two updates, so that many changes at once are one update."""

_RETRY_S = 2.0
_HEARTBEATS_S = 2.0
"""How often heartbeats are read; with thousands of tasks each read is expensive."""


class Shows(Protocol):
    """What shows a team, and what is wrong with it."""

    def show(self, scene: Scene, story: Story) -> None: ...
    def say(self, trouble: str) -> None: ...


async def follow_team(teams: Teams, name: str, clock: Clock, screen: Shows) -> None:
    """Show every change of the team; after an error, say so and try again."""
    seen = False
    while True:
        try:
            following = TeamFollower(teams.open(name), clock=clock, every_s=_HEARTBEATS_S)
            if not seen:
                # The log can be long: first show the team without what happened.
                screen.show(*await following.first_look())
                seen = True
            async with aclosing(following.scenes()) as scenes:
                async for scene in scenes:
                    screen.show(scene, following.story)
                    await anyio.sleep(_GAP_S)
        except NotFound:
            what = f"The team {name} was deleted." if seen else f"There is no team {name}."
            screen.say(f"{what} Type /teams for the others.")
        except BullpenError as error:
            screen.say(f"{error} Trying again.")
        except Exception as error:
            screen.say(f"This is a bug in Bullpen: {type(error).__name__}: {error}")
        await anyio.sleep(_RETRY_S)
