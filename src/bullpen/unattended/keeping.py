"""What is seen to while a team is pursued: put together for one team."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

import anyio

from bullpen.agents.launching import agent_folder
from bullpen.agents.merging import open_queue
from bullpen.agents.supervisor import Supervisor
from bullpen.errors import one_error
from bullpen.office import Office
from bullpen.protocol.merge import MergeSettings
from bullpen.protocol.names import LEAD
from bullpen.store.clock import now_ms
from bullpen.team.team import Team
from bullpen.unattended.foreman import Foreman
from bullpen.unattended.happenings import happenings
from bullpen.unattended.lead_mail import LeadMail
from bullpen.unattended.merging import Merging
from bullpen.unattended.notices import Notices, Told
from bullpen.unattended.pursuit import Care, Chore
from bullpen.unattended.quiet import QuietHours
from bullpen.unattended.restarts import Restarts
from bullpen.unattended.saved_work import saved_work
from bullpen.workspace.queue.running import Queue, Stepped


class MoreTasks(Chore, Protocol):
    """Where more tasks come from while a team is at work."""

    @property
    def standing(self) -> bool:
        """Whether it is looked at again and again."""

    async def more(self) -> bool:
        """Look once more; whether there was something new."""


@asynccontextmanager
async def keeping(
    office: Office,
    team_name: str,
    *,
    led: bool,
    unattended: bool,
    members: Sequence[str] | None = (),
    notify: Sequence[Told] = (),
    cwd: str = ".",
    backlogs: MoreTasks | None = None,
) -> AsyncIterator[Care]:
    """What is seen to while a team is pursued.

    `unattended` says that code has to see to what a person would: who comes no further, what
    passes by itself. `members` are those that are started again after a kill; None for all.
    Whoever is in `notify` is told what happens, in the directory `cwd`.
    """
    team, supervisor = office.teams.open(team_name), office.supervisor(team_name)
    restarts = Restarts(patient=unattended, members=members)
    quiet = QuietHours(
        team, lambda name, action, why: supervisor.order(name, action, by=LEAD, reason=why)
    )
    foreman = _foreman(team, supervisor, restarts, led=led) if unattended else None
    merging = Merging(
        team,
        _steps(office, team),
        quiet=quiet.now,
        returned=None if foreman is None else foreman.wake,
    )
    chores: list[Chore] = [merging, quiet]
    if foreman is not None:
        chores.append(foreman)
    if not led:
        chores.append(LeadMail(team))
    if backlogs is not None:
        chores.append(backlogs)
    notices = await _notices(office, team, notify, cwd)
    care = Care(
        restarts=restarts,
        patient=unattended,
        chores=chores,
        queue=merging.state,
        quiet=quiet.now,
        more=None if backlogs is None else backlogs.more,
        standing=backlogs is not None and backlogs.standing,
        notices=notices,
        needs=lambda: _needs(team, merging),
    )
    with one_error():
        async with anyio.create_task_group() as group:
            if notices is not None:
                group.start_soon(notices.run)
            yield care
            group.cancel_scope.cancel()


class _Reach:
    """What the foreman may do to agents, through their supervisor."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor

    async def cancel(self, name: str) -> None:
        await self._supervisor.order(name, "cancel", by=LEAD, reason="its task was taken from it")

    async def end(self, name: str, reason: str) -> None:
        await self._supervisor.stop(name, by=LEAD, end="lost", reason=reason)

    async def transcript(self, name: str) -> Path:
        return await self._supervisor.transcript(name)


def _foreman(team: Team, supervisor: Supervisor, restarts: Restarts, *, led: bool) -> Foreman:
    return Foreman(
        team,
        supervisor.look,
        _Reach(supervisor),
        led=led,
        returning=lambda name, agent: restarts.comes_back(name, agent, now_ms() / 1000),
    )


async def _notices(office: Office, team: Team, notify: Sequence[Told], cwd: str) -> Notices | None:
    """What tells commands; with what happened since they were last told, while nobody watched."""
    if not notify:
        return None
    config = await team.agents.config()
    kept = agent_folder(office.settings.home, config, LEAD).parent / "notices.json"
    notices = Notices(notify, cwd=cwd, environ=os.environ, kept=kept)
    until = notices.told_until()
    if until is not None:
        for event in await team.events(after=until):
            for happening in happenings(team.name, event):
                notices.hear(happening)
    return notices


def _steps(office: Office, team: Team) -> Callable[[MergeSettings], Awaitable[Stepped | None]]:
    """What takes one step of the merge queue, with whatever the settings are by then."""
    queues: dict[str, Queue] = {}

    async def step(settings: MergeSettings) -> Stepped | None:
        key = repr(settings.raw)
        if key not in queues:
            queues.clear()
            queues[key] = await open_queue(
                team, settings, home=office.settings.home, environ=os.environ
            )
        return await queues[key].step()

    return step


async def _needs(team: Team, merging: Merging) -> list[str]:
    """What a person has to see to that no record of the team says."""
    found = []
    trouble = merging.state().trouble
    if trouble is not None:
        found.append(f"merges are held: {trouble}")
    return [*found, *await saved_work(team)]
