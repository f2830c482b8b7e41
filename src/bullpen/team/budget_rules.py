"""What a team, an agent and a task may use, and what they have used. Pure.

A limit is looked at before what it limits begins: a spawn, a turn, a request to a model. So a
limit on tokens or money is passed by what was under way when it was met, one request of each
agent at most, and never by more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from bullpen.errors import Invalid, Refused
from bullpen.protocol.agent import COORDINATION, AgentFacts, Limits, Spent, TeamFacts, Usage
from bullpen.protocol.budget import Budget
from bullpen.protocol.names import LEAD
from bullpen.protocol.request import Voice
from bullpen.protocol.roster import Member, TeamConfig
from bullpen.protocol.task import Task

Scope = Literal["team", "agent", "task"]
Limit = Literal["turns", "tokens", "usd", "wall_s", "price"]

REASONS: dict[Limit, str] = {
    "turns": "turns_limit",
    "tokens": "tokens_limit",
    "usd": "money_limit",
    "wall_s": "time_limit",
    "price": "price_unknown",
}
_OPTIONS: dict[Limit, str] = {
    "turns": "--turns N",
    "tokens": "--tokens N",
    "usd": "--usd X",
    "wall_s": "--seconds S",
    "price": "--usd 0 --tokens N",
}


@dataclass(frozen=True, slots=True)
class Reached:
    """A limit that was met: whose, of what, what was used, and how much that may be."""

    team: str
    scope: Scope
    name: str
    limit: Limit
    used: float
    most: float

    @property
    def key(self) -> str:
        """What tells it from every other limit; one that was raised is another."""
        return f"{self.scope}:{self.name}:{self.limit}:{self.most:g}"

    @property
    def whose(self) -> str:
        """The team, agent or task that it limits."""
        return {"team": f"Team {self.name!r}", "agent": repr(self.name)}.get(
            self.scope, f"Task #{self.name}"
        )

    @property
    def sentence(self) -> str:
        """What was met, with the numbers."""
        if self.limit == "price":
            return (
                f"{self.whose} may use ${self.most:g}, but made a request to a model whose price"
                " is not known."
            )
        used, most = _amount(self.limit, self.used), _amount(self.limit, self.most)
        had = "has had" if self.limit in ("turns", "wall_s") else "has used"
        return f"{self.whose} {had} {used} of {most}, as much as it may."

    @property
    def remedy(self) -> str:
        """How to raise it."""
        option = _OPTIONS[self.limit]
        if self.scope == "task":
            return f"Raise it: bullpen task budget {self.name} {option} -t {self.team}"
        of_agent = f" --agent {self.name}" if self.scope == "agent" else ""
        return (
            f"Raise it: bullpen team limits {self.team}{of_agent} {option}; then go on: bullpen"
            f" team resume {self.team}"
        )


class OverBudget(Refused):
    """A limit was met. `reached` says which."""

    def __init__(self, reached: Reached) -> None:
        super().__init__(reached.sentence, reason=REASONS[reached.limit], remedy=reached.remedy)
        self.reached = reached


def _amount(limit: Limit, value: float) -> str:
    match limit:
        case "usd":
            return f"${value:.2f}" if value >= 0.1 else f"${value:.3g}"
        case "wall_s":
            return f"{value:.0f} seconds"
        case _:
            return f"{value:,.0f} {limit}"


def check_spawn(team: TeamConfig, *, by: str, now_ms: int) -> None:
    """Refuse a spawn when nothing is left that a new agent could use.

    Raises:
        OverBudget: of the team, or of an agent among whose spawned it would be.
    """
    for reached in (_of_team(team, now_ms, turns=True), _of_tree(team, by)):
        if reached is not None:
            raise OverBudget(reached)


def met(
    team: TeamConfig, name: str, agent: AgentFacts, task: Task | None, *, now_ms: int, turn: bool
) -> Reached | None:
    """The limit that an agent meets now, if it meets one: before a turn, or before a request.

    The turn that is under way was counted when it began.
    """
    found = _of_team(team, now_ms, turns=turn) or _of_agent(team, name, agent, now_ms, turns=turn)
    found = found or _unpriced(team, name, agent)
    if found is None and task is not None:
        found = of_task(team, task, turns=turn)
    return found


def of_task(team: TeamConfig, task: Task, *, turns: bool = True) -> Reached | None:
    """The limit of a task that is met, if one is."""
    cap = task.facts.cap
    if not cap.raw:
        return None
    used = together(row for row in account(team) if row.task == task.id)
    if cap.usd is not None and used.unpriced:
        return Reached(team.name, "task", task.id, "price", used.unpriced, cap.usd)
    return _over(team.name, cap, used, "task", task.id, turns=turns)


def seconds_left(team: TeamConfig, agent: AgentFacts, now_ms: int) -> float | None:
    """How long a turn that begins now may last, by the clock of the team and of the agent."""
    ends = [
        began + most * 1000 - now_ms
        for began, most in (
            (team.facts.began_ms, team.facts.bounds.wall_s),
            (agent.began_ms, agent.asked.cap.wall_s),
        )
        if began is not None and most is not None
    ]
    return max(0.0, min(ends) / 1000) if ends else None


def in_money(team: TeamConfig, cap: Budget) -> bool:
    """Whether an agent with such a budget of its own must know what its requests cost."""
    return cap.usd is not None or team.facts.bounds.usd is not None


def _of_team(team: TeamConfig, now_ms: int, *, turns: bool) -> Reached | None:
    limits, began = team.facts.bounds, team.facts.began_ms
    passed_s = 0.0 if began is None else (now_ms - began) / 1000
    if limits.wall_s is not None and passed_s >= limits.wall_s:
        return Reached(team.name, "team", team.name, "wall_s", passed_s, limits.wall_s)
    return _over(team.name, limits, total(team), "team", team.name, turns=turns)


def _of_agent(
    team: TeamConfig, name: str, agent: AgentFacts, now_ms: int, *, turns: bool
) -> Reached | None:
    cap = agent.asked.cap
    passed_s = 0.0 if agent.began_ms is None else (now_ms - agent.began_ms) / 1000
    if cap.wall_s is not None and passed_s >= cap.wall_s:
        return Reached(team.name, "agent", name, "wall_s", passed_s, cap.wall_s)
    if turns and cap.turns is not None and agent.used.turns >= cap.turns:
        return Reached(team.name, "agent", name, "turns", agent.used.turns, cap.turns)
    return _of_tree(team, name)


def _of_tree(team: TeamConfig, name: str) -> Reached | None:
    """The limit of an agent, or of one above it, that it and all whom it spawned have met.

    Delegating is no way around a budget.
    """
    for above, cap in _upwards(team, name):
        if cap.tokens is None and cap.usd is None:
            continue
        rows = account(team)
        tree = tree_of(rows, above)
        used = together(row for row in rows if row.agent in tree)
        found = _over(team.name, cap, used, "agent", above, turns=False)
        if found is not None:
            return found
    return None


def _upwards(team: TeamConfig, name: str) -> Iterator[tuple[str, Budget]]:
    """The budgets of an agent and of those above it, but for the lead's if it is another."""
    seen: set[str] = set()
    while name not in seen and not (seen and name == LEAD):
        seen.add(name)
        member = team.member(name)
        agent = None if member is None else member.agent
        if agent is None:
            return
        yield name, agent.asked.cap
        name = agent.parent or name


