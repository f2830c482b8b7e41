"""Drivers as a table for people and JSON for programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from bullpen.agents.contracts.driver import Capabilities
from bullpen.agents.drivers.survey import Surveyed
from bullpen.doors.cli.output.page import Page
from bullpen.view.text import Cell

_ABLE = (
    ("mid_turn", "mid-turn", "delivers messages to the model during a turn"),
    (
        "permissions",
        "asks",
        "asks before it changes files or runs commands, so modes and rules apply",
    ),
    ("asks_to_read", "reads", "asks before it reads, too, so rules about reading apply"),
    ("asks_to_run", "runs", "asks before commands that only read, so rules about them apply"),
    ("edits", "edits", "runs a call with the input that the approver changed"),
    ("goes_on", "goes on", "after a denial the model is told why and continues the turn"),
    ("plan_mode", "plans", "has a plan mode"),
    ("resume", "resumes", "continues its conversation after a restart"),
    ("usage", "usage", "reports tokens, so token budgets apply"),
    ("brakes", "brakes", "stops at a budget before each request, not only before a turn"),
    ("keeps_briefing", "keeps", "keeps what it was told, so a turn tells only what changed"),
)


def drivers_json(found: Sequence[Surveyed]) -> dict[str, Any]:
    """All drivers as a JSON object."""
    return {
        "drivers": [
            {
                "name": each.name,
                "title": each.title,
                "capabilities": None if each.can is None else asdict(each.can),
                "command": list(each.command),
                "path": each.path,
                "observed": each.observed,
                "missing": each.missing,
            }
            for each in found
        ]
    }


def show_drivers(page: Page, found: Sequence[Surveyed]) -> None:
    """Show all drivers: what each supports, where it is, how to install it."""
    if page.json:
        page.value(drivers_json(found))
        return
    page.table(
        ("driver", *(heading for _, heading, _ in _ABLE), "installed", "tested"),
        [(each.name, *_cells(each.can), _there(each), each.observed or "") for each in found],
    )
    page.line()
    for _, heading, meaning in _ABLE:
        page.line(f"  {heading:<9} {meaning}")
    if missing := [each for each in found if each.missing is not None]:
        page.line()
        page.title("Not installed:")
        page.fields([(f"  {each.name}", each.missing or "") for each in missing])


def _cells(can: Capabilities | None) -> list[str | Cell]:
    if can is None:
        return [Cell("?", "muted")] * len(_ABLE)
    return [Cell("yes", "good") if getattr(can, name) else "-" for name, _, _ in _ABLE]


def _there(each: Surveyed) -> str | Cell:
    if each.missing is not None:
        return Cell("no", "attention")
    if each.path is not None:
        return each.path
    return "yes" if each.can is not None and not each.observed else "by --command"
