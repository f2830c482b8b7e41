"""Brings what our merge queue merged to the forge in one pull request for the night."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from bullpen.errors import Conflict, NotFound, Refused
from bullpen.protocol.forge import ForgeNight, ForgeSettings, ForgeWrite
from bullpen.runs.forge.connection import Connection
from bullpen.runs.forge.landing.night_outbox import NightOutbox
from bullpen.team.forge.nights import rules
from bullpen.team.forge.outbox_rules import Wish, next_due, numbered, write_of
from bullpen.team.team import Team

_WRITES_MAX = 100


class NightWork:
    """What a worker writes for the nights of a team."""

    def __init__(
        self,
        team: Team,
        settings: ForgeSettings,
        connection: Connection,
        *,
        tell: Callable[[str], None],
        stir: Callable[[int], None],
    ) -> None:
        """`stir` is called with a pull request in which something changed."""
        self._team = team
        self._settings = settings
        self._connection = connection
        self._tell = tell
        self._stir = stir
        # Tasks whose work the forge's target has, however it came there.
        self._there: set[str] = set()

    async def write(self) -> None:
        """Put merged work into the night, and make every write that is due for it."""
        await self._gather()
        on = await self._team.forge.now()
        for night in on.nights:
            wishes = rules.wishes_of(night, on.every, self._team.name)
            if night.work.outcome is None or wishes or next_due(night.work) is not None:
                await self._write(night.n)

    async def _gather(self) -> None:
        if self._settings.pull_request != "night":
            return
        on = await self._team.forge.now()
        found = rules.fresh(on.every.values(), on.nights)
        fresh = {task.id: rules.landed_commit(task) for task in found}
        asked = {id_: commit for id_, commit in fresh.items() if id_ not in self._there}
        if not asked:
            return
        self._there |= await self._connection.blocking(partial(self._connection.on_target, asked))
        if not asked.keys() <= self._there:
            await self._team.nights.gather(there=sorted(self._there))

    async def _write(self, n: int) -> None:
        skipped: set[int] = set()
        for _ in range(_WRITES_MAX):
            on = await self._team.forge.now()
            night = rules.numbered(on.nights, n)
            wishes = rules.wishes_of(night, on.every, self._team.name)
            if wishes:
                night = await self._begun(night, wishes)
            left = [each for each in night.work.writes if each.n not in skipped]
            write = next_due(night.work.evolve(writes=left))
            outbox = NightOutbox(self._connection.desk(self._team, self._settings), night, on.every)
            if write is None:
                await self._keep_text(night, outbox)
                return
            await self._make(night, write, outbox)
            skipped.add(write.n)

    async def _begun(self, night: ForgeNight, wishes: Sequence[Wish]) -> ForgeNight:
        """Record writes as due. A night that made too many is for a person, and blocks nobody."""
        try:
            return await self._team.nights.begin(night.n, wishes)
        except Refused as refused:
            if refused.reason != "too_many_writes":
                raise
        self._tell(f"{rules.night_id(night)} needs you: {rules.TOO_MANY_WRITES}")
        return await self._team.nights.hold(night.n, rules.TOO_MANY_WRITES)

    async def _make(self, night: ForgeNight, write: ForgeWrite, outbox: NightOutbox) -> None:
        try:
            after = (await outbox.make(rules.as_task(night), write)).facts.forge
        except (Refused, NotFound, Conflict) as error:
            # It will not get better by itself, and must not keep others waiting.
            await self._team.nights.drop(night.n, write.n)
            self._tell(f"{rules.night_id(night)}: {write.kind} was not possible: {error.message}")
            return
        if after is not None and after.pull is not None:
            if write.kind == "pull" and numbered(after, write.n).state == "done":
                self._tell(f"{rules.night_id(night)} has pull request #{after.pull}")
            self._stir(after.pull)

    async def _keep_text(self, night: ForgeNight, outbox: NightOutbox) -> None:
        write = write_of(night.work, "pull", str(night.work.life))
        if night.work.outcome is not None or write is None or write.state != "done":
            return
        try:
            await outbox.keep_text(write)
        except (Refused, NotFound, Conflict) as error:
            self._tell(f"{rules.night_id(night)}: its text is not up to date: {error.message}")