def tree_of(rows: list[Spent], name: str) -> set[str]:
    """An agent and all whom it spawned, directly or not.

    The lead is alone in its own: people spawn in its name, too.
    """
    found = {name}
    while name != LEAD:
        more = {row.agent for row in rows if row.agent and row.parent in found} - found
        if not more:
            break
        found |= more
    return found


def _unpriced(team: TeamConfig, name: str, agent: AgentFacts) -> Reached | None:
    """A limit in money of which nobody can say whether it is met."""
    spec = agent.asked
    unknown = sum(row.unpriced for row in agent.account if row.model == spec.model)
    if not unknown:
        return None
    if spec.cap.usd is not None:
        return Reached(team.name, "agent", name, "price", unknown, spec.cap.usd)
    most = team.facts.bounds.usd
    return None if most is None else Reached(team.name, "team", team.name, "price", unknown, most)


def _over(
    team: str, cap: Budget | Limits, used: Usage, scope: Scope, name: str, *, turns: bool
) -> Reached | None:
    amounts: list[tuple[Limit, float, float | None]] = [
        ("tokens", used.tokens, cap.tokens),
        ("usd", used.cost_usd, cap.usd),
    ]
    if turns:
        amounts.insert(0, ("turns", used.turns, cap.turns))
    for limit, amount, most in amounts:
        if most is not None and amount >= most:
            return Reached(team, scope, name, limit, amount, most)
    return None


