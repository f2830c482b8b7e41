"""What a team used, by agent, task and model, and what is left of its budgets. Pure.

Only answered and recorded requests are included. A request that is still running is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from bullpen.protocol.agent import COORDINATION, OLDER, REVIEWER, Budget, Spent, Usage
from bullpen.protocol.task import Task
from bullpen.protocol.team import TeamConfig
from bullpen.team.budget.rules import Limit, Scope, account, running_s, together, tree_of
from bullpen.team.lookup import member_of

UNKNOWN_MODEL = "-"
"""Shown instead of a model's name if the model is unknown, for example for scripts."""


_NO_MEMBERS = {REVIEWER: "reviewers of work"}
_NO_TASKS = {COORDINATION: "coordination", OLDER: "done or deleted, listed together"}


@dataclass(frozen=True, slots=True)
class CostLine:
    """The usage of one agent, task or model. `note` adds a subject or says that the agent left."""

    name: str
    used: Usage
    note: str = ""


@dataclass(frozen=True, slots=True)
class Allowance:
    """A limit and how much of it is used."""

    scope: Scope
    name: str
    limit: Limit
    used: float
    most: float

    @property
    def left(self) -> float:
        """Return what may still be used."""
        return max(0.0, self.most - self.used)

    @property
    def is_reached(self) -> bool:
        """Return whether nothing is left."""
        return self.used >= self.most


@dataclass(frozen=True, slots=True)
class Cost:
    """The usage of a team, or of one agent in it."""

    team: str
    agent: str | None
    total: Usage
    agents: tuple[CostLine, ...]
    tasks: tuple[CostLine, ...]
    models: tuple[CostLine, ...]
    coordination: Usage
    allowances: tuple[Allowance, ...]

    @property
    def reached(self) -> tuple[Allowance, ...]:
        """Return the limits that are used up."""
        return tuple(each for each in self.allowances if each.is_reached)

    @property
    def measure(self) -> Literal["money", "tokens"]:
        """Return the unit for shares: money if all prices are known, otherwise tokens."""
        return "money" if self.total.cost_usd and not self.total.unpriced else "tokens"

    def share(self, part: Usage) -> float | None:
        """Return a part's share of the total, or None if nothing was used."""
        if self.measure == "money":
            return part.cost_usd / self.total.cost_usd
        whole = _volume(self.total)
        return _volume(part) / whole if whole else None

    @property
    def coordination_share(self) -> float | None:
        """Return the share of coordination."""
        return self.share(self.coordination)

    @property
    def told(self) -> dict[str, int]:
        """Return what Bullpen told the models, by kind, in estimated tokens.

        Each text counts once, when it was told. A kind that is not known is left out.
        """
        used = self.total
        kinds = {
            "digest": used.digest_tokens,
            "mail": used.mail_tokens,
            "tools": used.tool_tokens,
            "reminders": used.reminder_tokens,
        }
        return {kind: tokens for kind, tokens in kinds.items() if tokens is not None}

    @property
    def digest_share(self) -> float | None:
        """Return the digest's share of all that Bullpen told the models."""
        told = self.told
        return told["digest"] / sum(told.values()) if told.get("digest") else None

    @property
    def cache_share(self) -> float | None:
        """Return the share of model input that came from caches."""
        used = self.total
        read = used.input_tokens + used.cache_read_tokens + used.cache_write_tokens
        return used.cache_read_tokens / read if read else None


def cost_of(
    team: TeamConfig, tasks: Iterable[Task], *, now_ms: int, agent: str | None = None
) -> Cost:
    """Return the usage of a team, or of one member.

    Raises:
        NotFound: nobody with that name is or was in the team.
    """
    rows, known = account(team), list(tasks)
    if agent is not None:
        rows = [row for row in rows if row.agent == agent]
        if not rows:
            member_of(team, agent)
    subjects = {task.id: task.subject for task in known}
    there = {member.name for member in team.roster}

    def about_agent(name: str) -> str:
        return _NO_MEMBERS.get(name) or ("" if name in there else "has left")

    def about_task(task_id: str) -> str:
        return _NO_TASKS.get(task_id) or subjects.get(task_id, "deleted")

    return Cost(
        team=team.name,
        agent=agent,
        total=together(rows),
        agents=_lines(rows, lambda row: row.agent or "", about_agent),
        tasks=_lines(rows, lambda row: row.task, about_task),
        models=_lines(rows, lambda row: row.model or UNKNOWN_MODEL, lambda _: ""),
        coordination=together(row for row in rows if row.task == COORDINATION),
        allowances=tuple(_allowances(team, known, now_ms=now_ms, agent=agent)),
    )


def _lines(
    rows: Iterable[Spent], key: Callable[[Spent], str], note: Callable[[str], str]
) -> tuple[CostLine, ...]:
    """Return one line per key, the most expensive first."""
    groups: dict[str, list[Spent]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    lines = [CostLine(name, together(group), note(name)) for name, group in groups.items()]
    return tuple(sorted(lines, key=lambda line: (-line.used.cost_usd, -_volume(line.used))))


def _allowances(
    team: TeamConfig, tasks: list[Task], *, now_ms: int, agent: str | None
) -> Iterable[Allowance]:
    rows, facts = account(team), team.facts
    if agent is None:
        bounds = facts.limits
        cap = Budget.new(
            turns=bounds.turns or None, tokens=bounds.tokens, usd=bounds.usd, wall_s=bounds.wall_s
        )
        yield from _of("team", team.name, cap, together(rows), running_s(team, now_ms))
    for member in team.roster:
        facts_of = member.agent
        if facts_of is None or agent not in (None, member.name):
            continue
        # Its turns are its own, but its other limits also cover the agents it spawned.
        tree = tree_of(rows, member.name)
        used = together(row for row in rows if row.agent in tree)
        used = used.evolve(turns=facts_of.usage.turns)
        passed_s = _passed(facts_of.began_ms, now_ms)
        yield from _of("agent", member.name, facts_of.spec.budget_with_turns, used, passed_s)
    if agent is None:
        for task in tasks:
            used = together(row for row in rows if row.task == task.id)
            yield from _of("task", task.id, task.facts.budget, used, 0.0)


def _of(scope: Scope, name: str, cap: Budget, used: Usage, passed_s: float) -> Iterable[Allowance]:
    amounts: list[tuple[Limit, float, float | None]] = [
        ("turns", used.turns, cap.turns),
        ("tokens", used.tokens, cap.tokens),
        ("usd", used.cost_usd, cap.usd),
        ("wall_s", passed_s, cap.wall_s),
    ]
    for limit, amount, most in amounts:
        if most is not None:
            yield Allowance(scope, name, limit, amount, most)


def _passed(began_ms: int | None, now_ms: int) -> float:
    return 0.0 if began_ms is None else (now_ms - began_ms) / 1000


def _volume(used: Usage) -> int:
    return used.tokens + used.cache_read_tokens
