"""Reviews in team files."""

from __future__ import annotations

from pathlib import Path

import pytest

from bullpen.errors import Invalid
from bullpen.protocol.task import Check
from bullpen.runs.teamfile.read import read_team_file

TEAM = """
[team]
name = "crew"

[[member]]
name = "ann"
driver = "claude"

[[task]]
id = "one"
subject = "One"
checks = ["make test", {check}]
"""
MERGE = '\n[workspace]\nkind = "worktree"\n\n[merge]\ngate = [{check}]\n'


def checks_of(tmp_path: Path, check: str, team: str = TEAM) -> tuple[Check, ...]:
    file = tmp_path / "TEAM.toml"
    file.write_text(team.replace("{check}", check))
    return read_team_file(file).items()[0].checks


def test_a_review_names_its_reviewer_rounds_and_rubric(tmp_path: Path) -> None:
    text = '{kind = "review", by = "codex", model = "m", rounds = 3, rubric = "Fast?"}'
    _, check = checks_of(tmp_path, text)
    assert (check.name, check.kind, check.by, check.model) == (
        "review by codex",
        "review",
        "codex",
        "m",
    )
    assert (check.rounds, check.rubric) == (3, "Fast?")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{kind = "review"}', "a review needs 'by'"),
        ('{kind = "review", by = "nobody"}', "nobody"),
        ('{kind = "review", by = "codex", rounds = 0}', "rounds"),
        ('{kind = "review", by = "codex", rounds = 11}', "rounds"),
        ('{kind = "command", run = "x", rubric = "y"}', "only for checks of the kind review"),
        ('{kind = "review", by = "claude"}', "may also have made the work"),
    ],
)
def test_a_review_that_cannot_be_made_is_a_mistake(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(Invalid, match=why):
        checks_of(tmp_path, text)


def test_a_gate_that_can_review_nobody_is_a_mistake(tmp_path: Path) -> None:
    team = TEAM.replace(", {check}", "") + MERGE
    with pytest.raises(Invalid, match="may also have made the work"):
        checks_of(tmp_path, '{kind = "review", by = "claude"}', team)
    checks_of(tmp_path, '{kind = "review", by = "claude", same_model = true}', team)
    other = team.replace('driver = "claude"', 'driver = "native"')
    checks_of(tmp_path, '{kind = "review", by = "claude"}', other)
