"""`bullpen team limits` and `bullpen task budget`: what may be used at most."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from bullpen.cli import complete
from bullpen.cli.command import command
from bullpen.cli.session import Session
from bullpen.cli.task import TaskId
from bullpen.cli.team import NameIfAny

if TYPE_CHECKING:
    from bullpen.protocol.agent import AgentFacts, Limits
    from bullpen.protocol.roster import TeamConfig
    from bullpen.protocol.task import Task
    from bullpen.team.team import Team

Turns = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="Turns in all.", show_default=False)
]
Tokens = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=0,
        help="Tokens read for the first time or written; 0 is no limit.",
        show_default=False,
    ),
]
Usd = Annotated[
    float | None,
    typer.Option(metavar="X", min=0, help="US dollars; 0 is no limit.", show_default=False),
]
Seconds = Annotated[
    float | None,
    typer.Option(
        metavar="S", min=0, help="Seconds on the clock; 0 is no limit.", show_default=False
    ),
]

MemoryMb = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=0,
        help="Megabytes of a machine for all its agents; 0 is no limit.",
        show_default=False,
    ),
]
Processes = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=0,
        help="Processes on a machine of all its agents; 0 is no limit.",
        show_default=False,
    ),
]


def register(teams: typer.Typer, tasks: typer.Typer) -> None:
    """Make these functions commands of `bullpen team` and `bullpen task`."""
    command(
        teams,
        "limits",
        examples=(
            "bullpen team limits",
            "bullpen team limits --usd 5 --agents 8",
            "bullpen team limits --memory-mb 8000 --processes 300",
            "bullpen team limits --agent alice --tokens 200000",
        ),
    )(limits)
    command(
        tasks, "budget", examples=("bullpen task budget 3 --usd 0.50", "bullpen task budget 3")
    )(budget)


def limits(
    session: Session,
    name: NameIfAny = None,
    *,
    agent: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The budget of this agent instead, and of those whom it spawned.",
            show_default=False,
            autocompletion=complete.member_names,
        ),
    ] = None,
    agents: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Agents alive.", show_default=False)
    ] = None,
    depth: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="How deep agents may spawn.", show_default=False),
    ] = None,
    spawns: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Spawns a minute.", show_default=False)
    ] = None,
    turns: Turns = None,
    tokens: Tokens = None,
    usd: Usd = None,
    seconds: Seconds = None,
    memory_mb: MemoryMb = None,
    processes: Processes = None,
) -> None:
    """Show or change what a team, or one agent of it, may use at most.

    Who was stopped at a limit goes on where it was with: bullpen team resume. An agent for which a
    machine has no room waits until others have ended.
    """
    amounts = _amounts(turns=turns, tokens=tokens, usd=usd, wall_s=seconds)
    numbers = {"agents": agents, "depth": depth, "spawns_per_minute": spawns}
    sizes: dict[str, float | None] = {
        name: most for name, most in numbers.items() if most is not None
    }
    sizes |= _amounts(memory_mb=memory_mb, processes=processes)
    if agent is not None and sizes:
        raise typer.BadParameter("Only an amount to be used can be the budget of one agent.")

    async def of_team(team: Team) -> tuple[TeamConfig, Limits]:
        if amounts or sizes:
            by, voice = await session.speaks(team)
            await team.agents.limit(by=by, voice=voice, **sizes, **amounts)
        config = await team.agents.config()
        return config, config.facts.bounds

    async def of_agent(team: Team, whose: str) -> AgentFacts:
        if amounts:
            by, voice = await session.speaks(team)
            return await team.agents.rebudget(whose, by=by, voice=voice, **amounts)
        return (await team.agents.get(whose))[1]

    if agent is None:
        session.show_cost.limits(*session.with_team(of_team, name=name))
    else:
        found = session.with_team(lambda team: of_agent(team, agent), name=name)
        session.show_cost.budget(agent, found)


def budget(
    session: Session,
    task_id: TaskId,
    *,
    turns: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, help="Turns for it; 0 is no limit.", show_default=False),
    ] = None,
    tokens: Tokens = None,
    usd: Usd = None,
) -> None:
    """Show or change what may be used for a task, by all who work on it together."""
    amounts = _amounts(turns=turns, tokens=tokens, usd=usd)

    async def look(team: Team) -> Task:
        if not amounts:
            return await team.tasks.get(task_id)
        by, voice = await session.speaks(team)
        return await team.tasks.rebudget(task_id, by=by, voice=voice, **amounts)

    session.show_cost.task(session.with_team(look))


def _amounts(**given: float | None) -> dict[str, float | None]:
    """What was named; 0 takes a limit away."""
    return {name: most or None for name, most in given.items() if most is not None}
