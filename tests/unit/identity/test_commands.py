"""Every command, typed by everybody. The process table is made up, and nothing else."""

from __future__ import annotations

import pytest

from bullpen.doors.cli.commands import COMMANDS
from support.identity.cast import ACTORS
from support.identity.cli_door import CliDoor, rows
from support.identity.commands import CHANGES, ELSEWHERE, PEOPLE_ONLY, READS
from support.identity.rows import IDENTITY_REASONS, table


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> CliDoor:
    return CliDoor(tmp_path_factory.mktemp("cli"))


def test_every_command_has_rows() -> None:
    named = {what.split(":")[0] for what in (*PEOPLE_ONLY, *READS, *CHANGES, *ELSEWHERE)}
    assert named == {name for name, entry in COMMANDS.items() if entry.target}


@pytest.mark.parametrize("what", sorted({*PEOPLE_ONLY, *READS, *CHANGES}))
def test_only_who_may_types_it(door: CliDoor, what: str) -> None:
    seen = [door.perform(row) for row in rows(what)]
    print(table(seen))
    wrong = [
        each
        for each in seen
        if not each.fits(ACTORS[each.row.identity].name)
        or (each.row.expected == "refused" and each.refused not in IDENTITY_REASONS)
    ]
    assert not wrong, f"\n{table(wrong)}"
