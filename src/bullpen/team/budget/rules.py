"""Budgets of teams, agents and tasks, and their usage. Pure.

A limit is checked before a spawn, a turn or a model request starts. A limit on tokens or money can
therefore be exceeded by the requests that were already running: at most one per agent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from bullpen.errors import Invalid, Refused
from bullpen.protocol.agent import COORDINATION, AgentFacts, Budget, Spent, Usage, sums
from bullpen.protocol.names import LEAD
from bullpen.protocol.request import Voice
from bullpen.protocol.task import Task
from bullpen.protocol.team import Limits, Member, TeamConfig, TeamFacts

CHARACTERS_A_TOKEN = 4
"""With this, the tokens of a text are estimated: an API tells only those of whole requests."""

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
    """A limit that was reached: whose it is, of what, how much was used and how much is allowed."""

    team: str
    scope: Scope
    name: str
    limit: Limit
    used: float
    most: float

    @property
    def key(self) -> str:
        """Return what identifies this limit. A raised limit has a different key."""
        return f"{self.scope}:{self.name}:{self.limit}:{self.most:g}"

    @property
    def whose(self) -> str:
        """Return the team, agent or task that is limited."""
        return {"team": f"Team {self.name!r}", "agent": repr(self.name)}.get(
            self.scope, f"Task #{self.name}"
        )

    @property
    def sentence(self) -> str:
        """Return a sentence that says which limit was reached, with figures."""
        if self.limit == "price":
            return (
                f"{self.whose} has a limit of ${self.most:g}, but used a model whose price is "
                "unknown."
            )
        used, most = _amount(self.limit, self.used), _amount(self.limit, self.most)
        had = "has had" if self.limit in ("turns", "wall_s") else "has used"
        return f"{self.whose} {had} {used} of {most}, which is its limit."

    @property
    def remedy(self) -> str:
        """Return how to raise the limit."""
        option = _OPTIONS[self.limit]
        if self.scope == "task":
            return f"Raise it: bullpen task budget {self.name} {option} -t {self.team}"
        of_agent = f" --agent {self.name}" if self.scope == "agent" else ""
        return (
            f"Raise it: bullpen team limits {self.team}{of_agent} {option}; then continue: "
            f"bullpen team resume {self.team}"
        )


class OverBudget(Refused):
    """A budget is used up. `reached` says which."""

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
    """Refuse a spawn if a new agent would have nothing to use.

    Raises:
        OverBudget: of the team, or of an agent above the new one.
    """
    for reached in (of_team(team, now_ms, turns=True), _of_tree(team, by)):
        if reached is not None:
            raise OverBudget(reached)


def met(
    team: TeamConfig, name: str, agent: AgentFacts, task: Task | None, *, now_ms: int, turn: bool
) -> Reached | None:
    """Return the limit that an agent has reached before a turn or a request, if any.

    The current turn was counted when it started.
    """
    found = of_team(team, now_ms, turns=turn) or _of_agent(team, name, agent, now_ms, turns=turn)
    found = found or _unpriced(team, name, agent)
    if found is None and task is not None:
        found = of_task(team, task, turns=turn)
    return found


def of_task(team: TeamConfig, task: Task, *, turns: bool = True) -> Reached | None:
    """Return the limit of a task that is reached, if any."""
    cap = task.facts.budget
    if not cap.raw:
        return None
    used = together(row for row in account(team) if row.task == task.id)
    if cap.usd is not None and used.unpriced:
        return Reached(team.name, "task", task.id, "price", used.unpriced, cap.usd)
    return _over(team.name, cap, used, "task", task.id, turns=turns)


def seconds_left(team: TeamConfig, agent: AgentFacts, now_ms: int) -> float | None:
    """Return how long a turn that starts now may last, by the time limits of team and agent."""
    ends = [
        began + most * 1000 - now_ms
        for began, most in (
            (team.facts.began_ms, team.facts.limits.wall_s),
            (agent.began_ms, agent.spec.budget_with_turns.wall_s),
        )
        if began is not None and most is not None
    ]
    return max(0.0, min(ends) / 1000) if ends else None


def in_money(team: TeamConfig, cap: Budget) -> bool:
    """Return whether an agent with this budget must know the price of its requests."""
    return cap.usd is not None or team.facts.limits.usd is not None


def of_team(team: TeamConfig, now_ms: int, *, turns: bool) -> Reached | None:
    """Return the limit of the whole team that is reached, if any."""
    limits, passed_s = team.facts.limits, running_s(team, now_ms)
    if limits.wall_s is not None and passed_s >= limits.wall_s:
        return Reached(team.name, "team", team.name, "wall_s", passed_s, limits.wall_s)
    return _over(team.name, limits, total(team), "team", team.name, turns=turns)


def running_s(team: TeamConfig, now_ms: int) -> float:
    """Return for how long a team has run, without the time in which all its agents had ended."""
    began = team.facts.began_ms
    return 0.0 if began is None else max(0, _counted_until(team, now_ms) - began) / 1000


def began_ms(team: TeamConfig, now_ms: int) -> int:
    """Return when the time of a team began, as it is recorded when an agent of it starts now."""
    began = team.facts.began_ms
    return now_ms if began is None else began + now_ms - _counted_until(team, now_ms)


def _counted_until(team: TeamConfig, now_ms: int) -> int:
    agents = [member.agent for member in team.roster if member.agent is not None]
    if not agents or any(agent.phase != "ended" for agent in agents):
        return now_ms
    return min(now_ms, max(agent.since_ms for agent in agents))


def _of_agent(
    team: TeamConfig, name: str, agent: AgentFacts, now_ms: int, *, turns: bool
) -> Reached | None:
    cap = agent.spec.budget_with_turns
    passed_s = 0.0 if agent.began_ms is None else (now_ms - agent.began_ms) / 1000
    if cap.wall_s is not None and passed_s >= cap.wall_s:
        return Reached(team.name, "agent", name, "wall_s", passed_s, cap.wall_s)
    if turns and cap.turns is not None and agent.usage.turns >= cap.turns:
        return Reached(team.name, "agent", name, "turns", agent.usage.turns, cap.turns)
    return _of_tree(team, name)


def _of_tree(team: TeamConfig, name: str) -> Reached | None:
    """Return the limit reached by an agent or one above it, counting everything they spawned.

    Delegating work does not avoid a budget.
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
    """Return the budgets of an agent and of those above it. The lead's counts only for the lead."""
    seen: set[str] = set()
    while name not in seen and not (seen and name == LEAD):
        seen.add(name)
        member = team.member(name)
        agent = None if member is None else member.agent
        if agent is None:
            return
        yield name, agent.spec.budget_with_turns
        name = agent.parent or name


