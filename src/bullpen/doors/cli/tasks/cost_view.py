"""Usage and budgets as tables for people and JSON for programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any, Literal

from bullpen.doors.cli.output.page import Page, Row
from bullpen.protocol.agent import COORDINATION, OLDER, AgentFacts, Budget
from bullpen.protocol.clock import now_ms
from bullpen.protocol.task import Task
from bullpen.protocol.team import Limits, TeamConfig
from bullpen.team.budget.cost import Allowance, Cost, CostLine, cost_of
from bullpen.team.budget.rules import CHARACTERS_A_TOKEN, Limit
from bullpen.view import agent_words as words
from bullpen.view.text import Cell

By = Literal["agent", "task", "model"]

ESTIMATE = f"{CHARACTERS_A_TOKEN} characters a token"
"""How the tokens of what models were told are estimated."""

_LIMITS: dict[Limit, str] = {"usd": "money", "wall_s": "time"}
_NEARLY = 0.9


class CostViews:
    """Shows what was used on a page."""

    def __init__(self, page: Page, *, elsewhere: str) -> None:
        self._page = page
        self._elsewhere = elsewhere

    def account(
        self, team: TeamConfig, tasks: Sequence[Task], *, agent: str | None, by: By | None
    ) -> None:
        """The account of a team, or of one agent."""
        cost = cost_of(team, tasks, now_ms=now_ms(), agent=agent)
        if self._page.json:
            self._page.value("cost/1", cost_json(cost, by))
            return
        lines = {"agent": cost.agents, "task": cost.tasks, "model": cost.models}
        if by is not None:
            self._table(by, lines[by], cost)
            return
        self._head(cost)
        if cost.total.turns or cost.total.requests:
            if agent is None:
                self._table("agent", cost.agents, cost)
                self._page.line()
            self._table("task", cost.tasks, cost)
            self._page.line()
            self._shares(cost)
        self._allowances(cost)

    def limits(self, team: TeamConfig, limits: Limits) -> None:
        """The limits of a team."""
        if self._page.json:
            self._page.value("limits/1", limits.raw)
            return
        self._page.title(f"Limits of team {team.name}:")
        self._page.fields(
            [
                ("  agents", f"{limits.agents} alive at once"),
                ("  depth", f"{limits.depth}"),
                ("  spawns", f"{limits.spawns_per_minute} a minute"),
                ("  turns", f"{limits.turns:,}"),
                ("  requests", f"{limits.requests:,} a turn"),
                ("  tokens", _most("tokens", limits.tokens)),
                ("  usd", _most("usd", limits.usd)),
                ("  seconds", _most("wall_s", limits.wall_s)),
                ("  memory", _of_machine(limits.memory_mb, "MB")),
                ("  processes", _of_machine(limits.processes, "processes")),
            ]
        )
        self._page.line(f"See what is used: bullpen cost -t {team.name}{self._elsewhere}")

    def budget(self, name: str, agent: AgentFacts) -> None:
        """The budget of one agent."""
        cap = agent.spec.budget_with_turns
        if self._page.json:
            self._page.value("budget/1", cap.raw)
            return
        self._page.title(f"Budget of {name} and the agents it spawned:")
        self._page.fields(
            [
                ("  turns", f"{cap.turns:,} of its own" if cap.turns else "not limited"),
                ("  tokens", _most("tokens", cap.tokens)),
                ("  usd", _most("usd", cap.usd)),
                ("  seconds", _most("wall_s", cap.wall_s)),
            ]
        )

    def task(self, task: Task) -> None:
        """The budget of one task."""
        cap = task.facts.budget
        self._page.result(
            "budget/1",
            cap.raw,
            f"Task #{task.id} may use {budget_words(cap) or 'as much as the team'}.",
        )

    def _head(self, cost: Cost) -> None:
        whose = f"{cost.agent} in team {cost.team}" if cost.agent else f"Team {cost.team}"
        total = cost.total
        if not (total.turns or total.requests):
            self._page.line(f"{whose} has used nothing yet.")
            return
        requests = _requests(total.requests)
        used = f"{words.used(total)}, {requests}" if words.used_any(total) else words.used(total)
        self._page.title(f"{whose}: {used}")
        self._page.line()

    def _table(self, what: By, lines: Sequence[CostLine], cost: Cost) -> None:
        if not lines:
            self._page.line("Nothing was used yet.")
            return
        rows: list[Row] = [
            (
                Cell(_named(what, line.name), "strong"),
                str(line.used.turns),
                str(line.used.requests),
                words.tokens(line.used),
                words.count(line.used.cache_read_tokens),
                words.money(line.used) if words.used_any(line.used) else "",
                _percent(cost.share(line.used), ""),
                line.note,
            )
            for line in lines
        ]
        columns = [what, "turns", "requests", "tokens", "cached", "cost", "share", "about"]
        shown = len(columns) if any(line.note for line in lines) else -1
        self._page.table(columns[:shown], [row[:shown] for row in rows])

    def _shares(self, cost: Cost) -> None:
        unpriced, estimated = cost.total.unpriced, cost.total.estimated
        guesses = [f"{_requests(estimated)} that broke off"] if estimated else []
        if cost.told:
            guesses.append(f"what models were told ({ESTIMATE})")
        self._page.fields(
            [
                ("Coordination", _percent(cost.coordination_share, f"of the {cost.measure}")),
                ("Told models", _told(cost)),
                ("From caches", _percent(cost.cache_share, "of the input")),
                ("No known price", _requests(unpriced) if unpriced else ""),
                ("Estimated", "; ".join(guesses)),
            ]
        )

    def _allowances(self, cost: Cost) -> None:
        if not cost.allowances:
            return
        self._page.line()
        self._page.table(
            ("budget", "of", "used", "limit", "left"),
            [
                (
                    f"{each.scope} {_of(each)}",
                    _LIMITS.get(each.limit, each.limit),
                    _amount(each.limit, each.used),
                    _amount(each.limit, each.most),
                    Cell(_amount(each.limit, each.left), _style(each)),
                )
                for each in cost.allowances
            ],
        )
        for each in cost.reached:
            what = _LIMITS.get(each.limit, each.limit)
            self._page.line(Cell(f"Limit reached: the {what} of {each.scope} {_of(each)}.", "bad"))


def budget_words(cap: Budget) -> str:
    """A budget in a few words: `$0.50, 3 turns`. Empty if nothing is limited."""
    parts = [
        f"{cap.turns} turn{'' if cap.turns == 1 else 's'}" if cap.turns else "",
        f"{words.count(cap.tokens)} tokens" if cap.tokens else "",
        _amount("usd", cap.usd) if cap.usd else "",
        words.duration(cap.wall_s) if cap.wall_s else "",
    ]
    return ", ".join(part for part in parts if part)


def cost_json(cost: Cost, by: By | None) -> dict[str, Any]:
    """An account as a JSON object; with `by`, only the lines of that table."""
    tables: dict[By, Iterable[CostLine]] = {
        "agent": cost.agents,
        "task": cost.tasks,
        "model": cost.models,
    }
    value: dict[str, Any] = {"team": cost.team, "agent": cost.agent, "total": cost.total.raw}
    for kind, lines in tables.items():
        if by in (None, kind):
            value[f"{kind}s"] = [
                {"name": line.name, "about": line.note, **line.used.raw} for line in lines
            ]
    value |= {
        "coordination": cost.coordination.raw,
        "coordinationShare": cost.coordination_share,
        "told": {
            **cost.told,
            "digestShare": cost.digest_share,
            "estimated": ESTIMATE,
        },
        "cacheShare": cost.cache_share,
        "budgets": [
            {**asdict(each), "left": each.left, "reached": each.is_reached}
            for each in cost.allowances
        ],
    }
    return value


def _told(cost: Cost) -> str:
    """What the models were told, by kind: `~1.2k digest (30%), ~800 mail`."""
    share = _percent(cost.digest_share, "")
    shares = {"digest": f" ({share})" if share else ""}
    return ", ".join(
        f"~{words.count(tokens)} {kind}{shares.get(kind, '')}" for kind, tokens in cost.told.items()
    )


def _requests(number: int) -> str:
    return f"{number} request{'' if number == 1 else 's'}"


def _named(what: By, name: str) -> str:
    return f"#{name}" if what == "task" and name not in (COORDINATION, OLDER) else name


def _of(each: Allowance) -> str:
    return f"#{each.name}" if each.scope == "task" else each.name


def _percent(share: float | None, of: str) -> str:
    return "" if share is None else f"{share:.0%} {of}".rstrip()


def _of_machine(most: int | None, what: str) -> str:
    """What all agents of a machine may use of it."""
    return "not limited" if most is None else f"{most:,} {what} per machine, for all its agents"


def _most(limit: Limit, most: float | None) -> str:
    return "not limited" if most is None else _amount(limit, most)


def _amount(limit: Limit, amount: float) -> str:
    match limit:
        case "usd":
            return f"${amount:.2f}" if amount >= 1 or not amount else f"${amount:.3f}"
        case "wall_s":
            return words.duration(amount)
        case "tokens":
            return words.count(amount)
        case _:
            return f"{amount:,.0f}"


def _style(each: Allowance) -> str:
    if each.is_reached:
        return "bad"
    return "attention" if each.used >= _NEARLY * each.most else ""