def account(team: TeamConfig) -> list[Spent]:
    """All that was ever used in a team, each row with whose it was; who has left included."""
    rows = list(team.facts.account)
    for member in team.roster:
        agent = member.agent
        if agent is not None:
            rows += [row.evolve(agent=member.name, parent=agent.parent) for row in agent.account]
    return rows


def total(team: TeamConfig) -> Usage:
    """All that was ever used in a team."""
    agents = (member.agent for member in team.roster)
    used = (agent.used for agent in agents if agent is not None)
    return together([*team.facts.account, *used])


def together(rows: Iterable[Usage]) -> Usage:
    """What several rows come to."""
    total = Usage.new()
    for row in rows:
        total = total.plus(row)
    return total


def booked(agent: AgentFacts, rows: Iterable[Spent]) -> AgentFacts:
    """The agent with more in its account."""
    found = {(row.task, row.model): row for row in agent.account}
    used = agent.used
    for row in rows:
        there = found.get((row.task, row.model))
        found[row.task, row.model] = row if there is None else _added(there, row)
        used = used.plus(row)
    return agent.evolve(usage=used.raw, spent=[row.raw for row in found.values()])


def reported(agent: AgentFacts, reports: Mapping[int, Spent]) -> AgentFacts:
    """The agent with what its runner reports. What was told before counts no second time."""
    fresh = [row for number, row in reports.items() if number > agent.reports]
    if not fresh:
        return agent
    return booked(agent, fresh).evolve(reports=max(reports))


def with_turn(agent: AgentFacts, task_id: str | None) -> AgentFacts:
    """The agent with one more turn, which is for its task if it has one."""
    row = Spent.new(turns=1, task=task_id or COORDINATION, model=agent.asked.model)
    return booked(agent, [row])


def left(facts: TeamFacts, member: Member) -> TeamFacts:
    """The team's facts when a member has left: what it used stays used."""
    agent = member.agent
    if agent is None or not agent.account:
        return facts
    rows = {(row.agent, row.task, row.model): row for row in facts.account}
    for row in agent.account:
        gone = row.evolve(agent=member.name, parent=agent.parent)
        key = (gone.agent, gone.task, gone.model)
        rows[key] = _added(rows[key], gone) if key in rows else gone
    return facts.evolve(spent=[row.raw for row in rows.values()])


def _added(row: Spent, more: Usage) -> Spent:
    return row.evolve(
        **{name: getattr(row, name) + getattr(more, name) for name in Usage.model_fields}
    )


def rebudgeted(task: Task, voice: Voice, changes: Mapping[str, float | None]) -> Task:
    """The task with another budget; an amount that is None is not limited any more.

    Raises:
        Refused: not_a_person.
        Invalid: an amount that is none.
    """
    refuse_agents(voice)
    return task.with_facts(budget=changed(task.facts.cap, changes).raw or None)


def changed(cap: Budget, changes: Mapping[str, float | None]) -> Budget:
    """A budget with other amounts. Raises Invalid if one of them is none."""
    try:
        return cap.evolve(**changes)
    except ValueError as error:
        raise _no_budget(error) from None


def refuse_agents(voice: Voice) -> None:
    """Refuse to let agents decide what agents may use.

    Raises:
        Refused: not_a_person.
    """
    if voice != "human":
        raise Refused(
            "Only a person decides what may be used.",
            reason="not_a_person",
            remedy="Ask whoever runs the team to raise it.",
        )


def budget(
    *,
    turns: int | None = None,
    tokens: int | None = None,
    usd: float | None = None,
    wall_s: float | None = None,
) -> Budget:
    """A budget of these amounts. Raises Invalid if one of them is none."""
    try:
        return Budget.new(turns=turns, tokens=tokens, usd=usd, wall_s=wall_s)
    except ValueError as error:
        raise _no_budget(error) from None


def _no_budget(error: ValueError) -> Invalid:
    return Invalid(f"This cannot be a budget: {error}.", remedy="Give numbers above 0.")
