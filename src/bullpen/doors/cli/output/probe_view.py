"""Show what came of the probes of the sandbox."""

from __future__ import annotations

from collections.abc import Sequence

from bullpen.agents.supervisor.sandbox_probes.examine import ProbeRow
from bullpen.doors.cli.output.page import Page
from bullpen.sandbox.command import weakness
from bullpen.view.text import Cell


def show_probes(page: Page, rows: Sequence[ProbeRow]) -> bool:
    """Show all rows as JSON, or the counts and those that are wrong. Returns whether none is."""
    wrong = [row for row in rows if not row.is_fine]
    weak = weakness()
    if page.json:
        value = {"probes": rows, "total": len(rows), "wrong": len(wrong), "weakness": weak}
        page.value("probes/1", value)
        return not wrong
    kinds = list(dict.fromkeys(row.probe.split(":")[0] for row in rows))
    page.table(
        ("user", "agent", *kinds),
        [
            (user, agent, *(_count(rows, user, agent, kind) for kind in kinds))
            for user, agent in dict.fromkeys((row.user, row.agent) for row in rows)
        ],
    )
    for row in wrong:
        page.line(
            Cell(f"{row.user}, {row.agent}: {row.probe} is {row.was}, not {row.must}", "attention")
        )
    held = len(rows) - len(wrong)
    page.line(Cell(f"{held} of {len(rows)} probes held.", "attention" if wrong else "good"))
    if weak is not None:
        page.warn(weak)
    return not wrong


def _count(rows: Sequence[ProbeRow], user: str, agent: str, kind: str) -> Cell:
    found = [
        row.is_fine
        for row in rows
        if (row.user, row.agent) == (user, agent) and row.probe.startswith(f"{kind}:")
    ]
    text = f"{sum(found)}/{len(found)}"
    return Cell(text, "good" if all(found) else "attention")
