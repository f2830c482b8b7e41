"""`[shape] evals`: what evals of this repository say decides who works on the tasks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bullpen.errors import Invalid
from bullpen.runs.eval.plan import Part
from bullpen.runs.shaping import Shaping, shaping_of
from bullpen.runs.teamfile.read import read_team_file
from bullpen.store.memory import MemoryStore
from bullpen.team.team import Teams
from support.evals.records import make_results

TEAM = """
[team]
name = "crew"

[shape]
{shape}

[[member]]
name = "ann"
driver = "native"

[[member]]
name = "ben"
driver = "native"

[[task]]
id = "first"
subject = "First"

[[task]]
id = "second"
subject = "Second"
"""


def shaping(folder: Path, shape: str = 'evals = "results"') -> Shaping:
    path = folder / "sub" / "TEAM.toml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(TEAM.format(shape=shape))
    # Relative to the team file, not to the project.
    found = shaping_of(read_team_file(path), Teams(MemoryStore()).open("crew"), str(folder))
    assert found is not None
    return found


async def shapes(folder: Path, shape: str = 'evals = "results"') -> list[tuple[str, str]]:
    made = shaping(folder, shape)
    items = await made.shaped(read_team_file(folder / "sub" / "TEAM.toml").items())
    found = [item.shape for item in items]
    return [(each.shape, each.why) for each in found if each is not None]


async def test_without_evals_the_graph_decides(tmp_path: Path) -> None:
    assert [shape for shape, _ in await shapes(tmp_path, "")] == ["team", "team"]


async def test_a_shape_that_surely_passed_more_is_chosen(tmp_path: Path) -> None:
    make_results(tmp_path / "sub" / "results", {"solo": 18, "team": 2})
    [(shape, why), _] = await shapes(tmp_path)
    assert shape == "solo"
    assert why == "in this repository's evals it passed 70% to 97%, most of all"


async def test_else_the_cheapest_is_chosen(tmp_path: Path) -> None:
    usd = {"solo": 0.5, "team": 1.0}
    make_results(tmp_path / "sub" / "results", {"solo": 9, "team": 10}, usd=usd)
    [(shape, why), _] = await shapes(tmp_path)
    assert (shape, why.rpartition(": ")[2]) == ("solo", "$1.11 per accepted change")


async def test_too_few_trials_have_no_opinion(tmp_path: Path) -> None:
    make_results(tmp_path / "sub" / "results", {"solo": 5, "team": 0}, tasks=5)
    assert [shape for shape, _ in await shapes(tmp_path)] == ["team", "team"]


async def test_results_of_several_hosts_count_together(tmp_path: Path) -> None:
    for number in (1, 2):
        where = tmp_path / "sub" / f"part-{number}"
        make_results(where, {"solo": 14, "team": 0}, tasks=16, part=Part(number, 2))
    alone = await shapes(tmp_path, 'evals = "part-1"')
    assert [shape for shape, _ in alone] == ["team", "team"], "eight tasks are too few"
    together = await shapes(tmp_path, 'evals = ["part-1", "part-2"]')
    assert [shape for shape, _ in together] == ["solo", "solo"]


@pytest.mark.parametrize("broken", ["nothing", "a file", "damaged", "a damaged record", "no list"])
async def test_evals_that_cannot_be_read_are_an_error_at_the_start(
    tmp_path: Path, broken: str
) -> None:
    where = tmp_path / "sub" / "results"
    if broken == "a file":
        where.parent.mkdir()
        where.write_text("")
    elif broken != "nothing":
        make_results(where, {"solo": 18, "team": 2})
    if broken == "damaged":
        (where / "eval.json").write_text("{")
    if broken == "a damaged record":
        (where / "trials" / "t03--solo--1.json").write_text(json.dumps({"format": 1, "task": 3}))
    if broken == "no list":
        for path in (where / "trials").iterdir():
            path.unlink()
        (where / "trials").rmdir()
    with pytest.raises(Invalid, match=r"TEAM.toml: `evals` in `\[shape\]` cannot be used") as said:
        await shaping(tmp_path).look()
    assert "bullpen eval run" in (said.value.remedy or "")
    with pytest.raises(Invalid):
        await shapes(tmp_path)


async def test_evals_are_not_read_if_the_file_has_chosen(tmp_path: Path) -> None:
    found = await shapes(tmp_path, 'choose = "solo"\nevals = "nowhere"')
    assert found == [("solo", "the team file says so")] * 2
