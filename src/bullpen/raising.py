"""A team that a file describes, started and followed to its goal: what `bullpen up` does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

import anyio

from bullpen.agents.drivers.programs import READY_S
from bullpen.agents.duties import UNTIL_DONE
from bullpen.agents.launching import Spawned
from bullpen.agents.supervisor import Supervisor
from bullpen.app import Settings
from bullpen.errors import BullpenError, Conflict, Invalid, NotFound, StartFailed, one_error
from bullpen.goal import Outcome, Pursuit, Watch
from bullpen.office import Office, open_office, unattended
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.names import LEAD
from bullpen.team.team import Team
from bullpen.teamfile import MemberTable, TeamFile

TEAM_FILE = "team_file"
"""The option of a lead that says which file its team was made from, by its digest."""


@dataclass(frozen=True, slots=True)
class Wish:
    """A file, and how its team is to be started."""

    file: TeamFile
    cwd: str
    # Whether a person is there to answer what agents ask.
    attended: bool = True
    timeout_s: float | None = None


async def bring_up(settings: Settings, wish: Wish, watch: Watch) -> Outcome:
    """Start the team of a file, or take it up again, and wait until its goal is reached.

    Cancelling it stops the agents in order and keeps the team: it can be brought up again.

    Raises:
        Conflict: there is a team of that name which was not made from this file.
        Unavailable: a member could not be started; then nothing of a new team is left.
    """
    async with open_office(settings) as office:
        name = wish.file.team.name
        team, supervisor = office.teams.open(name), office.supervisor(name)
        if await _is_there(team, wish.file):
            pursuit = await _pursuit(team, supervisor, wish, watch)
            return await pursuit.run(
                lambda: supervisor.resume(by=LEAD, ready_s=READY_S), timeout_s=wish.timeout_s
            )
        specs = await _specs(office, wish)
        async with _NewTeam(office, wish) as new:
            pursuit = await _pursuit(team, supervisor, wish, watch)
            try:
                return await pursuit.run(
                    lambda: _start(team, supervisor, wish.file, specs), timeout_s=wish.timeout_s
                )
            finally:
                new.keep = pursuit.begun


async def start(settings: Settings, wish: Wish) -> list[Spawned]:
    """Start the team of a file, or take it up again, and leave it to itself.

    Raises:
        Conflict, Unavailable: as `bring_up` does.
        Invalid: an agent inside this process could not outlive it.
    """
    inside = [member.name for member in wish.file.members if member.backend == "in-process"]
    if inside:
        raise Invalid(
            f"Agents inside this process cannot outlive it: {', '.join(inside)}.",
            remedy="Give them another backend, or leave --detach out.",
        )
    async with open_office(settings) as office:
        name = wish.file.team.name
        team, supervisor = office.teams.open(name), office.supervisor(name)
        if await _is_there(team, wish.file):
            await supervisor.tend(by=LEAD)
            return await supervisor.resume(by=LEAD, ready_s=READY_S)
        specs = await _specs(office, wish)
        async with _NewTeam(office, wish) as new:
            spawned = await _start(team, supervisor, wish.file, specs)
            new.keep = True
            return spawned


async def _has_lead(team: Team, file: TeamFile) -> bool:
    """Whether the team has a lead that was registered for this file."""
    lead = (await team.agents.config()).member(LEAD)
    agent = lead.agent if lead is not None else None
    return agent is not None and agent.asked.options.get(TEAM_FILE) == file.digest


async def _is_there(team: Team, file: TeamFile) -> bool:
    """Whether the team was made from this file before."""
    try:
        if await _has_lead(team, file):
            return True
    except NotFound:
        return False
    raise Conflict(
        f"There is a team {team.name!r} already, not made from what {file.path} says now.",
        remedy=f"Delete it (bullpen team delete {team.name}), or rename the team in the file.",
    )


async def _pursuit(team: Team, supervisor: Supervisor, wish: Wish, watch: Watch) -> Pursuit:
    return Pursuit(
        team,
        supervisor,
        watch,
        seen=len(await team.events()),
        keep=False,
        # Whoever may go on elsewhere is seen to by the hosts, with or without somebody watching.
        members=[member.name for member in wish.file.teammates if not member.respawn],
    )


async def _specs(office: Office, wish: Wish) -> dict[str, AgentSpec]:
    """What to spawn, by name: all of it is made before anything is started."""
    specs = {}
    for member in wish.file.members:
        with _saying_where(wish.file, member):
            specs[member.name] = await _spec(office, wish, member)
    return specs


async def _spec(office: Office, wish: Wish, member: MemberTable) -> AgentSpec:
    leads = member.name == LEAD
    file = wish.file
    spec = await office.spec(
        driver=member.driver,
        backend=member.backend,
        cwd=wish.cwd,
        role=member.role,
        model=member.model,
        prompt=file.team.goal if leads else member.prompt,
        script=None if member.script is None else str(file.folder / member.script),
        command=member.command,
        mode=member.mode,
        policy=member.policy(file.folder),
        claims=not leads,
        env=member.env,
        on=member.labels,
        respawn=member.respawn,
    )
    if not wish.attended and member.approver is None:
        spec = unattended(spec, plans=member.plan_approver is None)
    if not leads:
        return spec
    return spec.evolve(options={**spec.options, UNTIL_DONE: True, TEAM_FILE: file.digest})


class _NewTeam:
    """A team that is made now, and is gone again if its start fails."""

    def __init__(self, office: Office, wish: Wish) -> None:
        self._office = office
        self._file = wish.file
        self._cwd = wish.cwd
        self.keep = False

    async def __aenter__(self) -> Self:
        file, teams = self._file, self._office.teams
        words = " ".join(file.team.goal.split())
        # An interruption in here would leave a team that nobody removes.
        with anyio.CancelScope(shield=True):
            await teams.create(file.team.name, description=words[:200], cwd=self._cwd)
            budget = file.budget
            await teams.open(file.team.name).agents.grant(
                by=LEAD, turns=budget.turns, tokens=budget.tokens, usd=budget.usd
            )
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None or self.keep:
            return
        name, failed = self._file.team.name, isinstance(error, BullpenError)
        with anyio.CancelScope(shield=True):
            # The lead comes last: of one that was interrupted after that, nothing is missing.
            if not failed and await _has_lead(self._office.teams.open(name), self._file):
                return
            await self._office.delete_team(name, by=LEAD, force=True)
        if isinstance(error, BullpenError):
            error.message += f" Team {name!r} was not started; nothing of it runs."


async def _start(
    team: Team, supervisor: Supervisor, file: TeamFile, specs: dict[str, AgentSpec]
) -> list[Spawned]:
    """Start the teammates, add the tasks, then start the lead: it finds everything there."""
    started = await _spawn(supervisor, file, file.teammates, specs)
    if file.tasks:
        await team.tasks.add_many(file.drafts(), by=LEAD)
    return [*await _spawn(supervisor, file, [file.lead], specs), *started]


async def _spawn(
    supervisor: Supervisor,
    file: TeamFile,
    members: Sequence[MemberTable],
    specs: dict[str, AgentSpec],
) -> list[Spawned]:
    """Start members at the same time: some programs take long to get ready."""
    started: dict[str, Spawned] = {}

    async def spawn(member: MemberTable) -> None:
        with _saying_where(file, member):
            started[member.name] = await supervisor.spawn(
                member.name, specs[member.name], by=LEAD, ready_s=READY_S
            )

    with one_error():
        async with anyio.create_task_group() as group:
            for member in members:
                group.start_soon(spawn, member)
    return [started[member.name] for member in members]


@contextmanager
def _saying_where(file: TeamFile, member: MemberTable) -> Iterator[None]:
    """Let an error name the member that it is about."""
    try:
        yield
    except StartFailed:
        # It names the member itself, and the file is not to blame.
        raise
    except BullpenError as error:
        error.message = f"{file.path}: member {member.name!r}: {error.message}"
        raise
