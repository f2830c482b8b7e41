"""Plans what a team file would do: who does what in which order, the likely cost, and warnings.

The tasks are added to a team in memory, by the rules for all teams, and simulated. No agent is
started, no command is run, and no worktree is created: the merge gate is tried elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from bullpen.errors import Refused
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.names import LEAD
from bullpen.protocol.task import Effort, Task
from bullpen.protocol.team import Limits, TeamConfig
from bullpen.runs.teamfile.backlog.backlog import Item, new_drafts
from bullpen.runs.teamfile.dry_run.costs import Price, Range, free, of_lead, of_task, together
from bullpen.runs.teamfile.dry_run.simulate import Simulated, play, unplayed, waves
from bullpen.runs.teamfile.read import TeamFile
from bullpen.runs.teamfile.tables import MemberTable
from bullpen.store.memory import MemoryStore
from bullpen.team.tasks.graph import lines, mermaid
from bullpen.team.team import Teams

_TURNS = Limits.new().turns
"""The default limit of a team's turns."""

_CLEARLY = 1.1
"""The most that is likely is a rough estimate: a budget that is nearly as large is large enough."""


@dataclass(frozen=True, slots=True)
class PlannedTask:
    """One task: who would do it, in which wave, and what it may cost."""

    id: str
    source: str | None
    subject: str
    blocked_by: list[str]
    wave: int
    # None if nobody can do it.
    member: str | None
    begins: int | None
    effort: Effort | None
    needs: list[str]
    checks: list[str]
    cost: Range
    # Who works on it, if that was chosen, and why.
    shape: str | None = None
    because: str | None = None


@dataclass(frozen=True, slots=True)
class PlannedMember:
    """One member: its program, its workspace, and the tasks it would do."""

    name: str
    driver: str
    model: str | None
    workspace: str
    skills: list[str]
    tasks: list[str]
    cost: Range


@dataclass(frozen=True, slots=True)
class TeamPlan:
    """What a team file would do."""

    team: str
    goal: str | None
    members: list[PlannedMember]
    tasks: list[PlannedTask]
    cost: Range
    graph: list[str]
    mermaid: str
    # What would prevent a start, and what to consider.
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def waves(self) -> int:
        """Return the length of the longest chain of tasks."""
        return max((task.wave for task in self.tasks), default=0)


async def plan(
    file: TeamFile,
    items: Sequence[Item],
    *,
    models: Mapping[str, str | None],
    price: Callable[[MemberTable, str | None], Price],
    problems: Sequence[str] = (),
) -> TeamPlan:
    """Return the plan of a file, whose tasks and those of its backlogs are `items`.

    `models` are the members' models; `price` returns their prices. Raises Invalid if the tasks
    cannot be added.
    """
    met = list(problems)
    tasks, config = await _in_memory(file, items, met)
    names = [member.name for member in config.roster if member.name != LEAD or file.lead]
    played = play(tasks, config, names)
    prices = {
        each.name: free if each.driver == "scripted" else price(each, models.get(each.name))
        for each in file.members
    }
    planned = _tasks(tasks, played, prices)
    members = [_member(file, each, models, planned, prices) for each in file.members]
    cost = together(member.cost for member in members)
    made = TeamPlan(
        team=file.team.name,
        goal=file.team.goal,
        members=members,
        tasks=planned,
        cost=cost,
        graph=lines(_owned(tasks, played)),
        mermaid=mermaid(_owned(tasks, played)),
        problems=met,
    )
    left = unplayed({task.id: task for task in tasks}, played)
    made.warnings.extend(_warnings(file, made, left))
    return made


async def _in_memory(
    file: TeamFile, items: Sequence[Item], problems: list[str]
) -> tuple[list[Task], TeamConfig]:
    """Return the team's tasks and its config. A member that is refused becomes a problem."""
    teams = Teams(MemoryStore())
    await teams.create(file.team.name, cwd="/")
    team = teams.open(file.team.name)
    for number, member in enumerate(file.teammates):
        spec = AgentSpec.new(
            driver="scripted",
            backend="in-process",
            cwd="/",
            claims=True,
            skills=list(member.skills) or None,
        )
        try:
            await team.agents.register(member.name, spec, by=LEAD, nonce=f"planned-{number}")
        except Refused as error:
            problems.append(f"member {member.name!r}: {error}")
            break
    drafts = new_drafts(items, ())
    tasks = await team.tasks.add_many(drafts, by=LEAD) if drafts else []
    return tasks, await team.agents.config()


