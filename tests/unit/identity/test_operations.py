"""Every operation of a team, by everybody: in Python, and at the socket of a host."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bullpen.team.team import operations
from support.identity import acts, expected
from support.identity.cast import ACTORS
from support.identity.operations import at_host, in_python, perform
from support.identity.rows import Row, table


def test_every_operation_has_rows() -> None:
    named = {what.split(":")[0] for what in expected.OPERATIONS}
    assert named == set(operations())
    assert set(acts.ACTS) == set(expected.OPERATIONS)


@pytest.mark.parametrize("what", expected.OPERATIONS)
@pytest.mark.parametrize("rows_of", [in_python, at_host])
async def test_only_who_may_do_it_does_it(what: str, rows_of: Callable[[str], list[Row]]) -> None:
    seen = [await perform(row) for row in rows_of(what)]
    print(table(seen))
    wrong = [each for each in seen if not each.fits(ACTORS[each.row.identity].name)]
    assert not wrong, f"\n{table(wrong)}"
