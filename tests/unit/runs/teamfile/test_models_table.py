"""The models of a team file reach the members that use them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bullpen.errors import Invalid
from bullpen.runs.teamfile.read import TeamFile, read_team_file

FILE = """
[team]
name = "shop"

[models."ollama:qwen3:8b"]
context_window = 16384
input_price = 0
output_price = 0.5

[[member]]
name = "ann"
model = "ollama:qwen3:8b"
effort = "low"
small_model = "groq:fast"

[[member]]
name = "bob"
strict_model = true

[[task]]
id = "a"
subject = "Do it"
"""


def read(tmp_path: Path, text: str) -> TeamFile:
    (tmp_path / "TEAM.toml").write_text(text, encoding="utf-8")
    return read_team_file(tmp_path / "TEAM.toml")


def test_a_table_of_a_model_is_read(tmp_path: Path) -> None:
    file = read(tmp_path, FILE)
    table = file.models["ollama:qwen3:8b"].model_dump(exclude_none=True)
    assert table == {"context_window": 16384, "input_price": 0, "output_price": 0.5}
    ann, bob = file.members
    assert (ann.effort, ann.small_model, ann.strict_model) == ("low", "groq:fast", False)
    assert bob.strict_model


def test_a_whole_team_can_be_strict(tmp_path: Path) -> None:
    stricter = read(tmp_path, FILE).strict_about_models()
    assert all(member.strict_model for member in stricter.members)


@pytest.mark.parametrize(
    "line", ["context_window = 0", "input_price = 1.0", "input_price = -1.0", "window = 5"]
)
def test_a_table_that_makes_no_sense_is_refused_with_its_line(tmp_path: Path, line: Any) -> None:
    with pytest.raises(Invalid, match=r"TEAM\.toml:\d+: .*models"):
        read(tmp_path, f'[team]\nname = "shop"\n[models."m"]\n{line}\n[[member]]\nname = "ann"\n')