def _tasks(
    tasks: Sequence[Task], played: Sequence[Simulated], prices: Mapping[str, Price]
) -> list[PlannedTask]:
    """Return the tasks in the order in which they would begin; impossible ones come last."""
    rows = {row.task_id: row for row in played}
    wave = waves(tasks)
    order = {row.task_id: number for number, row in enumerate(played)}
    return [
        PlannedTask(
            id=task.id,
            source=task.facts.source,
            subject=task.subject,
            blocked_by=list(task.blocked_by),
            wave=wave[task.id],
            member=row.member if row is not None else None,
            begins=row.begins if row is not None else None,
            effort=task.facts.effort,
            needs=list(task.facts.needs or ()),
            checks=[check.name for check in task.facts.checks],
            cost=of_task(task.facts.effort, prices[row.member]) if row is not None else Range(),
            shape=None if task.facts.shape is None else task.facts.shape.shape,
            because=None if task.facts.shape is None else task.facts.shape.why,
        )
        for task in sorted(tasks, key=lambda each: order.get(each.id, len(order)))
        for row in (rows.get(task.id),)
    ]


def _member(
    file: TeamFile,
    member: MemberTable,
    models: Mapping[str, str | None],
    tasks: Sequence[PlannedTask],
    prices: Mapping[str, Price],
) -> PlannedMember:
    own = [task for task in tasks if task.member == member.name]
    cost = together(task.cost for task in own)
    if member.name == LEAD:
        cost = cost.plus(of_lead([task.effort for task in tasks], prices[LEAD]))
    return PlannedMember(
        name=member.name,
        driver=member.driver,
        model=models.get(member.name) or member.model,
        workspace=file.workspace_kind(member),
        skills=list(member.skills),
        tasks=[task.id for task in own],
        cost=cost,
    )


def _owned(tasks: Sequence[Task], played: Sequence[Simulated]) -> list[Task]:
    """Return the tasks as the graph shows them: with the members that would do them."""
    owners = {row.task_id: row.member for row in played}
    return [task.evolve(owner=owners.get(task.id) or task.owner) for task in tasks]


def _warnings(file: TeamFile, made: TeamPlan, left: Sequence[Task]) -> Iterator[str]:
    for task in left:
        needs = task.facts.needs or ()
        why = f"it needs {', '.join(needs)}" if needs else "a task before it is impossible"
        yield f"No member can do #{task.id} {task.subject!r}: {why}."
    if not made.tasks and file.lead is None and file.forge is None:
        yield "There is nothing to do: there are no tasks and no backlog entries."
    if made.tasks:
        yield from (
            f"{member.name} would have nothing to do."
            for member in made.members
            if not member.tasks and member.name != LEAD
        )
    yield from _of_budget(file, made.cost)
    if file.merge is not None and not file.merge.gate:
        yield "[merge] has no gate: work that breaks the tests is merged too."
    bare = [task.id for task in made.tasks if not task.checks]
    if file.merge is None and bare:
        yield (
            f"{len(bare)} of {len(made.tasks)} tasks have no checks: their owners alone decide"
            " whether they are done."
        )


def _of_budget(file: TeamFile, cost: Range) -> Iterator[str]:
    budget = file.budget
    if budget == type(budget)():
        yield f"There is no [budget]: the team stops when it is done, or after {_TURNS} turns."
    limits: list[tuple[str, float | None, tuple[float, float], str]] = [
        ("turns", budget.turns or _TURNS, cost.turns, "{:,.0f} turns"),
        ("tokens", budget.tokens, cost.tokens, "{:,.0f} tokens"),
        ("usd", budget.usd, cost.usd, "${:,.2f}"),
    ]
    for key, most, likely, shown in limits:
        if most is None:
            continue
        if most < likely[0]:
            yield (
                f"The budget is too small: {key} = {most:g}, and at least"
                f" {shown.format(likely[0])} are likely."
            )
        elif most * _CLEARLY < likely[1]:
            yield (
                f"The budget may be too small: {key} = {most:g}, and up to"
                f" {shown.format(likely[1])} are likely."
            )
