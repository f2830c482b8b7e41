"""The teams of a home for a screen, and the app that acts in them once a person acts.

The modules of the app take longer to import than a screen takes to draw.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from anyio import to_thread
from textual.app import App as TextualApp

from bullpen.app.settings import Settings
from bullpen.app.stores import open_store
from bullpen.by_name import load
from bullpen.doors.tui.panes.pane import TeamLook
from bullpen.doors.tui.terminal_text import TerminalText
from bullpen.store.private_folder import narrow
from bullpen.team.team import Teams

if TYPE_CHECKING:
    from bullpen.app.app import App
    from bullpen.doors.tui.key_actions import KeyActions, Teller

_ACTIONS = "bullpen.doors.tui.key_actions:KeyActions"


class LateApp:
    """The teams of one home. Use it with `async with`."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._store = open_store(settings)
        self.teams = Teams(self._store)
        self._app: App | None = None

    async def __aenter__(self) -> Self:
        narrow(self.settings.home)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._app is None:
            await self.teams.aclose()
        else:
            await self._app.__aexit__(kind, error, trace)

    @property
    def app(self) -> App:
        """The app on the same store; its modules are imported at the first use."""
        if self._app is None:
            opened: App = load("bullpen.app.app:App")(self.settings, os.environ, store=self._store)
            self._app = opened
        return self._app

    async def ready_app(self) -> App:
        """The app, once its modules are imported in a thread: the screen stays alive meanwhile."""
        await to_thread.run_sync(load, _ACTIONS)
        return self.app

    async def key_actions(
        self,
        screens: TextualApp[Any],
        team: str,
        terminal: TerminalText,
        look: Callable[[], TeamLook | None],
        tell: Teller,
    ) -> KeyActions:
        """What a person does in a team."""
        app = await self.ready_app()
        actions: KeyActions = load(_ACTIONS)(screens, app, team, terminal, look, tell)
        return actions
