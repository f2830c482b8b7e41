"""The scripts can be played, and the pictures can be shown anywhere."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bullpen.agents.drivers.scripted.script import load
from bullpen.runs import demo
from support.rows import each_row

ROOT = Path(__file__).parents[4]
EXAMPLE = ROOT / "examples" / "scripted-team.toml"
SCRIPTS = [Path(demo.__file__).with_name("team.toml"), EXAMPLE]
PICTURES = sorted((ROOT / "docs" / "images").glob("*.svg"))
NAMESPACE = "http://www.w3.org/2000/svg"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: str(path.name))
def test_a_script_has_turns_for_everybody_it_spawns(script: Path) -> None:
    agents = tomllib.loads(script.read_text(encoding="utf-8"))["agents"]
    spawned = {
        step["input"]["name"]
        for turn in agents["team-lead"]["turns"]
        for step in turn["steps"]
        if step.get("tool") == "SpawnTeammate"
    }
    assert spawned | {"team-lead"} == set(agents)
    for agent in agents:
        assert load(script, agent)


def test_there_are_pictures_at_work_and_at_the_end() -> None:
    shown = ("demo", "run", "asks", "two-machines")
    ends = (f"{name}-end" for name in shown)
    stems = {path.stem for path in PICTURES if not path.stem.startswith("journey-")}
    assert stems == {*shown, *ends, "tui"}


@each_row("picture", PICTURES, ids=lambda path: str(path.name))
def test_a_picture_is_small_and_needs_nothing_from_elsewhere(picture: Path) -> None:
    svg = picture.read_text(encoding="utf-8")
    assert len(svg.encode()) < 200_000
    tree = ElementTree.fromstring(svg)
    assert tree.tag == f"{{{NAMESPACE}}}svg"
    assert "://" not in svg.replace(f'xmlns="{NAMESPACE}"', "")
    assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)\)", svg))
    assert not re.search(r"@import|@font-face|<image|<script|href", svg)


@each_row("picture", PICTURES, ids=lambda path: str(path.name))
def test_a_picture_shows_no_path_of_the_machine_it_was_made_on(picture: Path) -> None:
    tree = ElementTree.fromstring(picture.read_text(encoding="utf-8"))
    shown = " ".join("".join(tree.itertext()).split())
    assert "bullpen" in shown
    # Commands such as /task are no paths.
    assert re.findall(r"(?:^|\s)(?:~|/\w[\w.-]*/|/(?:home|root|tmp|work)\b)\S*", shown) == []


def test_the_pictures_show_a_team_at_work() -> None:
    svg = (ROOT / "docs" / "images" / "demo.svg").read_text(encoding="utf-8")
    shown = "".join(ElementTree.fromstring(svg).itertext()).replace("\u00a0", " ")
    assert "Write a word counter" in shown
    assert "working" in shown
    assert all(name in shown for name in ("ada", "ben", "cy"))
