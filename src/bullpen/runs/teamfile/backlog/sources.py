"""Adds the tasks of a team file and of its backlogs to its team, each exactly once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

import anyio

from bullpen.errors import BullpenError, Conflict
from bullpen.protocol.names import LEAD
from bullpen.protocol.task import Task
from bullpen.runs.teamfile.backlog.backlog import Item, new_drafts, read_backlog
from bullpen.runs.teamfile.read import TeamFile
from bullpen.team.team import Team

_AGAIN_S = 30.0
"""After how long an unreadable source is read again."""


class Backlogs:
    """The tasks of a team file and its backlogs, for one team."""

    name = "backlog"

    def __init__(
        self,
        team: Team,
        file: TeamFile,
        environ: Mapping[str, str],
        shaped: Callable[[Sequence[Item]], Awaitable[list[Item]]] | None = None,
    ) -> None:
        """`shaped` says of new items who works on them."""
        self._team = team
        self._file = file
        self._environ = environ
        self._shaped = shaped
        # The items of each source, by its place in the file, and when it is read again.
        self._items: dict[int, list[Item]] = {}
        self._due: dict[int, float] = {}
        self._tell: Callable[[str], None] = lambda _: None

    @property
    def standing(self) -> bool:
        """Return whether sources are read again while the team works."""
        return any(table.every_s is not None for table in self._file.backlog)

    async def read_all(self) -> None:
        """Read every source. Raises Unavailable or Invalid if one is not usable."""
        for number in range(len(self._file.backlog)):
            await self._read(number)
        new_drafts(self._known(), ())

    async def add(self, *, forgiving: bool = False) -> list[Task]:
        """Add the items that are not tasks yet, in one commit.

        With `forgiving`, unusable sources are left for later; otherwise they raise as `read_all`.
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
        """Read the sources with `every_s` once more. Returns whether they had new tasks."""
        for number, table in enumerate(self._file.backlog):
            if table.every_s is None:
                continue
            try:
                await self._read(number)
            except BullpenError as error:
                self._could_not(number, error)
        return bool(await self._added())

    async def run(self, tell: Callable[[str], None]) -> None:
        """Read sources again when it is time, until cancelled, and report what goes wrong."""
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
            drafts = new_drafts(await self._with_shapes(tasks), tasks)
            if not drafts:
                return []
            try:
                return await self._team.tasks.add_many(drafts, by=LEAD)
            except Conflict:
                # Another process has just added some of them.
                if last:
                    raise
        return []

    async def _with_shapes(self, tasks: Sequence[Task]) -> list[Item]:
        """Return all known items; the new ones with how they are worked on."""
        known = self._known()
        if self._shaped is None:
            return known
        there = {task.facts.source for task in tasks}
        new = await self._shaped([item for item in known if item.source not in there])
        shaped = {item.source: item for item in new}
        return [shaped.get(item.source, item) for item in known]
