"""The reference pages name everything that there is, with the values that the code has."""

from __future__ import annotations

import dataclasses
import re
import tomllib
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from bullpen.agents.config import definitions, own_settings, settings
from bullpen.agents.drivers.scripted.script import (
    PLACEHOLDERS,
    ScriptedTurn,
    ScriptStep,
    UsageStep,
    WaitMail,
)
from bullpen.agents.hooks import hook_set
from bullpen.agents.permissions.shell.harmless import judge
from bullpen.agents.runner.pace import Pace
from bullpen.agents.system import environment
from bullpen.agents.tools.toolbox import TOOLS
from bullpen.protocol.agent import End
from bullpen.protocol.guarded_paths import guarded_names
from bullpen.protocol.payloads import Control
from bullpen.protocol.policy import MODES, Approver, PlanApprover
from bullpen.protocol.team import Limits
from bullpen.team.budget.rules import REASONS
from bullpen.team.requests.mode_rules import effect_of_mode
from bullpen.team.snapshot import MemberState

AGENTS = "docs/reference/agents.md"
SCRIPTS = "docs/reference/scripts.md"
RUN_AGENTS = "docs/howto/run-agents.md"
POLICY = "docs/reference/policy.md"
HOOKS = "docs/reference/hooks.md"


def page_text(page: str) -> str:
    return (Path(__file__).parents[3] / page).read_text(encoding="utf-8")


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


def toml_blocks(text: str) -> list[str]:
    """The blocks of TOML in a text."""
    return re.findall(r"^```toml\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def test_the_page_lists_every_tool_with_its_kind() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \|", section(AGENTS, "Tools"), re.MULTILINE)
    assert rows == [(tool.name, tool.kind) for tool in TOOLS]


def test_the_page_lists_every_state_and_end() -> None:
    states = {name for part in get_args(MemberState) for name in get_args(part) or (part,)}
    assert set(first_cells(section(AGENTS, "States"))) == states
    for end in get_args(End):
        assert f"`{end}`" in section(AGENTS, "Phases and ends")


def test_the_page_lists_every_order() -> None:
    actions = get_args(get_type_hints(Control)["action"])
    assert set(first_cells(section(AGENTS, "Orders"))) == set(actions)


def test_the_page_lists_every_time_with_its_value() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([\d.]+) \|", section(AGENTS, "Times"), re.MULTILINE)
    told = {name: float(value) for name, value in rows}
    assert told == {name: float(value) for name, value in dataclasses.asdict(Pace()).items()}


def test_the_page_lists_every_limit_with_its_value() -> None:
    for name in Limits.field_keys():
        value = getattr(Limits, name)
        default = "none" if value is None else value
        assert f"`{name}` {default}" in section(AGENTS, "Limits")


def test_the_page_lists_every_step_and_every_field_of_a_turn() -> None:
    steps = section(SCRIPTS, "Steps")
    for name in set(ScriptStep.model_fields) - {"input", "may_fail"}:
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
    for name in {*definitions._FIELDS, *shown}:
        assert f"`{name}`" in text, name


@pytest.mark.parametrize("name", environment.MODELS)
def test_the_page_names_the_variables_that_hold_keys(name: str) -> None:
    assert f"`{name}`" in section(RUN_AGENTS, "What an agent gets")


def test_the_page_has_the_table_of_modes_that_the_code_has() -> None:
    """R-4.1: what people read about modes is what is decided."""
    row = r"^\| `(\w+)` \| (\w+) \| (\w+) \| (\w+) \| (\w+) \| (\w+) \|$"
    rows = re.findall(row, section(POLICY, "Modes"), re.MULTILINE)
    told = {mode: tuple(rest) for mode, *rest in rows}
    decided = {
        mode: (
            effect_of_mode(mode, "read", inside=True),
            effect_of_mode(mode, "read", inside=False),
            effect_of_mode(mode, "write", inside=True),
            effect_of_mode(mode, "write", inside=False),
            effect_of_mode(mode, "run", inside=True),
        )
        for mode in MODES
    }
    assert told == decided


def test_the_page_names_every_approver() -> None:
    requests, plans = (
        set(first_cells(section(POLICY, heading))) for heading in ("Permission requests", "Plans")
    )
    assert requests == {"--approver", *get_args(Approver)}
    # A program that leads and answers by messages is told of with permissions.
    assert {*plans, "inbox"} == {"--plan-approver", *get_args(PlanApprover)}


def test_the_page_names_every_guarded_file() -> None:
    for name in guarded_names():
        assert f"`{name}`" in section(POLICY, "Guarded files"), name


def test_the_page_names_every_program_with_a_list_of_harmless_words() -> None:
    text = section(POLICY, "Commands")
    for name in {*(key.split()[0] for key in judge.TABLE), "sed", "tar"}:
        assert f"`{name}`" in text, name


def test_the_settings_of_the_page_are_read_and_are_all_there_are(tmp_path: Path) -> None:
    (text,) = toml_blocks(section(POLICY, "Settings files"))
    file = tmp_path / settings.OWN_FILE
    file.parent.mkdir()
    file.write_text(text, encoding="utf-8")
    (read,) = settings.read_settings(tmp_path, user_home=tmp_path, home=tmp_path / "home").files
    assert read.matters
    told = tomllib.loads(text)
    for name, about in own_settings._Own.model_fields.items():
        # Each table is a model of its own, or there need be none.
        for table in (about.annotation, *get_args(about.annotation)):
            if isinstance(table, type) and issubclass(table, own_settings._Table):
                assert set(told[name]) == set(table.model_fields), name


def test_the_page_lists_every_event_and_every_field_of_a_hook() -> None:
    assert first_cells(section(HOOKS, "Events")) == list(hook_set.EVENTS)
    text = section(HOOKS, "A hook")
    for name in (hook_set._HOOK_KEYS - {"type", "statusMessage"}) | {"matcher"}:
        assert name in first_cells(text), name
    (ours,) = toml_blocks(text)
    told = tomllib.loads(ours)["hooks"]
    assert set(told["PreToolUse"][0]) == set(hook_set._OWN_KEYS)
    assert hook_set.HookSet.of(hook_set.own_hooks(told)).breaker == told["breaker"]
    assert f"`breaker` ({hook_set.BREAKER})" in section(HOOKS, "Refusals in a row")


def test_the_page_names_the_reason_of_every_limit() -> None:
    for reason in REASONS.values():
        assert f"`{reason}`" in section(AGENTS, "Limits")
