"""Drivers as a table for people and JSON for programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bullpen.agents.contracts.driver import Capabilities
from bullpen.agents.drivers.survey import Surveyed
from bullpen.app.package_parts import CheckedPart
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


def drivers_json(found: Sequence[Surveyed], parts: Sequence[CheckedPart]) -> dict[str, Any]:
    """All drivers, and the other parts of packages, as a JSON object."""
    return {
        "drivers": [
            {
                "name": each.name,
                "title": each.title,
                "capabilities": each.can,
                "command": list(each.command),
                "path": each.path,
                "observed": each.observed,
                "missing": each.missing,
                "package": None if each.package is None else each.package.package,
                "version": None if each.package is None else each.package.version,
                "broken": each.broken,
            }
            for each in found
        ],
        "parts": [
            {
                "kind": each.part.kind,
                "name": each.part.name,
                "package": each.part.package,
                "version": each.part.version,
                "broken": each.broken,
            }
            for each in parts
        ],
    }


def show_drivers(page: Page, found: Sequence[Surveyed], parts: Sequence[CheckedPart]) -> None:
    """Show all drivers: what each supports, where it is, how to install it.

    `parts` are the backends, stores and tools of packages.
    """
    if page.json:
        page.value("drivers/1", drivers_json(found, parts))
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
    if parts:
        page.line()
        page.title("Other parts of installed packages:")
        page.fields([(f"  {each.part.kind} {each.part.name}", _source(each)) for each in parts])
    broken = [(each.name, each.broken) for each in found if each.broken is not None]
    broken += [(each.part.name, each.broken) for each in parts if each.broken is not None]
    if broken:
        page.line()
        page.title("Broken:")
        page.fields([(f"  {name}", why) for name, why in broken])


def _source(each: CheckedPart) -> str | Cell:
    return each.part.source if each.broken is None else Cell(f"{each.part.source}: broken", "bad")


def _cells(can: Capabilities | None) -> list[str | Cell]:
    if can is None:
        return [Cell("?", "muted")] * len(_ABLE)
    return [Cell("yes", "good") if getattr(can, name) else "-" for name, _, _ in _ABLE]


def _there(each: Surveyed) -> str | Cell:
    if each.missing is not None:
        return Cell("no", "attention")
    if each.broken is not None:
        return Cell("broken", "bad")
    if each.package is not None:
        return each.package.source
    if each.path is not None:
        return each.path
    return "yes" if each.can is not None and not each.observed else "by --command"
