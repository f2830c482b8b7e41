"""Drivers as people read them in columns, and as the JSON objects programs read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from bullpen.agents.drivers.base import Capabilities
from bullpen.agents.drivers.survey import Surveyed
from bullpen.cli.render import Page
from bullpen.view.text import Cell

_ABLE = (
    ("mid_turn", "mid-turn", "mail that comes in a turn reaches the model in that turn"),
    ("permissions", "asks", "asks before it changes files or runs anything: modes and rules hold"),
    ("asks_to_read", "reads", "asks before it reads, too: rules about reading hold"),
    ("edits", "edits", "makes a call as the answer to its question changed it"),
    ("goes_on", "goes on", "after a refusal the model is told why, and goes on in the same turn"),
    ("plan_mode", "plans", "has a plan mode"),
    ("resume", "resumes", "knows its conversation again after a restart"),
    ("usage", "usage", "tells what it used: budgets in tokens hold"),
    ("brakes", "brakes", "is stopped by a budget before each request, not only before a turn"),
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
    """All drivers: what they can do, where they are, and how to get what is missing."""
    if page.json:
        page.value(drivers_json(found))
        return
    page.table(
        ("driver", *(heading for _, heading, _ in _ABLE), "there", "observed"),
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
