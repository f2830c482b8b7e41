"""Finds out what a team file would do, without doing it: `bullpen up --dry-run`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from anyio import to_thread

from bullpen.agents.config.definitions import MODELS
from bullpen.agents.drivers.native.model_choice import ModelChoice, choose
from bullpen.agents.drivers.native.provider.options import ModelOptions
from bullpen.agents.drivers.registry import check_spec
from bullpen.agents.drivers.scripted.script import load
from bullpen.agents.system.vendors.model_providers import PROVIDERS
from bullpen.app.app import App, open_app
from bullpen.app.settings import Settings
from bullpen.errors import BullpenError
from bullpen.protocol.agent import AgentSpec, Usage
from bullpen.runs.shaping import shaping_of
from bullpen.runs.teamfile.backlog.backlog import Item, new_drafts, read_backlog
from bullpen.runs.teamfile.dry_run.costs import Price
from bullpen.runs.teamfile.dry_run.gate_trial import gate_warning
from bullpen.runs.teamfile.dry_run.plan import TeamPlan, plan
from bullpen.runs.teamfile.tables import MemberTable
from bullpen.runs.teamfile.team_records import merge_settings
from bullpen.runs.up import StartRequest, TeamStart

_ANY_KEY = {name: "-" for each in PROVIDERS.values() for name in (*each.keys, each.url_variable)}


async def dry_run(settings: Settings, request: StartRequest) -> TeamPlan:
    """Check everything that `bullpen up` needs, and simulate the tasks.

    No agent is started, and nothing is saved. The plan names all problems that would prevent a
    start. If there are none, the merge gate runs once on the target, in a worktree that is removed
    again: work cannot be merged while it fails there, which is a warning.

    Raises:
        Invalid: its tasks contradict each other.
    """
    async with open_app(settings) as app:
        checks = _Checks(app, request)
        await checks.run()
        items = [*request.file.items(), *checks.items]
        shaping = shaping_of(request.file, app.teams.open(request.file.team.name), request.cwd)
        if shaping is not None and not checks.is_blind:
            items = await shaping.shaped(items)
    made = await plan(
        request.file,
        items,
        models={name: spec.model for name, spec in checks.specs.items()},
        price=_Prices(request).of,
        problems=checks.problems,
    )
    if not made.problems:
        # Without problems, what the project asks for is trusted, and each sandbox is known.
        warning = await gate_warning(settings.home, request, checks.specs)
        made.warnings.extend([] if warning is None else [warning])
    return made


class _Checks:
    """What would be started, and all problems that would prevent it."""

    def __init__(self, app: App, request: StartRequest) -> None:
        self._request = request
        self._start = TeamStart(app, request)
        self.specs: dict[str, AgentSpec] = {}
        self.items: list[Item] = []
        # Whether the evals that choose the shape of the work cannot be read.
        self.is_blind = False
        # The problems, and the members that each is about.
        self._problems: dict[str, list[str]] = {}

    @property
    def problems(self) -> list[str]:
        """Return all problems, in words."""
        return [
            f"{', '.join(names)}: {text}" if names else text
            for text, names in self._problems.items()
        ]

    async def run(self) -> None:
        """Check each thing, whatever is wrong with the others."""
        file = self._request.file
        with self._noted():
            await self._start.find()
        self.is_blind = True
        with self._noted():
            await self._start.look_at_evals()
            self.is_blind = False
        for member in file.members:
            with self._noted(member):
                self.specs[member.name] = await self._spec(member)
        for table in file.backlog:
            with self._noted():
                found = await read_backlog(table, file.folder, environ=os.environ)
                new_drafts([*file.items(), *self.items, *found], ())
                self.items += found
        if file.merge is not None:
            with self._noted():
                await to_thread.run_sync(merge_settings, file.merge, self._request.cwd)

    @contextmanager
    def _noted(self, member: MemberTable | None = None) -> Iterator[None]:
        """Note an error as a problem, of a member or of all, and go on."""
        try:
            yield
        except BullpenError as error:
            text, names = str(error), []
            if member is not None:
                where = self._request.file.where(member)
                text, names = text.removeprefix(f"{where}: "), [member.name]
            self._problems.setdefault(text, []).extend(names)

    async def _spec(self, member: MemberTable) -> AgentSpec:
        spec = await self._start.spec(member)
        if member.on is None:
            # Its worktree does not exist yet.
            here = spec.evolve(cwd=self._request.cwd)
            in_money = self._request.file.budget.usd is not None
            await to_thread.run_sync(partial(check_spec, here, in_money, environ=os.environ))
            if spec.script is not None:
                await to_thread.run_sync(load, Path(spec.script), member.name)
        return spec


class _Prices:
    """Prices of models. A lookup takes long, and tasks are alike, so they are cached."""

    def __init__(self, request: StartRequest) -> None:
        self._tables = request.file.models
        self._known: dict[tuple[str, Usage], float | None] = {}

    def of(self, member: MemberTable, model: str | None) -> Price:
        """Return the price of a member's model, as far as it is known."""
        asked = model or member.model
        if asked is None and member.driver != "native":
            return _unknown
        try:
            # A price needs no key.
            choice = choose(MODELS.get(asked or "", asked), _ANY_KEY)
        except BullpenError:
            return _unknown
        return partial(self._priced, choice)

    def _priced(self, choice: ModelChoice, used: Usage) -> float | None:
        key = (str(choice), used)
        if key not in self._known:
            try:
                from bullpen.agents.drivers.native.provider.prices import price
            except ImportError:
                return None
            tables = (self._tables.get(name) for name in (str(choice), choice.model))
            table = next((each for each in tables if each is not None), None)
            told = {} if table is None else table.model_dump(exclude_none=True)
            self._known[key] = price(choice, used, options=ModelOptions.of(told))
        return self._known[key]


def _unknown(_: Usage) -> None:
    return None