def tree_of(rows: list[Spent], name: str) -> set[str]:
    """Return an agent and everything it spawned, directly or not.

    The lead stands alone here, because people spawn in its name too.
    """
    found = {name}
    while name != LEAD:
        more = {row.agent for row in rows if row.agent and row.parent in found} - found
        if not more:
            break
        found |= more
    return found


def _unpriced(team: TeamConfig, name: str, agent: AgentFacts) -> Reached | None:
    """Return a limit in money that cannot be checked because a price is unknown."""
    spec = agent.spec
    unknown = sum(row.unpriced for row in agent.account if row.model == spec.model)
    if not unknown:
        return None
    if spec.budget_with_turns.usd is not None:
        return Reached(team.name, "agent", name, "price", unknown, spec.budget_with_turns.usd)
    most = team.facts.limits.usd
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
    """Return all usage of a team with its owners, including members that left."""
    rows = list(team.facts.spent)
    for member in team.roster:
        agent = member.agent
        if agent is not None:
            rows += [row.evolve(agent=member.name, parent=agent.parent) for row in agent.account]
    return rows


def total(team: TeamConfig) -> Usage:
    """Return the total usage of a team."""
    agents = (member.agent for member in team.roster)
    used = (agent.usage for agent in agents if agent is not None)
    return together([*team.facts.spent, *used])


def about_tokens(text: str) -> int:
    """Return about how many tokens a text has."""
    return -(-len(text) // CHARACTERS_A_TOKEN)


def together(rows: Iterable[Usage]) -> Usage:
    """Return the sum of several rows."""
    found = list(rows)
    amounts = {}
    for name in Usage.field_keys():
        values = [value for row in found if (value := getattr(row, name)) is not None]
        if values:
            amounts[name] = sum(values[1:], values[0])
    return Usage.new(**amounts)


def booked(agent: AgentFacts, rows: Iterable[Spent]) -> AgentFacts:
    """Return the agent with more usage."""
    found = {(row.task, row.model): row for row in agent.account}
    used = agent.usage
    for row in rows:
        there = found.get((row.task, row.model))
        found[row.task, row.model] = row if there is None else _added(there, row)
        used = used.plus(row)
    return agent.evolve(usage=used.raw, spent=[row.raw for row in found.values()])


def reported(agent: AgentFacts, reports: Mapping[int, Spent]) -> AgentFacts:
    """Return the agent with its runner's reports added. Reports already counted are skipped."""
    fresh = [row for number, row in reports.items() if number > agent.reports]
    if not fresh:
        return agent
    return booked(agent, fresh).evolve(reports=max(reports))


def with_turn(agent: AgentFacts, task_id: str | None) -> AgentFacts:
    """Return the agent with one more turn, counted for its task if it has one."""
    row = Spent.new(turns=1, task=task_id or COORDINATION, model=agent.spec.model)
    return booked(agent, [row])


def left(facts: TeamFacts, member: Member) -> TeamFacts:
    """Return the team's facts after a member left. Its usage still counts."""
    agent = member.agent
    if agent is None or not agent.account:
        return facts
    rows = {(row.agent, row.task, row.model): row for row in facts.spent}
    for row in agent.account:
        gone = row.evolve(agent=member.name, parent=agent.parent)
        key = (gone.agent, gone.task, gone.model)
        rows[key] = _added(rows[key], gone) if key in rows else gone
    return facts.evolve(spent=[row.raw for row in rows.values()])


def _added(row: Spent, more: Usage) -> Spent:
    return row.evolve(**sums(row, more))


def rebudgeted(task: Task, voice: Voice, changes: Mapping[str, float | None]) -> Task:
    """Return the task with a changed budget. None removes a limit.

    Raises:
        Refused: not_a_person.
        Invalid: an amount is not valid.
    """
    refuse_agents(voice)
    return task.with_facts(budget=changed(task.facts.budget, changes).raw or None)


def changed(cap: Budget, changes: Mapping[str, float | None]) -> Budget:
    """Return a budget with changed amounts. Raises Invalid if an amount is not valid."""
    try:
        return cap.evolve(**changes)
    except ValueError as error:
        raise Invalid(f"The budget is not valid: {error}.", remedy="Use numbers above 0.") from None


def refuse_agents(voice: Voice) -> None:
    """Refuse to let agents change budgets. Raises Refused (not_a_person)."""
    if voice != "human":
        raise Refused(
            "Only a person can change a limit or a budget.",
            reason="not_a_person",
            remedy="Ask the person who runs the team to raise it.",
        )


def budget(**amounts: float | None) -> Budget:
    """Return a budget with these amounts. Raises Invalid if an amount is not valid."""
    return changed(Budget.new(), amounts)
