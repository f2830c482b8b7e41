"""Every form of the dashboard, sent by everybody who can reach its port."""

from __future__ import annotations

from pathlib import Path

from support.doors.web_stage import served
from support.identity.cast import ACTORS
from support.identity.rows import table
from support.identity.web_door import FORMS, perform, rows


async def test_only_whoever_may_act_sends_forms(tmp_path: Path) -> None:
    async with served(tmp_path, in_process=True) as stage:
        assert set(FORMS) == set(stage.board._acts_by_name)
        seen = [await perform(row, stage) for row in rows()]
    print(table(seen))
    wrong = [
        each
        for each in seen
        if not each.fits(ACTORS[each.row.identity].name)
        or (each.row.expected == "refused" and each.refused is None)
    ]
    assert not wrong, f"\n{table(wrong)}"
