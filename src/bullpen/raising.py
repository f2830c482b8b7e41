"""A team that a file describes, started and followed to its end: what `bullpen up` does.

Every step can be done again: a team that was left half made by a kill is finished by the next
`bullpen up`, with nobody started and no task added twice.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Self, TypeVar

import anyio
from anyio.abc import TaskGroup

from bullpen.agents.drivers.programs import READY_S
from bullpen.agents.duties import UNTIL_DONE
from bullpen.agents.launching import Spawned
from bullpen.agents.trees import WorkspaceWish
from bullpen.app import Settings
from bullpen.errors import (
    BullpenError,
    Conflict,
    Invalid,
    NotFound,
    StartFailed,
    one_error,
)
from bullpen.office import Office, open_office, unattended
from bullpen.protocol.agent import AgentSpec, TeamFacts
from bullpen.protocol.merge import MergeSettings
from bullpen.protocol.names import LEAD
from bullpen.protocol.unattended import Origin
from bullpen.teamfile.reading import TeamFile
from bullpen.teamfile.records import (
    digest_of,
    habits_of,
    limits_of,
    merge_settings,
    origin_of,
)
from bullpen.teamfile.sources import Backlogs
from bullpen.teamfile.tables import MemberTable
from bullpen.unattended.ending import all_done
from bullpen.unattended.keeping import keeping
from bullpen.unattended.notices import Told
from bullpen.unattended.outcome import Outcome, Watch
from bullpen.unattended.pursuit import Care, Pursuit
from bullpen.unattended.until import DONE, Until

T = TypeVar("T")

_ROOM_S = 12 * 3600.0
_WAITS_FOR_ROOM = " waits for room: "


@dataclass(frozen=True, slots=True)
class Wish:
    """A file, and how its team is to be started."""

    file: TeamFile
    cwd: str
    # Whether a person is there to answer what agents ask.
    attended: bool = True
    timeout_s: float | None = None
    until: Until = DONE


async def bring_up(settings: Settings, wish: Wish, watch: Watch) -> Outcome:
    """Start the team of a file, or take it up again, and wait until its end.

    That is the goal of its lead; without one all tasks are done or given up. Cancelling it stops
    the agents in order and keeps the team: it can be brought up again.

    Raises:
        Conflict: there is a team of that name which was not made from this file, or nobody leads
            it and another process watches it.
        Unavailable: a member could not be started; then nothing of a new team is left.
    """
    async with open_office(settings) as office:
        raising = Raising(office, wish)
        await raising.look()
        async with _NewTeam(raising) as new:
            with one_error():
                async with anyio.create_task_group() as raising.late:
                    outcome = await _kept(raising, watch, new)
                    raising.late.cancel_scope.cancel()
        return outcome


async def _kept(raising: Raising, watch: Watch, new: _NewTeam) -> Outcome:
    """Follow a team to its end, with all that is seen to meanwhile."""
    file, wish = raising.file, raising.wish
    async with keeping(
        raising.office,
        file.team.name,
        led=file.lead is not None,
        unattended=True,
        # Whoever may go on elsewhere is seen to by the hosts, whether anybody watches.
        members=[member.name for member in file.teammates if not member.respawn],
        notify=[Told(each.run, tuple(each.on), each.timeout_s) for each in file.notify],
        cwd=wish.cwd,
        backlogs=raising.backlogs if file.backlog else None,
    ) as care:
        return await _pursued(raising, watch, care, new)


async def _pursued(raising: Raising, watch: Watch, care: Care, new: _NewTeam) -> Outcome:
    """Follow a team to its end; from the moment that it is at work, it is kept."""
    team, supervisor, wish = raising.team, raising.supervisor, raising.wish
    seen = len(await team.events())
    pursuit = Pursuit(team, supervisor, watch, seen=seen, until=wish.until, care=care)
    raising.tell = pursuit.tell
    supervisor.room_s = _ROOM_S
    try:
        return await pursuit.run(
            raising.begin, led=wish.file.lead is not None, timeout_s=wish.timeout_s
        )
    finally:
        new.keep = pursuit.begun


async def start(settings: Settings, wish: Wish) -> list[Spawned]:
    """Start the team of a file, or take it up again, and leave it to itself.

    Raises:
        Conflict, Unavailable: as `bring_up` does.
        Invalid: an agent inside this process could not outlive it, or nobody would lead or merge.
    """
    inside = [member.name for member in wish.file.members if member.backend == "in-process"]
    if inside:
        raise Invalid(
            f"Agents inside this process cannot outlive it: {', '.join(inside)}.",
            remedy="Give them another backend, or leave --detach out.",
        )
    if wish.file.lead is None or wish.file.merge is not None:
        raise Invalid(
            "Somebody has to watch this team: it is led, or its work is merged, by `bullpen up`.",
            remedy="Leave --detach out; in the background: nohup bullpen up FILE > up.log &",
        )
    async with open_office(settings) as office:
        raising = Raising(office, wish)
        await raising.look()
        async with _NewTeam(raising) as new:
            await raising.supervisor.tend(by=LEAD)
            spawned = await raising.begin()
            new.keep = True
            return spawned


class Raising:
    """One file on its way to a team."""

    def __init__(self, office: Office, wish: Wish) -> None:
        self.office = office
        self.wish = wish
        self.file = wish.file
        self.team = office.teams.open(wish.file.team.name)
        self.backlogs = Backlogs(self.team, wish.file, os.environ)
        # What is there already: nothing, a team that is half made, or all of it.
        self.found: Origin | None = None
        self.supervisor = office.supervisor(wish.file.team.name)
        self._specs: dict[str, AgentSpec] = {}
        # Where those wait who have no room yet, without keeping the others from their work; and
        # who is told of them.
        self.late: TaskGroup | None = None
        self.tell: Callable[[str], None] = lambda line: None

    async def look(self) -> None:
        """See what there is, and decide on everything that is to be made. Nothing is changed.

        Raises:
            Conflict: there is a team of that name which was not made from this file.
            Refused, Invalid, Unavailable: something that the file asks for is not to be had.
        """
        await self.find()
        if self.found is None or not self.found.complete:
            self._specs = await self._decided()
            # What cannot be read now is an error; later it is only told.
            await self.backlogs.read_all()

    async def find(self) -> None:
        """See whether the team is there already. Raises Conflict if it is another one."""
        try:
            self.found = await self.team.origins.get()
        except NotFound:
            pass
        else:
            if self.found is None or self.found.digest != digest_of(self.file):
                name = self.team.name
                raise Conflict(
                    f"There is a team {name!r} already, not made from what {self.file.path} says"
                    " now of its goal, members, workspace or merges.",
                    remedy=f"Delete it (bullpen team delete {name}), or rename the team in the"
                    " file. Tasks, backlogs, budget and notices may change.",
                )

    async def facts(self) -> TeamFacts:
        """What is known of a new team from its start."""
        merge = await anyio.to_thread.run_sync(self._merging)
        return TeamFacts.new(
            limits=limits_of(self.file).raw or None,
            origin=origin_of(self.file).raw,
            unattended=habits_of(self.file).raw,
            merge=None if merge is None else merge.raw,
        )

    def _merging(self) -> MergeSettings | None:
        merge = self.file.merge
        return None if merge is None else merge_settings(merge, self.wish.cwd)

    async def begin(self) -> list[Spawned]:
        """Start what is not there yet, and take up what is."""
        if self.found is None:
            return await self._make()
        team = self.team
        await team.origins.rebudget(limits_of(self.file), by=LEAD)
        await team.origins.work_by(habits_of(self.file), by=LEAD)
        if not self.found.complete:
            return [*await self._make(), *await self._take_up()]
        await self.backlogs.add(forgiving=True)
        tasks = (await team.tasks.list()).tasks
        if self.file.lead is None and all_done(tasks) is not None:
            # There is nothing that anybody could be started for.
            return []
        return await self._take_up()

    async def is_whole(self) -> bool:
        """Whether everybody was registered, and every task added."""
        config = await self.team.agents.config()
        lead, origin = config.member(LEAD), config.facts.made_from
        led = lead is not None and lead.agent is not None
        return led or (origin is not None and origin.complete)

    async def _make(self) -> list[Spawned]:
        """Start the teammates, add the tasks, then start the lead: it finds everything there."""
        started = await self._spawn(self.file.teammates)
        await self.backlogs.add()
        leads = [] if self.file.lead is None else [self.file.lead]
        spawned = [*await self._spawn(leads), *started]
        await self.team.origins.complete(by=LEAD)
        return spawned

    async def _take_up(self) -> list[Spawned]:
        """Start again what does not run. Members that cannot be started are left for later.

        Raises:
            Unavailable: the lead could not be started, or none of all that were to be.
        """
        await self.supervisor.tend(by=LEAD)
        config = await self.team.agents.config()
        ended = [
            member
            for member in config.roster
            if (agent := member.agent) is not None
            and agent.phase == "ended"
            and (agent.end in ("suspended", "lost", "failed") or agent.at_limit is not None)
        ]
        resume = partial(self.supervisor.resume, by=LEAD, ready_s=READY_S)
        leads = {m.name: partial(resume, names=[m.name]) for m in ended if m.is_lead}
        others = {m.name: partial(resume, names=[m.name]) for m in ended if not m.is_lead}
        first, errors = await self._started(leads)
        if errors:
            raise errors[0]
        rest, errors = await self._started(others)
        if errors and not rest and not first:
            raise errors[0]
        return [each for found in (*first, *rest) for each in found]

    async def _spawn(self, members: Sequence[MemberTable]) -> list[Spawned]:
        """Start members at the same time: some programs take long to get ready.

        Whoever was started before by the same file is found again by its key.
        """
        started, errors = await self._started(
            {member.name: partial(self._spawn_one, member) for member in members}
        )
        if errors:
            raise errors[0]
        return started

    async def _spawn_one(self, member: MemberTable) -> Spawned:
        with _saying_where(self.file, member):
            return await self.supervisor.spawn(
                member.name,
                self._specs[member.name],
                by=LEAD,
                key=f"file:{member.name}",
                ready_s=READY_S,
            )

    async def _started(
        self, starts: Mapping[str, Callable[[], Awaitable[T]]]
    ) -> tuple[list[T], list[BullpenError]]:
        """Start several at the same time; what came of those that need not wait for room.

        Whoever waits goes on waiting, where somebody watches over that.
        """
        started: dict[str, T] = {}
        errors: list[BullpenError] = []
        settled = {name: anyio.Event() for name in starts}
        waiting: set[str] = set()

        def heard(line: str) -> None:
            self.tell(line)
            name, waits, _ = line.partition(_WAITS_FOR_ROOM)
            if waits and self.late is not None and name in settled:
                waiting.add(name)
                settled[name].set()

        async def start_one(name: str, start: Callable[[], Awaitable[T]]) -> None:
            try:
                started[name] = await start()
            except BullpenError as error:
                if name in waiting:
                    self.tell(f"{name} was not started: {error}")
                else:
                    errors.append(error)
            finally:
                settled[name].set()

        self.supervisor.tell = heard
        async with _group(self.late) as group:
            for name, begin in starts.items():
                group.start_soon(start_one, name, begin)
            for event in settled.values():
                await event.wait()
        return [started[name] for name in starts if name in started], errors

    async def _decided(self) -> dict[str, AgentSpec]:
        """What to spawn, by name: all of it is made before anything is started."""
        specs = {}
        for member in self.file.members:
            specs[member.name] = await self.spec(member)
        return specs

    async def spec(self, member: MemberTable) -> AgentSpec:
        """What to spawn for a member. Whatever is raised names the member."""
        with _saying_where(self.file, member):
            return await self._spec(member)

    async def _spec(self, member: MemberTable) -> AgentSpec:
        leads, file, wish = member.name == LEAD, self.file, self.wish
        spec = await self.office.spec(
            driver=member.driver,
            backend=member.backend,
            cwd=wish.cwd,
            role=file.role(member),
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
            workspace=self._workspace(member),
            skills=member.skills,
            tools=member.tools,
        )
        if not wish.attended and member.approver is None:
            spec = unattended(spec, plans=member.plan_approver is None)
        return spec.evolve(options={**spec.options, UNTIL_DONE: True}) if leads else spec

    def _workspace(self, member: MemberTable) -> WorkspaceWish | None:
        """The tree that a member works in: of the kind it says, else of that of the file."""
        table, merge = self.file.workspace, self.file.merge
        # A lead that says nothing only leads: it needs no tree of its own.
        default = "shared" if member.name == LEAD else table.kind
        kind = member.workspace or default
        if kind == "shared":
            return None
        return WorkspaceWish(
            kind=kind,
            team=self.file.team.name,
            agent=member.name,
            root=None if table.root is None else str(self.file.folder / table.root),
            base=None if merge is None else merge.target,
            remote=table.remote,
            setup=table.setup,
            setup_s=table.setup_timeout_s,
            dirty=table.dirty,
        )


class _NewTeam:
    """A team that is made now unless it is there, and is gone again if its start fails."""

    def __init__(self, raising: Raising) -> None:
        self._raising = raising
        self._made = False
        self.keep = False

    async def __aenter__(self) -> Self:
        raising = self._raising
        if raising.found is not None:
            return self
        file, teams = raising.file, raising.office.teams
        words = " ".join((file.team.goal or f"The tasks of {file.path.name}").split())
        facts = await raising.facts()
        # An interruption in here would leave a team that nobody removes.
        with anyio.CancelScope(shield=True):
            await teams.create(
                file.team.name, description=words[:200], cwd=raising.wish.cwd, facts=facts
            )
        self._made = True
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None or self.keep or not self._made:
            return
        name = self._raising.file.team.name
        with anyio.CancelScope(shield=True):
            # The lead comes last: of one that was interrupted after that, nothing is missing.
            if not isinstance(error, BullpenError) and await self._raising.is_whole():
                return
            await self._raising.office.delete_team(name, by=LEAD, force=True)
        if isinstance(error, BullpenError):
            error.message += f" Team {name!r} was not started; nothing of it runs."


@asynccontextmanager
async def _group(there: TaskGroup | None) -> AsyncIterator[TaskGroup]:
    """The task group that there is, else one of its own."""
    if there is not None:
        yield there
        return
    async with anyio.create_task_group() as group:
        yield group


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
