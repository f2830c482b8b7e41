"""What a team file would do, found out without doing it: `bullpen up --dry-run`."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

from anyio import to_thread

from bullpen.agents.definitions import MODELS
from bullpen.agents.drivers.choice import check_spec
from bullpen.agents.drivers.native.choice import ANTHROPIC_KEY, OPENAI_KEY, Choice, choose
from bullpen.agents.drivers.script import load
from bullpen.app import Settings
from bullpen.errors import BullpenError
from bullpen.office import Office, open_office
from bullpen.protocol.agent import AgentSpec, Usage
from bullpen.raising import Raising, Wish
from bullpen.teamfile.backlog import Item, new_drafts, read_backlog
from bullpen.teamfile.costs import Price
from bullpen.teamfile.plan import Plan, plan
from bullpen.teamfile.records import merge_settings
from bullpen.teamfile.tables import MemberTable


async def rehearse(settings: Settings, wish: Wish) -> Plan:
    """Check all that `bullpen up` would ask for, and play the tasks through.

    Nothing is started, made or kept. What would keep the team from being started is in the plan,
    all of it.

    Raises:
        Invalid: its tasks contradict each other.
    """
    async with open_office(settings) as office:
        ahead = _Ahead(office, wish)
        await ahead.look()
    return await plan(
        wish.file,
        ahead.items,
        models={name: spec.model for name, spec in ahead.specs.items()},
        price=_Prices().of,
        problems=ahead.problems,
    )


class _Ahead:
    """Everything that would be started, and all that stands in the way."""

    def __init__(self, office: Office, wish: Wish) -> None:
        self._wish = wish
        self._raising = Raising(office, wish)
        self.specs: dict[str, AgentSpec] = {}
        self.items: list[Item] = []
        # What stands in the way, and whom of the members it is about.
        self._problems: dict[str, list[str]] = {}

    @property
    def problems(self) -> list[str]:
        """All that stands in the way."""
        return [
            f"{', '.join(names)}: {text}" if names else text
            for text, names in self._problems.items()
        ]

    async def look(self) -> None:
        """Look at each thing, whatever was wrong with the others."""
        file = self._wish.file
        try:
            await self._raising.find()
        except BullpenError as error:
            self._met(error)
        for member in file.members:
            try:
                self.specs[member.name] = await self._spec(member)
            except BullpenError as error:
                self._met(error, member)
        for table in file.backlog:
            try:
                self.items += await read_backlog(table, file.folder, environ=os.environ)
                new_drafts([*file.items(), *self.items], ())
            except BullpenError as error:
                self.items = []
                self._met(error)
        if file.merge is not None:
            try:
                await to_thread.run_sync(merge_settings, file.merge, self._wish.cwd)
            except BullpenError as error:
                self._met(error)

    def _met(self, error: BullpenError, member: MemberTable | None = None) -> None:
        text, names = str(error), []
        if member is not None:
            text, names = text.removeprefix(f"{self._wish.file.where(member)}: "), [member.name]
        self._problems.setdefault(text, []).extend(names)

    async def _spec(self, member: MemberTable) -> AgentSpec:
        spec = await self._raising.spec(member)
        if member.on is None:
            # Its tree is not there yet.
            here = spec.evolve(cwd=self._wish.cwd)
            in_money = self._wish.file.budget.usd is not None
            await to_thread.run_sync(partial(check_spec, here, in_money, environ=os.environ))
            if spec.script is not None:
                await to_thread.run_sync(load, Path(spec.script), member.name)
        return spec


class _Prices:
    """What models take. Looking it up takes long, and tasks are alike."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, Usage], float | None] = {}

    def of(self, member: MemberTable, model: str | None) -> Price:
        """What the model of a member takes, as far as that is known."""
        asked = model or member.model
        if asked is None and member.driver != "native":
            return _unknown
        try:
            # A price needs no key.
            choice = choose(MODELS.get(asked or "", asked), {ANTHROPIC_KEY: "-", OPENAI_KEY: "-"})
        except BullpenError:
            return _unknown
        return partial(self._priced, choice)

    def _priced(self, choice: Choice, used: Usage) -> float | None:
        key = (str(choice), used)
        if key not in self._known:
            try:
                from bullpen.agents.drivers.native.prices import price
            except ImportError:
                return None
            self._known[key] = price(choice, used)
        return self._known[key]


def _unknown(_: Usage) -> None:
    return None
