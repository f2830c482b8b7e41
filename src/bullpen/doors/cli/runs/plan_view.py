"""The plan of a team file, as people read it or as one JSON value."""

from __future__ import annotations

from typing import Any

from bullpen.doors.cli.output.page import Page, as_json
from bullpen.runs.teamfile.dry_run.costs import Range
from bullpen.runs.teamfile.dry_run.plan import PlannedMember, PlannedTask, TeamPlan
from bullpen.runs.teamfile.tables import BudgetTable
from bullpen.team.tasks.graph import LONGEST
from bullpen.view.text import Cell

_GRAPH_LINES_MAX = 200


def show_plan(page: Page, plan: TeamPlan, budget: BudgetTable) -> None:
    """Show who would do what, in which order, and what it may cost."""
    if page.json:
        page.value("plan/1", as_value(plan, budget))
        return
    page.line(f"Team {plan.team}: {plan.goal or 'works until its tasks are done.'}")
    page.line()
    page.table(
        ("member", "driver", "model", "workspace", "tasks", "likely cost"),
        [_member(member) for member in plan.members],
    )
    page.line()
    if plan.tasks:
        page.table(
            ("wave", "task", "who", "effort", "after", "likely cost", "subject"),
            [_task(task) for task in plan.tasks],
        )
        page.line()
        shaped = [task for task in plan.tasks if task.shape is not None]
        if shaped:
            page.table(("task", "shape", "why"), [_shape(task) for task in shaped])
            page.line()
        shown = plan.graph[:_GRAPH_LINES_MAX]
        page.drawing(shown)
        if len(plan.graph) > _GRAPH_LINES_MAX:
            page.line(f"and {len(plan.graph) - _GRAPH_LINES_MAX} more lines")
        if any(line.endswith(LONGEST) for line in shown):
            page.line(Cell("* marks the longest chain of tasks", "muted"))
        page.line()
    _cost(page, plan, budget)
    for problem in plan.problems:
        page.line(Cell(f"problem: {problem}", "bad"))
    for warning in plan.warnings:
        page.line(Cell(f"warning: {warning}", "attention"))
    page.line()
    page.line(
        "The team cannot start: see the problems above."
        if plan.problems
        else "Nothing was started."
    )


def as_value(plan: TeamPlan, budget: BudgetTable) -> dict[str, Any]:
    """The plan for programs."""
    return {
        "team": plan.team,
        "goal": plan.goal,
        "ok": not plan.problems,
        "waves": plan.waves,
        "members": [{**as_json(each), "cost": _range(each.cost)} for each in plan.members],
        "tasks": [{**as_json(each), "cost": _range(each.cost)} for each in plan.tasks],
        "cost": _range(plan.cost),
        "budget": budget.model_dump(),
        "mermaid": plan.mermaid,
        "problems": plan.problems,
        "warnings": plan.warnings,
    }


def _range(cost: Range) -> dict[str, Any]:
    return {
        "turns": list(cost.turns),
        "tokens": list(cost.tokens),
        "usd": [round(each, 4) for each in cost.usd],
        "unpriced": cost.unpriced,
    }


def _member(member: PlannedMember) -> tuple[str, ...]:
    return (
        member.name,
        member.driver,
        member.model or "its own",
        member.workspace,
        str(len(member.tasks)),
        _money(member.cost),
    )


def _task(task: PlannedTask) -> tuple[str, ...]:
    return (
        str(task.wave),
        f"#{task.id}",
        task.member or "nobody",
        task.effort or "medium (assumed)",
        " ".join(f"#{each}" for each in task.blocked_by),
        _money(task.cost) if task.member is not None else "",
        task.subject,
    )


def _shape(task: PlannedTask) -> tuple[str, ...]:
    return (f"#{task.id}", task.shape or "", task.because or "")


def _cost(page: Page, plan: TeamPlan, budget: BudgetTable) -> None:
    cost = plan.cost
    rows = [
        ("likely cost", f"{_money(cost)} (estimated from the effort of the tasks)"),
        ("turns", _against(f"{cost.turns[0]:,} to {cost.turns[1]:,}", budget.turns, "{:,}")),
    ]
    if any(member.driver != "scripted" for member in plan.members):
        # A script uses no model.
        likely = f"{cost.tokens[0]:,} to {cost.tokens[1]:,}"
        rows.append(("tokens", _against(likely, budget.tokens, "{:,}")))
    if budget.usd is not None:
        rows.append(("budget", f"${budget.usd:,.2f}"))
    if budget.hours is not None:
        rows.append(("hours", f"at most {budget.hours:g}"))
    page.fields(rows)
    page.line()


def _against(likely: str, most: float | None, shown: str) -> str:
    return likely if most is None else f"{likely}, of at most {shown.format(most)}"


def _money(cost: Range) -> str:
    known = f"${cost.usd[0]:,.2f} to ${cost.usd[1]:,.2f}" if cost.usd[1] else ""
    if not cost.unpriced:
        return known or "nothing"
    return f"{known} and more" if known else "not known"
