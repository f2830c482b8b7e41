"""The reference pages name everything that there is, with the values that the code has."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import get_args

import pytest

from bullpen.agents import definitions, environment
from bullpen.agents.drivers.script import PLACEHOLDERS, ScriptedTurn, Step, UsageStep, WaitMail
from bullpen.agents.runner import Pace
from bullpen.agents.tools.box import TOOLS
from bullpen.protocol.agent import End, Limits
from bullpen.protocol.payloads import Control
from bullpen.team.snapshot import MemberState

AGENTS = "docs/reference/agents.md"
SCRIPTS = "docs/reference/scripts.md"
RUN_AGENTS = "docs/howto/run-agents.md"


def page_text(page: str) -> str:
    return (Path(__file__).parents[2] / page).read_text(encoding="utf-8")


def section(page: str, heading: str) -> str:
    """The text under a heading, to the next one."""
    found = re.search(
        rf"^## {heading}\n(.*?)(?=^## |\Z)", page_text(page), re.DOTALL | re.MULTILINE
    )
    assert found, f"{page} has no section {heading!r}"
    return found[1]


def first_cells(text: str) -> list[str]:
    """What stands in backticks at the beginning of the rows of a table."""
    return re.findall(r"^\| `([^`]+)`", text, re.MULTILINE)


def test_the_page_lists_every_tool_with_its_kind() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \|", section(AGENTS, "Tools"), re.MULTILINE)
    assert rows == [(tool.name, tool.kind) for tool in TOOLS]


def test_the_page_lists_every_state_and_end() -> None:
    states = {name for part in get_args(MemberState) for name in get_args(part) or (part,)}
    assert set(first_cells(section(AGENTS, "States"))) == states
    for end in get_args(End):
        assert f"`{end}`" in section(AGENTS, "Phases and ends")


def test_the_page_lists_every_order() -> None:
    actions = get_args(Control.model_fields["action"].annotation)
    assert set(first_cells(section(AGENTS, "Orders"))) == set(actions)


def test_the_page_lists_every_time_with_its_value() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([\d.]+) \|", section(AGENTS, "Times"), re.MULTILINE)
    told = {name: float(value) for name, value in rows}
    assert told == {name: float(value) for name, value in dataclasses.asdict(Pace()).items()}


def test_the_page_lists_every_limit_with_its_value() -> None:
    for name, value in Limits.new().model_dump().items():
        default = "none" if value is None else value
        assert f"`{name}` {default}" in section(AGENTS, "Limits")


def test_the_page_lists_every_step_and_every_field_of_a_turn() -> None:
    steps = section(SCRIPTS, "Steps")
    for name in set(Step.model_fields) - {"input", "may_fail"}:
        assert f"`{{{name} = " in steps, name
    for name in ("may_fail", *UsageStep.model_fields):
        assert f"`{name}" in steps, name
    for model, text in ((WaitMail, steps), (ScriptedTurn, section(SCRIPTS, "Turns"))):
        for name, about in model.model_fields.items():
            assert re.search(rf"\b{about.alias or name}\b", text), name


def test_the_page_lists_every_placeholder() -> None:
    listed = {cell.strip("{}") for cell in first_cells(section(SCRIPTS, "Placeholders"))}
    assert listed == set(PLACEHOLDERS)


def test_the_page_lists_every_field_of_a_definition() -> None:
    text = section(RUN_AGENTS, "Roles")
    shown = {"name", "description", "color"}
    for name in {*definitions._FIELDS, *definitions._NOT_YET, *shown}:
        assert f"`{name}`" in text, name


@pytest.mark.parametrize("name", environment.MODELS)
def test_the_page_names_the_variables_that_hold_keys(name: str) -> None:
    assert f"`{name}`" in section(RUN_AGENTS, "What an agent gets")
