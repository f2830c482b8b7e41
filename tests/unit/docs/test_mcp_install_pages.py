"""The pages on programs say what the code says."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

from bullpen.agents.drivers.registry import capabilities_of
from bullpen.agents.system.vendors.acp_presets import GENERIC, PRESETS
from bullpen.doors.mcp.install.clients import CLIENTS
from bullpen.doors.mcp.prompts import PROMPTS

ROOT = Path(__file__).parents[3]
CONNECT = (ROOT / "docs/howto/connect-by-mcp.md").read_text(encoding="utf-8")


def rows(text: str) -> dict[str, list[str]]:
    """The rows of tables, by what stands in backticks in the first cell."""
    found = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| `")]
    return {cells[0].strip("`"): cells[1:] for cells in reversed(found)}


def test_the_page_names_every_program_that_can_be_connected_with_its_files() -> None:
    told = rows(CONNECT)
    assert set(CLIENTS) == set(told)
    for name, client in CLIENTS.items():
        project, user, *_ = told[name]
        for file in client.project:
            assert f"`{file}`" in project
        folders = {str(Path(file).parent) for file in client.user if len(client.user) > 1}
        for path in folders or client.user:
            assert f"`~/{path}`" in user
        assert client.variable is None or f"${client.variable}" in user
        assert f"bullpen mcp install {name} " in CONNECT


def test_the_page_names_every_prompt() -> None:
    assert all(f"`{prompt.name}`" in CONNECT for prompt in PROMPTS)


def test_the_table_of_programs_is_up_to_date() -> None:
    path = ROOT / "docs/programs/generate_readme.py"
    spec = importlib.util.spec_from_file_location("generate_readme", path)
    assert spec is not None
    assert spec.loader is not None
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    assert generate.PAGE.read_text(encoding="utf-8") == generate.page(), (
        "Run: python docs/programs/generate_readme.py"
    )


def test_the_table_says_of_each_program_what_it_declares() -> None:
    text = (ROOT / "docs/programs/README.md").read_text(encoding="utf-8")
    told = rows(text)
    (head,) = re.findall(r"^\| driver \| (.*) \|$", text, re.MULTILINE)
    columns = head.split(" | ")
    declared = {name: preset.capabilities for name, preset in {**PRESETS, "acp": GENERIC}.items()}
    declared["claude-code"] = capabilities_of("claude-code")
    assert set(told) == set(declared)
    for name, can in declared.items():
        row = dict(zip(columns, told[name], strict=True))
        assert row["mail during a turn"] == ("yes" if can.mid_turn else "no"), name
        assert row["after a denial"] == ("continues" if can.goes_on else "turn ends"), name
        for column, holds in (
            ("plan mode", can.plan_mode),
            ("usage", can.usage),
            ("resume", can.resume),
        ):
            assert row[column] == ("yes" if holds else "no"), (name, column)
        assert ("reads" in row["asks before"]) == can.asks_to_read, name
        assert ("changes" in row["asks before"]) == can.permissions, name
