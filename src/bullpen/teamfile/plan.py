"""What a team file would do: who does what in which order, what it may cost, what to think of.

The tasks are added to a team in memory, by the rules that hold for any team, and played through.
No agent is started, no command of a task is run, no tree is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from bullpen.errors import Refused
from bullpen.protocol.agent import AgentSpec, Limits
from bullpen.protocol.names import LEAD
from bullpen.protocol.roster import TeamConfig
from bullpen.protocol.task import Effort, Task
from bullpen.store.memory import MemoryStore
from bullpen.team.graph import lines, mermaid
from bullpen.team.teams import Teams
from bullpen.teamfile.backlog import Item, new_drafts
from bullpen.teamfile.costs import Price, Range, free, of_lead, of_task, together
from bullpen.teamfile.playing import Played, play, unplayed, waves
from bullpen.teamfile.reading import TeamFile
from bullpen.teamfile.tables import MemberTable

_TURNS = Limits.new().turns
"""So many turns a team has of which nobody says otherwise."""


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


@dataclass(frozen=True, slots=True)
class PlannedMember:
    """One member: the program it is, where it works, and how much it would have to do."""

    name: str
    driver: str
    model: str | None
    workspace: str
    skills: list[str]
    tasks: list[str]
    cost: Range


@dataclass(frozen=True, slots=True)
class Plan:
    """What a team file would do."""

    team: str
    goal: str | None
    members: list[PlannedMember]
    tasks: list[PlannedTask]
    cost: Range
    graph: list[str]
    mermaid: str
    # What would keep the team from being started, and what to think of.
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def waves(self) -> int:
        """How many tasks come one after another at least."""
        return max((task.wave for task in self.tasks), default=0)


async def plan(
    file: TeamFile,
    items: Sequence[Item],
    *,
    models: Mapping[str, str | None],
    price: Callable[[MemberTable, str | None], Price],
    problems: Sequence[str] = (),
) -> Plan:
    """The plan of a file and of what its backlogs say.

    `models` say what each member thinks with; `price` is what that takes.

    Raises:
        Invalid: the tasks cannot be added.
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
    made = Plan(
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
    """The tasks as the team would have them, and its members. Who cannot be one is a problem."""
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
    drafts = new_drafts([*file.items(), *items], ())
    tasks = await team.tasks.add_many(drafts, by=LEAD) if drafts else []
    return tasks, await team.agents.config()


def _tasks(
    tasks: Sequence[Task], played: Sequence[Played], prices: Mapping[str, Price]
) -> list[PlannedTask]:
    """The tasks in the order in which they would be begun; those that nobody can do last."""
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
            checks=[check.name for check in task.facts.all_checks],
            cost=of_task(task.facts.effort, prices[row.member]) if row is not None else Range(),
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
    leads = member.name == LEAD
    if leads:
        cost = cost.plus(of_lead([task.effort for task in tasks], prices[LEAD]))
    default = "shared" if leads else file.workspace.kind
    return PlannedMember(
        name=member.name,
        driver=member.driver,
        model=models.get(member.name) or member.model,
        workspace=member.workspace or default,
        skills=list(member.skills),
        tasks=[task.id for task in own],
        cost=cost,
    )


def _owned(tasks: Sequence[Task], played: Sequence[Played]) -> list[Task]:
    """The tasks as the drawing shows them: with who would do them."""
    owners = {row.task_id: row.member for row in played}
    return [task.evolve(owner=owners.get(task.id) or task.owner) for task in tasks]


def _warnings(file: TeamFile, made: Plan, left: Sequence[Task]) -> Iterator[str]:
    for task in left:
        needs = task.facts.needs or ()
        why = f"it needs {', '.join(needs)}" if needs else "of what it waits for"
        yield f"Nobody would ever do #{task.id} {task.subject!r}: {why}."
    if not made.tasks and file.lead is None:
        yield "There is nothing to do: no task, and no entry in a backlog."
    if made.tasks:
        yield from (
            f"{member.name} would have nothing to do."
            for member in made.members
            if not member.tasks and member.name != LEAD
        )
    yield from _of_budget(file, made.cost)
    if file.merge is not None and not file.merge.gate:
        yield "[merge] has no gate: what breaks the tests is merged all the same."
    bare = [task.id for task in made.tasks if not task.checks]
    if file.merge is None and bare:
        yield (
            f"{len(bare)} of {len(made.tasks)} tasks have no checks: whoever does them says"
            " whether they are done."
        )


def _of_budget(file: TeamFile, cost: Range) -> Iterator[str]:
    budget = file.budget
    if budget == type(budget)():
        yield f"There is no [budget]: only its tasks, or {_TURNS} turns, end its work."
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
                f"The budget will not do: {key} = {most:g}, and at least"
                f" {shown.format(likely[0])} are likely."
            )
        elif most < likely[1]:
            yield f"The budget may not do: {key} = {most:g}, of up to {shown.format(likely[1])}."
