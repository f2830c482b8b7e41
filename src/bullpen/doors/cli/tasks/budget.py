"""`bullpen team limits` and `bullpen task budget`: what may be used at most."""

from __future__ import annotations

from typing import Annotated

import typer

from bullpen.doors.cli.command import examples
from bullpen.doors.cli.options import completion
from bullpen.doors.cli.options.option import option
from bullpen.doors.cli.session import Session
from bullpen.doors.cli.tasks.cost_view import CostViews
from bullpen.doors.cli.tasks.task import TaskId
from bullpen.doors.cli.teams.team import NameIfAny
from bullpen.protocol.agent import AgentFacts
from bullpen.protocol.task import Task
from bullpen.protocol.team import Limits, TeamConfig
from bullpen.team.team import Team

Turns = Annotated[int | None, option("The most turns", "N", min=1)]
Tokens = Annotated[
    int | None, option("The most tokens, without cached ones; 0 for no limit", "N", min=0)
]
Usd = Annotated[float | None, option("The most US dollars; 0 for no limit", "X", min=0)]
Seconds = Annotated[float | None, option("The most seconds; 0 for no limit", "S", min=0)]

MemoryMb = Annotated[
    int | None, option("Megabytes that agents may use per machine; 0 for no limit", "N", min=0)
]
Processes = Annotated[
    int | None, option("Processes that agents may have per machine; 0 for no limit", "N", min=0)
]


@examples(
    "bullpen team limits",
    "bullpen team limits --usd 5 --agents 8",
    "bullpen team limits --memory-mb 8000 --processes 300",
    "bullpen team limits --agent alice --tokens 200000",
)
def limits(
    session: Session,
    name: NameIfAny = None,
    *,
    agent: Annotated[
        str | None,
        option(
            "Limit this agent and the agents it spawned instead",
            "NAME",
            complete=completion.member_names,
        ),
    ] = None,
    agents: Annotated[int | None, option("The most agents at once", "N", min=1)] = None,
    depth: Annotated[int | None, option("How deep agents may spawn agents", "N", min=1)] = None,
    spawns: Annotated[int | None, option("The most spawns per minute", "N", min=1)] = None,
    turns: Turns = None,
    requests: Annotated[
        int | None, option("The most model requests in one turn of an agent", "N", min=1)
    ] = None,
    tokens: Tokens = None,
    usd: Usd = None,
    seconds: Seconds = None,
    memory_mb: MemoryMb = None,
    processes: Processes = None,
) -> None:
    """Show or set the limits of a team or an agent.

    Agents that were stopped at a limit continue with `bullpen team resume`. An agent waits while
    its machine has no room for it.
    """
    amounts = _amounts(turns=turns, tokens=tokens, usd=usd, wall_s=seconds)
    numbers = {"agents": agents, "depth": depth, "spawns_per_minute": spawns, "requests": requests}
    sizes: dict[str, float | None] = {
        name: most for name, most in numbers.items() if most is not None
    }
    sizes |= _amounts(memory_mb=memory_mb, processes=processes)
    if agent is not None and sizes:
        raise typer.BadParameter(
            "--agents, --depth, --spawns, --requests, --memory-mb and --processes limit a team, "
            "not an agent."
        )

    async def of_team(team: Team) -> tuple[TeamConfig, Limits]:
        if amounts or sizes:
            by, voice = await session.identity.speaks(team)
            await team.agents.limit(by=by, voice=voice, **sizes, **amounts)
        config = await team.agents.config()
        return config, config.facts.limits

    async def of_agent(team: Team, whose: str) -> AgentFacts:
        if amounts:
            by, voice = await session.identity.speaks(team)
            return await team.agents.rebudget(whose, by=by, voice=voice, **amounts)
        return (await team.agents.get(whose))[1]

    if agent is None:
        CostViews(session.page, elsewhere=session.elsewhere).limits(
            *session.with_team(of_team, name=name)
        )
    else:
        found = session.with_team(lambda team: of_agent(team, agent), name=name)
        CostViews(session.page, elsewhere=session.elsewhere).budget(agent, found)


@examples("bullpen task budget 3 --usd 0.50", "bullpen task budget 3")
def budget(
    session: Session,
    task_id: TaskId,
    *,
    turns: Annotated[int | None, option("The most turns; 0 for no limit", "N", min=0)] = None,
    tokens: Tokens = None,
    usd: Usd = None,
) -> None:
    """Show or set the budget of a task.

    All members that work on the task share its budget.
    """
    amounts = _amounts(turns=turns, tokens=tokens, usd=usd)

    async def look(team: Team) -> Task:
        if not amounts:
            return await team.tasks.get(task_id)
        by, voice = await session.identity.speaks(team)
        return await team.tasks.rebudget(task_id, by=by, voice=voice, **amounts)

    CostViews(session.page, elsewhere=session.elsewhere).task(session.with_team(look))


def _amounts(**given: float | None) -> dict[str, float | None]:
    """The limits that were given; 0 removes a limit."""
    return {name: most or None for name, most in given.items() if most is not None}
