"""A reviewer in `[shape]`: tasks of one agent that may hide a mistake get a review."""

from __future__ import annotations

from pathlib import Path

import pytest

from bullpen.errors import Invalid
from bullpen.runs.shaping import shaping_of
from bullpen.runs.teamfile.read import read_team_file
from bullpen.store.memory import MemoryStore
from bullpen.team.team import Teams

TEAM = """
[team]
name = "crew"

[shape]
reviewer = "codex"

[[member]]
name = "cody"
driver = "codex"

[[member]]
name = "ann"
driver = "native"

[[task]]
id = "first"
subject = "No command tests it"

[[task]]
id = "second"
subject = "Tested"
blocked_by = ["first"]
checks = ["make test"]
"""


async def test_untested_work_of_one_agent_is_reviewed_by_another_program(tmp_path: Path) -> None:
    file = tmp_path / "TEAM.toml"
    file.write_text(TEAM)
    read = read_team_file(file)
    shaping = shaping_of(read, Teams(MemoryStore()).open("crew"), str(tmp_path))
    assert shaping is not None
    first, second = await shaping.shaped(read.items())
    assert first.shape is not None
    assert first.shape.shape == "solo+review"
    assert [(each.kind, each.by) for each in first.checks] == [("review", "codex")]
    # Not the first member: it is like the reviewer.
    assert first.owner == "ann"
    assert second.shape is not None
    assert (second.shape.shape, second.owner) == ("solo", "cody")
    assert [each.kind for each in second.checks] == ["command"]


def test_a_reviewer_that_is_like_every_member_is_a_mistake(tmp_path: Path) -> None:
    file = tmp_path / "TEAM.toml"
    file.write_text(TEAM.replace('"native"', '"codex"'))
    with pytest.raises(Invalid, match="may also have made the work"):
        read_team_file(file)
