"""Every program has a page that says what the code says, with a team file that works."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bullpen.agents.drivers.registry import DRIVERS
from bullpen.agents.system.vendors.acp_presets import PRESETS
from bullpen.agents.system.vendors.programs import PROGRAMS
from bullpen.runs.teamfile.read import TeamFile, read_team_file
from support.rows import each_row

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "docs" / "programs"
PAGES = sorted(path for path in FOLDER.glob("*.md") if path.name != "README.md")
OTHERS = [ROOT / "docs/reference/team-file.md", *sorted(ROOT.glob("examples/**/*.md"))]
FILES = sorted(ROOT.glob("examples/**/TEAM.toml"))
TOML = re.compile(r"^```toml\n(.*?)^```", re.DOTALL | re.MULTILINE)


def team_files(page: Path, folder: Path) -> list[TeamFile]:
    """The team files that a page shows, each read as `bullpen up` reads it."""
    read = []
    for text in TOML.findall(page.read_text(encoding="utf-8")):
        if "[team]" in text:
            path = folder / "TEAM.toml"
            path.write_text(text, encoding="utf-8")
            read.append(read_team_file(path))
    return read


def test_every_program_has_a_page() -> None:
    assert {page.stem for page in PAGES} == set(PROGRAMS)


@each_row("page", PAGES, ids=lambda page: str(page.stem))
def test_a_page_shows_a_team_file_that_is_read_and_has_its_driver(
    page: Path, tmp_path: Path
) -> None:
    (file,) = team_files(page, tmp_path)
    assert page.stem in {member.driver for member in file.teammates}
    assert {member.driver for member in file.members} <= set(DRIVERS)


@each_row("page", OTHERS, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_team_file_of_another_page_is_read(page: Path, tmp_path: Path) -> None:
    for file in team_files(page, tmp_path):
        assert {member.driver for member in file.members} <= set(DRIVERS)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_team_file_among_the_examples_is_read(path: Path) -> None:
    assert {member.driver for member in read_team_file(path).members} <= set(DRIVERS)


def test_there_are_team_files_among_the_examples() -> None:
    assert FILES


@pytest.mark.parametrize("driver", PRESETS)
def test_a_page_names_how_to_get_the_program_and_every_variable_that_it_gets(driver: str) -> None:
    preset = PRESETS[driver]
    text = (FOLDER / f"{driver}.md").read_text(encoding="utf-8")
    command, _, needs = preset.install.partition(" (")
    assert f"\n{command}" in text
    assert ("Node 22" in text) == ("Node 22" in needs)
    assert [name for name in preset.env if f"`{name}`" not in text] == []
    for version in re.findall(r"\S+ \d[\d.]*\d", preset.observed):
        assert version in text


@pytest.mark.parametrize("driver", PRESETS)
def test_a_page_promises_mail_in_a_turn_only_where_the_driver_does(driver: str) -> None:
    text = (FOLDER / f"{driver}.md").read_text(encoding="utf-8")
    (told,) = re.findall(r"^\| mail during a turn \| (.*) \|$", text, re.MULTILINE)
    assert told.startswith("no:") != PRESETS[driver].capabilities.mid_turn
