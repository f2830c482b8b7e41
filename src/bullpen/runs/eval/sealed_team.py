"""Runs the team of a trial: in the sandbox, with nobody to ask."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import anyio

from bullpen.agents.config.spec import SpawnRequest
from bullpen.app.app import App
from bullpen.app.settings import Settings
from bullpen.errors import BullpenError, NotFound, one_error
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.clock import now_ms
from bullpen.protocol.names import LEAD
from bullpen.protocol.policy import Sandbox
from bullpen.protocol.team import TeamFacts
from bullpen.runs.eval.statistics import Measures
from bullpen.runs.teamfile.read import TeamFile
from bullpen.runs.teamfile.tables import MemberTable
from bullpen.runs.up import StartRequest, TeamStart, watch_to_the_end
from bullpen.runs.watch.outcome import Outcome, unwatched
from bullpen.team.budget.cost import cost_of
from bullpen.team.team import Team

_NOT_QUESTIONS = ("answer", "use", "withdraw", "reschedule", "expire", "shutdown")
_OPEN_MODES = (None, "default", "bypassPermissions", "plan")
_SHELL = "Bash"


@dataclass(frozen=True, slots=True)
class Worked:
    """How a team's run ended, and what it used."""

    outcome: Outcome
    measures: Measures


async def run_sealed(
    file: TeamFile,
    *,
    cwd: Path,
    home: Path,
    sandbox: Sandbox,
    environ: Mapping[str, str],
    timeout_s: float,
) -> Worked:
    """Run the team of a file until its end, and stop all its agents. Raises BullpenError."""
    began = anyio.current_time()
    settings = Settings(home=home, team=None, agent=LEAD)
    async with App(settings, environ) as app:
        request = StartRequest(file, str(cwd), attended=False, timeout_s=timeout_s)
        start = _SealedStart(app, request, sandbox)
        await start.look()
        try:
            async with start.team_created():
                with one_error():
                    async with anyio.create_task_group() as late:
                        outcome = await watch_to_the_end(start, unwatched, late)
                        late.cancel_scope.cancel()
            measures = await measured(start.team)
        finally:
            # A team that could not be started is gone.
            with anyio.CancelScope(shield=True), suppress(NotFound):
                await start.supervisor.stop_all(by=LEAD, grace_s=2.0, reason="the trial is over")
    if len(file.members) == 1:
        # One agent coordinates nothing, also if it works without a task.
        measures = replace(measures, coordination_usd=0.0, coordination_tokens=0)
    return Worked(outcome, replace(measures, seconds=anyio.current_time() - began))


async def end_leftovers(home: Path, environ: Mapping[str, str]) -> float | None:
    """Stop the agents that a trial left behind; what its teams have cost, None if unknown.

    Raises BullpenError.
    """
    usd: float | None = 0.0
    async with App(Settings(home=home, team=None, agent=LEAD), environ) as app:
        for name in await app.teams.names():
            with suppress(NotFound):
                await app.supervisor(name).stop_all(
                    by=LEAD, grace_s=2.0, reason="the trial is over"
                )
            try:
                cost = (await measured(app.teams.open(name))).usd
                usd = None if usd is None else usd + cost
            except BullpenError:
                usd = None
            await app.delete_team(name, by=LEAD, force=True)
    return usd


async def measured(team: Team) -> Measures:
    """Return what a team used, and how often it had a conflict or a question."""
    config, tasks = await team.agents.config(), (await team.tasks.list()).tasks
    cost = cost_of(config, tasks, now_ms=now_ms())
    merges = [task.facts.merge for task in tasks if task.facts.merge is not None]
    steps = [step.what for merge in merges for step in merge.steps or ()]
    ops = [event.op.partition(".") for event in await team.events()]
    asked = sum(kind == "request" and what not in _NOT_QUESTIONS for kind, _, what in ops)
    return Measures(
        usd=cost.total.cost_usd,
        tokens=cost.total.tokens + cost.total.cache_read_tokens,
        turns=cost.total.turns,
        unpriced=cost.total.unpriced,
        coordination_usd=cost.coordination.cost_usd,
        coordination_tokens=cost.coordination.tokens + cost.coordination.cache_read_tokens,
        conflicts=steps.count("conflict"),
        questions=asked,
    )


class _SealedStart(TeamStart):
    """The start of a trial's team."""

    def __init__(self, app: App, request: StartRequest, sandbox: Sandbox) -> None:
        super().__init__(app, request)
        self._sandbox = sandbox

    async def spec(self, member: MemberTable) -> AgentSpec:
        """Return what to spawn for a member, in the sandbox."""
        return sealed(await super().spec(member), self._sandbox)

    def _spawn_request(self, member: MemberTable) -> SpawnRequest:
        # A stranger may have written the settings of the project; hooks run outside the sandbox.
        return replace(super()._spawn_request(member), project_settings=False)

    async def _facts(self) -> TeamFacts:
        """Return the records of the team; an agent alone cannot become a team."""
        facts = await super()._facts()
        if len(self.file.members) > 1:
            return facts
        return facts.evolve(limits=facts.limits.evolve(agents=1).raw)


def sealed(spec: AgentSpec, sandbox: Sandbox) -> AgentSpec:
    """Return a spec that reads nothing but the project and the system.

    Commands run in the sandbox, so that all are allowed. File tools run outside of it: they may do
    what the mode allows inside the project, and no rule allows more.
    """
    policy = spec.policy
    shell = [rule for rule in policy.allow if rule.startswith(f"{_SHELL}(")]
    policy = policy.evolve(
        allow=[_SHELL, *shell],
        directories=[],
        approver="policy",
        answers=None,
        sandbox=sandbox.raw,
    )
    mode = "acceptEdits" if spec.mode in _OPEN_MODES else spec.mode
    return spec.evolve(mode=mode, policy=policy.raw)
