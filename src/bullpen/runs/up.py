"""Starts the team of a team file and watches it until its end: `bullpen up`.

Every step can be repeated: if a kill leaves a team incomplete, the next `bullpen up` completes it,
and starts no member and adds no task twice.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path

import anyio
from anyio.abc import TaskGroup

from bullpen.agents.config.spec import SpawnRequest, unattended
from bullpen.agents.runner.duties import UNTIL_DONE
from bullpen.agents.supervisor.admission import RoomWait
from bullpen.agents.supervisor.start import Spawned
from bullpen.app.app import App, open_app
from bullpen.app.settings import Settings
from bullpen.errors import BullpenError, Conflict, Invalid, NotFound, StartFailed, one_error
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.names import LEAD
from bullpen.protocol.team import Origin, TeamConfig, TeamFacts
from bullpen.runs.again import archive, refuse_unfinished
from bullpen.runs.forge.worker import ForgeWorker
from bullpen.runs.reach.for_team import check_targets
from bullpen.runs.shaping import shaping_of
from bullpen.runs.start_members import MemberStarts, spawn_request
from bullpen.runs.tapes.recording import Recording, TapeRequest, begin, completed, file_header
from bullpen.runs.teamfile.backlog.sources import Backlogs
from bullpen.runs.teamfile.notify_table import commands_of, targets_of
from bullpen.runs.teamfile.read import TeamFile, read_team_file
from bullpen.runs.teamfile.tables import MemberTable
from bullpen.runs.teamfile.team_records import (
    digest_of,
    forge_settings,
    habits_of,
    limits_of,
    merge_settings,
    origin_of,
    retention_of,
    with_guarded,
)
from bullpen.runs.watch.ending import all_done
from bullpen.runs.watch.outcome import Outcome, Watch, unwatched
from bullpen.runs.watch.run_services import open_services
from bullpen.runs.watch.team_run import TeamRun
from bullpen.runs.watch.until import DONE, Until, read_until
from bullpen.view.text import shortened

_FIRST = 200
"""How many events tell whether anything was done."""


@dataclass(frozen=True, slots=True)
class StartRequest:
    """A team file, and how to start its team."""

    file: TeamFile
    cwd: str
    # Whether a person is there to answer requests.
    attended: bool = True
    timeout_s: float | None = None
    until: Until = DONE
    # Whether to run a finished team again from its beginning.
    again: bool = False
    # Whether a person talks with the lead: then it waits for words until the person or it finishes.
    conversation: bool = False
    # Where the answers of its models are recorded, or come from.
    tape: TapeRequest | None = None


async def bring_up(
    file: TeamFile | str | Path,
    *,
    cwd: str | None = None,
    attended: bool = True,
    timeout_s: float | None = None,
    until: Until | str = DONE,
    again: bool = False,
    conversation: bool = False,
    tape: TapeRequest | None = None,
    home: str | Path | None = None,
    settings: Settings | None = None,
    watch: Watch = unwatched,
) -> Outcome:
    """Start the team of a team file, or resume it, and wait until it ends.

    A team with a lead ends when its goal is reached, one without a lead when every task is done or
    given up. Agents work in `cwd`, else in the folder of the file. Cancelling stops the agents and
    keeps the team; bring it up again to continue. With `again`, a finished team is archived and run
    from its beginning. `until` is a value of `--until`, such as `"idle"`, `"07:00"` or `"8h"`.

    Raises:
        Invalid: `until` is none of these, or a time in the past.
        Refused: the team is to run again, but has not finished.
        Conflict: there is a team with that name that was not created from this file, or it has no
            lead and another process watches it.
        Unavailable: a member could not be started; then a new team is deleted again.
    """
    if isinstance(until, str):
        until = read_until(until, now=datetime.now().astimezone())
    read = file if isinstance(file, TeamFile) else read_team_file(Path(file))
    folder = cwd or str(read.path.parent.resolve())
    request = StartRequest(
        read,
        folder,
        attended=attended,
        timeout_s=timeout_s,
        until=until,
        again=again,
        conversation=conversation,
        tape=tape,
    )
    async with open_app(settings, home=home) as app:
        return await follow(app, request, watch)


async def follow(app: App, request: StartRequest, watch: Watch = unwatched) -> Outcome:
    """Do what `bring_up` does, in a home that is open already. Raises as it does."""
    team_start = TeamStart(app, request)
    await team_start.look()
    await team_start.record()
    async with team_start.team_created(), completed(team_start.recording, team_start.team):
        with one_error():
            async with anyio.create_task_group() as late:
                outcome = await watch_to_the_end(team_start, watch, late)
                late.cancel_scope.cancel()
    return outcome


async def watch_to_the_end(start: TeamStart, watch: Watch, late: TaskGroup) -> Outcome:
    """Start a team and watch it until its end; it is kept once it is at work."""
    file, request, led = start.file, start.request, start.file.lead is not None
    if start.found is not None and (forge := forge_settings(file)) is not None:
        await start.team.forge.configure(forge, by=LEAD, voice="human")
    async with open_services(
        start.app,
        file.team.name,
        led=led,
        unattended=True,
        # Agents that may move to another host are restarted by the hosts.
        members=[member.name for member in file.teammates if not member.respawn],
        notify=commands_of(file.notify),
        reach=targets_of(file.notify),
        cwd=request.cwd,
        backlogs=start.backlogs if file.backlog else None,
    ) as services:
        start.forge = services.forge
        services.told.extend(start.told)
        seen = await start.team.last_seq()
        team_run = TeamRun(
            start.team,
            start.supervisor,
            watch,
            services,
            seen=seen,
            until=request.until,
            conversation=request.conversation and led,
        )
        begin = partial(start.begin, MemberStarts(late, services.told.append))
        try:
            outcome = await team_run.run(begin, led=led, timeout_s=request.timeout_s)
            start.recording.status = outcome.status
            if await start.nothing_ran(since=seen):
                again = f"bullpen up {shlex.quote(file.path.name)} --again"
                note = (
                    f"Nothing was run: team {file.team.name} had finished before. To run it again"
                    f" from the beginning: {again}"
                )
                return replace(outcome, note=note)
            if not led and not outcome.tasks:
                sources = [each.markdown or each.directory or each.command for each in file.backlog]
                named = " or ".join(str(each) for each in sources) or file.path.name
                return replace(outcome, note=f"There was nothing to do: no open task in {named}.")
            return outcome
        finally:
            start.is_kept = start.recording.begun = team_run.begun


async def start(settings: Settings, request: StartRequest) -> list[Spawned]:
    """Start the team of a file, or resume it, and do not watch it.

    Raises:
        Conflict, Unavailable: as `bring_up` does.
        Invalid: an in-process agent would end with this process, or the team must be watched.
    """
    team = request.file.team.name
    inside = [member.name for member in request.file.members if member.backend == "in-process"]
    if inside:
        raise Invalid(
            f"In-process agents end with this process: {', '.join(inside)}.",
            remedy="Give them another backend, or omit --detach.",
        )
    if request.file.lead is None or request.file.merge is not None:
        raise Invalid(
            f"`bullpen up` leads {team!r} or merges its work, so it must keep running.",
            remedy="Omit --detach. To run in the background: nohup bullpen up FILE > up.log &",
        )
    async with open_app(settings) as app:
        team_start = TeamStart(app, request)
        await team_start.look()
        async with team_start.team_created():
            await team_start.supervisor.tend(by=LEAD)
            agents = team_start.team.agents
            if (await agents.config()).facts.conversation:
                # A person talked with the lead in a run before; here it has to go on by itself.
                await agents.converse(False, by=LEAD)
            spawned = await team_start.begin(MemberStarts())
            team_start.is_kept = True
            return spawned


class TeamStart:
    """The start of one team file's team."""

    def __init__(self, app: App, request: StartRequest) -> None:
        self.app = app
        self.request = request
        self.file = request.file
        self.team = app.teams.open(request.file.team.name)
        self._shaping = shaping_of(request.file, self.team, request.cwd)
        shaped = None if self._shaping is None else self._shaping.shaped
        self.backlogs = Backlogs(self.team, request.file, os.environ, shaped)
        # The existing team: none, an incomplete one, or a complete one.
        self.found: Origin | None = None
        self.supervisor = app.supervisor(request.file.team.name)
        # Whether a new team stays if the run fails.
        self.is_kept = False
        # What to tell about a former team of this file, and the team that is run again.
        self.told: list[str] = []
        # What looks at the forge of the team, while it is watched.
        self.forge: ForgeWorker | None = None
        self.recording = Recording(None, None)
        self._former: TeamConfig | None = None
        self._specs: dict[str, AgentSpec] = {}

    async def look(self) -> None:
        """Check what exists and decide what to create. Changes nothing.

        Raises:
            Conflict: there is a team with that name that was not created from this file.
            Refused, Invalid, Unavailable: the file asks for something that is not possible.
        """
        await self.find()
        await self.look_at_evals()
        if self.found is None or not self.found.complete:
            for member in self.file.members:
                self._specs[member.name] = await self.spec(member)
            # An unreadable backlog is an error now; later it is only reported.
            await self.backlogs.read_all()
        await check_targets(targets_of(self.file.notify))

    async def look_at_evals(self) -> None:
        """Read the evals that decide who works on the tasks. Raises Invalid."""
        if self._shaping is not None:
            await self._shaping.look()

    async def record(self) -> None:
        """Create the tape, if one is asked for. Raises Invalid, Conflict or Unavailable."""
        request = self.request
        if request.tape is None:
            return
        if self.found is not None:
            raise Conflict(
                f"Team {self.team.name!r} exists, and a tape has a run from its beginning.",
                remedy="Add --again to run the finished team again, or omit --record.",
            )
        cwd, talks = request.cwd, request.conversation
        header = file_header(self.file, cwd=cwd, attended=request.attended, talks=talks)
        home = self.app.settings.home
        self.recording = await begin(request.tape, header, cwd=cwd, home=home)

    async def find(self) -> None:
        """Check whether the team exists. Raises Conflict if it is another one."""
        try:
            self.found = await self.team.origins.get()
            config = await self.team.agents.config()
        except NotFound:
            return
        if self.request.again and self._is_of_this_file(self.found):
            await refuse_unfinished(self.team, config, file=self.file.path)
            self._former, self.found = config, None
            if self._shaping is not None:
                self._shaping.former = config
            return
        if self.found is None or self.found.digest != digest_of(self.file):
            name = self.team.name
            raise Conflict(
                f"Team {name!r} already exists and was not created from {self.file.path} as it is"
                " now: its goal, members, workspace or merge settings differ.",
                remedy=f"Run `bullpen team delete {name}`, or rename the team in the file. Tasks,"
                " backlogs, budget and notices may change.",
            )

    def _is_of_this_file(self, found: Origin | None) -> bool:
        """Return whether a team came from this file, as it is now or as it was."""
        own = origin_of(self.file)
        return found is not None and (found.file == own.file or found.digest == own.digest)

    async def nothing_ran(self, *, since: int) -> bool:
        """Return whether no agent, task, merge or forge of an existing team has changed since."""
        if self.found is None or not self.found.complete:
            return False
        events = await self.team.events(after=since, limit=_FIRST)
        return not any(
            event.op.startswith(("agent.", "task.", "merge.", "forge.")) for event in events
        )

    @asynccontextmanager
    async def team_created(self) -> AsyncIterator[None]:
        """Create the team unless it exists. If its start fails, a new team is deleted again."""
        if self.found is not None:
            yield
            return
        name, goal = self.file.team.name, self.file.team.goal
        about = shortened(goal or f"The tasks of {self.file.path.name}")
        facts = await self._facts()
        # If this were interrupted, nobody would delete the team.
        with anyio.CancelScope(shield=True):
            if self._former is not None:
                self.told += await archive(self.app, self.team, self._former)
            cwd = self.request.cwd
            await self.app.teams.create(name, description=about, cwd=cwd, facts=facts)
        try:
            yield
        except BaseException as error:
            if self.is_kept:
                raise
            failed = isinstance(error, BullpenError)
            with anyio.CancelScope(shield=True):
                # The lead is started last: after that, the team is complete.
                if not failed and await self._is_complete():
                    raise
                # Who did not start is not in the roster any more; its worktree may be there.
                planned = {agent: spec.own_tree for agent, spec in self._specs.items()}
                trees = {agent: tree for agent, tree in planned.items() if tree is not None}
                await self.app.delete_team(name, by=LEAD, force=True, planned=trees)
            if isinstance(error, BullpenError):
                error.message += f" Team {name!r} was not started; no agent is running."
            raise

    async def _facts(self) -> TeamFacts:
        """Return the records that a new team has from its start."""
        table = self.file.merge
        merge = None
        if table is not None:
            merge = await anyio.to_thread.run_sync(merge_settings, table, self.request.cwd)
            merge = with_guarded(merge, self.file)
        retention, forge = retention_of(self.file), forge_settings(self.file)
        return TeamFacts.new(
            limits=limits_of(self.file).raw or None,
            origin=origin_of(self.file).raw,
            unattended=habits_of(self.file).raw,
            retention=None if retention is None else retention.raw,
            merge=None if merge is None else merge.raw,
            forge=None if forge is None else forge.raw,
            agents_may=self.file.team.agents_may or None,
        )

    async def _is_complete(self) -> bool:
        """Return whether all members are registered, and all tasks added."""
        config = await self.team.agents.config()
        lead, origin = config.member(LEAD), config.facts.origin
        led = lead is not None and lead.agent is not None
        return led or (origin is not None and origin.complete)

    async def begin(self, starts: MemberStarts) -> list[Spawned]:
        """Start what does not exist, and resume what does."""
        if self.found is None:
            return await self._make(starts)
        team = self.team
        await team.origins.rebudget(limits_of(self.file), by=LEAD)
        await team.origins.work_by(habits_of(self.file), retention=retention_of(self.file), by=LEAD)
        if not self.found.complete:
            return [*await self._make(starts), *await self._resume_ended(starts)]
        await self.backlogs.add(forgiving=True)
        await self._take_issues(forgiving=True)
        tasks = (await team.tasks.list()).tasks
        if self.file.lead is None and all_done(tasks) is not None:
            # There is nothing to do.
            return []
        return await self._resume_ended(starts)

    async def _make(self, starts: MemberStarts) -> list[Spawned]:
        """Start the teammates, add the tasks, then start the lead, which needs both."""
        started = await self._spawn(self.file.teammates, starts)
        await self.backlogs.add()
        await self._take_issues()
        leads = [] if self.file.lead is None else [self.file.lead]
        spawned = [*await self._spawn(leads, starts), *started]
        await self.team.origins.complete(by=LEAD)
        return spawned

    async def _take_issues(self, *, forgiving: bool = False) -> None:
        """Make tasks of the issues of a forge. With `forgiving`, one that is away is for later."""
        if self.forge is None:
            return
        try:
            await self.forge.first_look()
        except BullpenError as error:
            if not forgiving:
                raise
            self.told.append(f"forge: {error}")

    async def _resume_ended(self, starts: MemberStarts) -> list[Spawned]:
        """Restart agents that do not run. Teammates that cannot be started are left for later.

        Raises:
            Unavailable: the lead could not be started, or no agent at all.
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
        leads = {m.name: partial(self._resume, m.name) for m in ended if m.is_lead}
        others = {m.name: partial(self._resume, m.name) for m in ended if not m.is_lead}
        first, errors = await starts.together(leads)
        if errors:
            raise errors[0]
        rest, errors = await starts.together(others)
        if errors and not rest and not first:
            raise errors[0]
        return [each for found in (*first, *rest) for each in found]

    async def _resume(self, name: str, room: RoomWait) -> list[Spawned]:
        return await self.supervisor.resume(by=LEAD, names=[name], room=room)

    async def _spawn(self, members: Sequence[MemberTable], starts: MemberStarts) -> list[Spawned]:
        """Start members. One that the same file started before is found by its key."""
        started, errors = await starts.together(
            {member.name: partial(self._spawn_one, member) for member in members}
        )
        if errors:
            raise errors[0]
        return started

    async def _spawn_one(self, member: MemberTable, room: RoomWait) -> Spawned:
        with _naming_member(self.file, member):
            spec = self._specs[member.name]
            return await self.supervisor.spawn(
                member.name,
                self.recording.given(spec, member.name),
                by=LEAD,
                key=f"file:{member.name}",
                room=room,
            )

    async def spec(self, member: MemberTable) -> AgentSpec:
        """Return what to spawn for a member. Errors name the member."""
        with _naming_member(self.file, member):
            spec = await self.app.resolve(self._spawn_request(member))
            if not self.request.attended and member.approver is None:
                spec = unattended(spec, plans=member.plan_approver is None)
        lead_options = {**spec.options, UNTIL_DONE: True}
        return spec.evolve(options=lead_options) if member.name == LEAD else spec

    def _spawn_request(self, member: MemberTable) -> SpawnRequest:
        return spawn_request(self.file, member, self.request.cwd)


@contextmanager
def _naming_member(file: TeamFile, member: MemberTable) -> Iterator[None]:
    """Make errors name the member that they are about."""
    try:
        yield
    except StartFailed:
        # It names the member itself, and the file is not the cause.
        raise
    except BullpenError as error:
        error.message = f"{file.where(member)}: {error.message}"
        raise
