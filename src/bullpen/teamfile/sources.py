"""The tasks of a team file and of its backlogs, added to its team: each once and no more."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import anyio

from bullpen.errors import BullpenError, Conflict
from bullpen.protocol.names import LEAD
from bullpen.protocol.task import Task
from bullpen.team.team import Team
from bullpen.teamfile.backlog import Item, new_drafts, read_backlog
from bullpen.teamfile.reading import TeamFile

_AGAIN_S = 30.0
"""So soon a source is read again that could not be read."""


class Backlogs:
    """What a team file and its backlogs name as tasks of one team."""

    name = "backlog"

    def __init__(self, team: Team, file: TeamFile, environ: Mapping[str, str]) -> None:
        self._team = team
        self._file = file
        self._environ = environ
        # What each source said last, by its place in the file; when it is to be read again.
        self._items: dict[int, list[Item]] = {}
        self._due: dict[int, float] = {}
        self._tell: Callable[[str], None] = lambda _: None

    @property
    def standing(self) -> bool:
        """Whether new entries are looked for as long as the team is at work."""
        return any(table.every_s is not None for table in self._file.backlog)

    async def read_all(self) -> None:
        """Read every source.

        Raises:
            Unavailable, Invalid: one cannot be read, or says what cannot be a task.
        """
        for number in range(len(self._file.backlog)):
            await self._read(number)
        new_drafts(self._known(), ())

    async def add(self, *, forgiving: bool = False) -> list[Task]:
        """Add what is no task yet, all of it in one commit.

        With `forgiving` a source that cannot be read is left for later.

        Raises:
            Unavailable, Invalid: as `read_all` does, unless `forgiving`.
        """
        for number in range(len(self._file.backlog)):
            try:
                if number not in self._items:
                    await self._read(number)
            except BullpenError:
                if not forgiving:
                    raise
        return await self._added()

    async def more(self) -> bool:
        """Look once more at what is looked at again; whether there were new tasks in it."""
        for number, table in enumerate(self._file.backlog):
            if table.every_s is None:
                continue
            try:
                await self._read(number)
            except BullpenError as error:
                self._could_not(number, error)
        return bool(await self._added())

    async def run(self, tell: Callable[[str], None]) -> None:
        """Read sources again when it is time, until cancelled. What goes wrong is told."""
        self._tell = tell
        while True:
            now = anyio.current_time()
            for number, table in enumerate(self._file.backlog):
                unread = number not in self._items
                if (not unread and table.every_s is None) or now < self._due.get(number, now):
                    continue
                try:
                    await self._read(number)
                    added = await self._added()
                except BullpenError as error:
                    self._could_not(number, error)
                    self._due[number] = now + max(_AGAIN_S, table.every_s or 0.0)
                else:
                    if added:
                        tell(f"backlog {number + 1}: {len(added)} new tasks")
            if not self.standing and len(self._items) == len(self._file.backlog):
                return
            await anyio.sleep(1.0)

    def _could_not(self, number: int, error: BullpenError) -> None:
        self._tell(f"backlog {number + 1} of {self._file.path.name}: {error}")

    async def _read(self, number: int) -> None:
        table = self._file.backlog[number]
        items = await read_backlog(table, self._file.folder, environ=self._environ)
        self._items[number] = items
        self._due[number] = anyio.current_time() + (table.every_s or _AGAIN_S)

    def _known(self) -> list[Item]:
        items = self._file.items()
        for number in sorted(self._items):
            items += self._items[number]
        return items

    async def _added(self) -> list[Task]:
        for last in (False, True):
            tasks = (await self._team.tasks.list()).tasks
            drafts = new_drafts(self._known(), tasks)
            if not drafts:
                return []
            try:
                return await self._team.tasks.add_many(drafts, by=LEAD)
            except Conflict:
                # Somebody else has just added some of them.
                if last:
                    raise
        return []
