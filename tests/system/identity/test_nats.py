"""Every operation of a team with each kind of key of a server."""

from __future__ import annotations

from pathlib import Path

from support.identity.expected import OPERATIONS
from support.identity.nats_door import nats_door, rows
from support.identity.rows import table


async def test_a_key_changes_its_teams_and_no_others(tmp_path: Path) -> None:
    async with nats_door(tmp_path) as door:
        seen = await door.perform([row for what in OPERATIONS for row in rows(what)])
    print(table(seen))
    wrong = [
        each
        for each in seen
        if (each.row.expected != "let in" and each.done != (each.row.expected == "done"))
        or (each.row.expected == "done" and each.refused is not None)
    ]
    assert not wrong, f"\n{table(wrong)}"
    assert len(seen) > 7 * 68
