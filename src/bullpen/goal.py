"""One goal, pursued by a team to its end: what `bullpen run` does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

import anyio

from bullpen.agents.drivers.programs import READY_S
from bullpen.agents.duties import UNTIL_DONE
from bullpen.agents.news import THE_RUN_IS_OVER, news
from bullpen.agents.rollcall import AgentView
from bullpen.agents.supervisor import Supervisor
from bullpen.agents.transcript import rows
from bullpen.app import Settings
from bullpen.errors import BullpenError, Conflict, Invalid, NotFound, one_error
from bullpen.office import Office, open_office, unattended
from bullpen.protocol.agent import AgentFacts, AgentSpec, End, Usage
from bullpen.protocol.names import LEAD
from bullpen.protocol.policy import Mode, Policy
from bullpen.team.snapshot import Snapshot
from bullpen.team.team import Team

Status = Literal["done", "failed", "unfinished", "interrupted"]

CODES: dict[Status, int] = {"done": 0, "failed": 1, "unfinished": 2, "interrupted": 130}

_LOOK_S = 0.5
_LAUNCHES_MAX = 3


@dataclass(frozen=True, slots=True)
class Goal:
    """What is to be reached, and how."""

    text: str
    cwd: str
    team: str | None = None
    driver: str = "native"
    backend: str = "in-process"
    model: str | None = None
    # What the agents may do; with `delegate` the lead itself only leads.
    mode: Mode | None = None
    policy: Policy | None = None
    project_settings: bool = True
    delegate: bool = False
    # Whether a person is there to answer what agents ask.
    attended: bool = True
    script: str | None = None
    # What starts a program of another vendor.
    command: Sequence[str] | None = None
    # For this goal, on top of what the team has used before.
    budget_turns: int | None = None
    budget_tokens: int | None = None
    budget_usd: float | None = None
    timeout_s: float | None = None
    keep: bool = False


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a team is. `news` are the happenings since the last look."""

    team: str
    snapshot: Snapshot
    agents: list[AgentView]
    news: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How it ended. `code` is the exit code of the command."""

    code: int
    status: Status
    summary: str
    team: str
    usage: Usage
    tasks: dict[str, int]
    cause: str | None = None


Watch = Callable[[Progress], None]


async def run_goal(settings: Settings, goal: Goal, watch: Watch) -> Outcome:
    """Give a team a goal and wait until it is reached, or cannot be.

    Cancelling it stops the agents in order and keeps the team: it can be resumed.

    Raises:
        Conflict: the team has a lead that is at work.
        Unavailable: the lead could not be started.
    """
    if goal.keep and goal.backend == "in-process":
        raise Invalid(
            "Agents inside this process cannot outlive it.",
            remedy="Choose --backend subprocess or tmux to keep them.",
        )
    async with open_office(settings) as office:
        spec = await office.spec(
            driver=goal.driver,
            backend=goal.backend,
            cwd=goal.cwd,
            model=goal.model,
            prompt=goal.text,
            script=goal.script,
            command=goal.command,
            mode=goal.mode,
            policy=goal.policy,
            project_settings=goal.project_settings,
            claims=False,
        )
        if not goal.attended:
            said = goal.policy is not None and goal.policy.plan_approver == "human"
            spec = unattended(spec, plans=not said)
        if goal.delegate:
            spec = only_leading(spec)
        name, is_new = await _team_for(office, goal)
        team, supervisor = office.teams.open(name), office.supervisor(name)
        await supervisor.tend(by=LEAD)
        await team.agents.unfinish(by=LEAD)
        await team.agents.grant(
            by=LEAD, turns=goal.budget_turns, tokens=goal.budget_tokens, usd=goal.budget_usd
        )
        seen = len(await team.events())
        pursuit = Pursuit(team, supervisor, watch, seen=seen, keep=goal.keep)
        lead = spec.evolve(options={**spec.options, UNTIL_DONE: True})
        try:
            return await pursuit.run(
                lambda: supervisor.spawn(LEAD, lead, by=LEAD), timeout_s=goal.timeout_s
            )
        except BullpenError:
            if is_new and not pursuit.begun:
                # It never began: an empty team would only be in the way.
                await office.delete_team(name, by=LEAD, force=True)
            raise


async def resume_goal(settings: Settings, team_name: str, watch: Watch) -> Outcome:
    """Take up a goal that a team was stopped or killed at, and wait until it is reached."""
    async with open_office(settings) as office:
        team, supervisor = office.teams.open(team_name), office.supervisor(team_name)
        seen = len(await team.events())
        pursuit = Pursuit(team, supervisor, watch, seen=seen, keep=False)
        return await pursuit.run(lambda: supervisor.resume(by=LEAD), timeout_s=None)


async def pursues_goal(office: Office, team_name: str) -> bool:
    """Whether a team was made to reach a goal, and so must be watched while it works."""
    config = await office.teams.open(team_name).agents.config()
    lead = config.member(LEAD)
    agent = lead.agent if lead is not None else None
    return agent is not None and bool(agent.asked.options.get(UNTIL_DONE))


def only_leading(spec: AgentSpec) -> AgentSpec:
    """The spec of a lead that only leads: what it could have done itself, its teammates may."""
    policy = spec.rights.evolve(teammates=spec.start_mode)
    return spec.evolve(mode="delegate", policy=policy.raw)


def _is_asked(why: str, snapshot: Snapshot) -> bool:
    return any(request.id in why for request in snapshot.pending)


async def _team_for(office: Office, goal: Goal) -> tuple[str, bool]:
    """The team for a goal, and whether it was made for it."""
    name = goal.team or f"run-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    try:
        await office.teams.open(name).agents.config()
    except NotFound:
        words = " ".join(goal.text.split())
        await office.teams.create(name, description=words[:200], cwd=goal.cwd)
        return name, True
    return name, False


class Pursuit:
    """A team on its way to a goal."""

    def __init__(
        self,
        team: Team,
        supervisor: Supervisor,
        watch: Watch,
        *,
        seen: int,
        keep: bool,
        members: Sequence[str] = (),
    ) -> None:
        self._team = team
        self._supervisor = supervisor
        self._watch = watch
        self._seen = seen
        self._keep = keep
        # Who is started again after a kill, beside the lead; how often each was started so far.
        self._members = members
        self._launches = Counter[str]()
        self.begun = False
        self._agents: list[AgentView] = []
        # Whom somebody waits for, by name: what is no event must be told too.
        self._waits: dict[str, str | None] = {}

    async def run(
        self, begin: Callable[[], Awaitable[object]], *, timeout_s: float | None
    ) -> Outcome:
        """Begin, watch until the lead has ended, and stop whoever is left."""
        lead: AgentFacts | None = None
        try:
            with one_error(), anyio.move_on_after(timeout_s):
                async with anyio.create_task_group() as group:
                    group.start_soon(self._look_on)
                    await begin()
                    self.begun = True
                    lead = await self._until_the_end()
                    group.cancel_scope.cancel()
            if lead is None:
                await self._stop("suspended", "the time was over")
                cause = f"It was not reached in {timeout_s:.0f} s.{self._held_up()}"
                return await self._ended("unfinished", "", cause)
            return await self._outcome(lead)
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await self._stop("suspended", "the run was interrupted")
                await self._look()
            raise

    async def _look_on(self) -> None:
        """Show how far the team is, soon after each change and now and then."""
        while True:
            await self._look()
            with anyio.move_on_after(_LOOK_S):
                async with aclosing(self._team.changes()) as changes:
                    await anext(changes)
                    await anext(changes)

    async def _look(self) -> None:
        # Events first: the picture must not lag behind the news.
        events = await self._team.events(after=self._seen)
        snapshot, self._agents = await self._supervisor.look()
        self._seen = events[-1].seq if events else self._seen
        happened = [line for event in events for line in news(event)]
        waits = {view.name: view.detail for view in self._agents if view.state == "waiting"}
        fresh = [
            name
            for name, why in waits.items()
            # What waits for an answer is shown as the request that it is.
            if why and self._waits.get(name) != why and not _is_asked(why, snapshot)
        ]
        happened += [f"{name} waits: {waits[name]}" for name in fresh]
        self._waits = waits
        self._watch(Progress(self._team.name, snapshot, self._agents, happened))

    def _held_up(self) -> str:
        """What the agents waited for when the time was over."""
        waits = [f"{name} waited: {why}" for name, why in self._waits.items() if why]
        return f" {'; '.join(waits)}." if waits else ""

    async def _until_the_end(self) -> AgentFacts:
        """Wait until the lead has ended. One that was killed is started again, a few times."""
        while True:
            await self._supervisor.tend(by=LEAD)
            _, agent = await self._team.agents.get(LEAD)
            if agent.phase == "ended":
                if not self._may_start_again(LEAD, agent):
                    return agent
                with suppress(Conflict):
                    # A host may have been faster.
                    await self._supervisor.resume(by=LEAD, names=[LEAD])
            await self._replace_the_lost()
            await anyio.sleep(_LOOK_S)

    async def _replace_the_lost(self) -> None:
        """Start those members again that were killed: the lead has been told that they were."""
        config = await self._team.agents.config()
        for member in config.roster:
            agent = member.agent if member.name in self._members else None
            if agent is None or not self._may_start_again(member.name, agent):
                continue
            # One that cannot be started again stays lost; the lead decides who does its work.
            with suppress(BullpenError):
                await self._supervisor.resume(by=LEAD, names=[member.name], ready_s=READY_S)

    def _may_start_again(self, name: str, agent: AgentFacts) -> bool:
        """Whether an agent was killed, and not too often already; counts if so."""
        if agent.phase != "ended" or agent.end != "lost":
            return False
        self._launches[name] += 1
        return self._launches[name] < _LAUNCHES_MAX

    async def _outcome(self, lead: AgentFacts) -> Outcome:
        """How it ended: by the lead's word, and by the tasks if it gave none."""
        result = await self._team.agents.result()
        tasks = (await self._team.tasks.list()).tasks
        if not self._keep:
            await self._stop("stopped", THE_RUN_IS_OVER)
        if lead.end in ("failed", "lost"):
            return await self._ended("failed", "", lead.cause or "The lead was lost.")
        if result is not None:
            because = f"Tasks stay open: {result.override}" if result.override else None
            return await self._ended("done", result.summary, because)
        if lead.end == "finished" and tasks and all(t.status == "completed" for t in tasks):
            return await self._ended("done", await self._last_words(), None)
        return await self._ended("unfinished", await self._last_words(), lead.cause)

    async def _last_words(self) -> str:
        """The last thing the lead said."""
        path = await self._supervisor.transcript(LEAD)
        if not path.exists():
            return ""
        texts = [row.get("text") for row in rows(path) if row.get("kind") == "end"]
        return next((text for text in reversed(texts) if isinstance(text, str) and text), "")

    async def _stop(self, end: End, reason: str) -> None:
        await self._supervisor.stop_all(by=LEAD, end=end, reason=reason)

    async def _ended(self, status: Status, summary: str, cause: str | None) -> Outcome:
        await self._look()
        usage = Usage.new()
        for view in self._agents:
            usage = usage.plus(view.usage)
        listing = await self._team.tasks.list()
        tasks = Counter[str](task.status for task in listing.tasks)
        return Outcome(CODES[status], status, summary, self._team.name, usage, dict(tasks), cause)
