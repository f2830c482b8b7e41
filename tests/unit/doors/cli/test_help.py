"""Help, completion, and what they may cost."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from bullpen.doors.cli.command import load_command
from bullpen.doors.cli.commands import ADVANCED, HIDDEN, PANELS, CommandEntry
from bullpen.doors.cli.commands import COMMANDS as COMMAND_TABLE
from bullpen.doors.cli.main import app
from support.rows import each_row

ROOT = Path(__file__).parents[4]
LINE_MAX = 60


def _commands() -> Iterator[tuple[str, ...]]:
    root: Any = get_command(app)
    context = root.make_context("bullpen", [], resilient_parsing=True)
    for name in root.list_commands(context):
        yield (name,)
        command = root.get_command(context, name)
        if hasattr(command, "list_commands"):
            yield from ((name, below) for below in command.list_commands(context))


COMMANDS = list(_commands())


def test_all_commands_are_there() -> None:
    assert {" ".join(words) for words in COMMANDS} >= {
        "team create", "team list", "team show", "team delete", "member add", "member list",
        "member remove", "task add", "task list", "task show", "task claim", "task done",
        "task release", "task assign", "task depend", "task undepend", "task delete", "task edit",
        "task check", "task graph", "send", "inbox", "events", "doctor", "requests", "approve",
        "deny", "policy show", "policy check", "mode", "interrupt",
    }  # fmt: skip


@each_row("words", COMMANDS)
def test_every_command_has_help_and_the_common_options(
    run: Callable[..., Any], words: tuple[str, ...]
) -> None:
    result = run(*words, "--help")

    assert result.exit_code == 0
    assert result.stdout == run(*words, "-h").stdout
    usage, _, text, *_ = result.stdout.splitlines()
    assert usage.startswith(f"Usage: bullpen {' '.join(words)} ")
    assert 0 < len(text.strip()) <= LINE_MAX
    assert not text.strip().endswith(".")
    for option in ("--home", "--team", "--as", "--json", "--jsonl"):
        assert option in result.stdout
    if words not in {("team",), ("member",), ("task",), ("policy",)}:
        assert re.search(r"Examples:\n    (.*[ (|])?bullpen\b", result.stdout)


@each_row("words", [(), *COMMANDS])
def test_nothing_is_cut_at_eighty_columns(
    run: Callable[..., Any], words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERMINAL_WIDTH", "80")

    shown = run(*words, "--help").stdout

    assert "..." not in shown
    assert "…" not in shown
    assert [line for line in shown.splitlines() if len(line) > 80] == []


def test_the_first_page_has_panels_and_all_of_it_has_every_command(
    run: Callable[..., Any],
) -> None:
    first, everything = run("--help").stdout, run("--help", "--all").stdout

    for panel, names in PANELS.items():
        section = first.partition(f"\n{panel}:\n")[2].partition("\n\n")[0]
        assert [line.split()[0] for line in section.splitlines()] == list(names)
    assert f"\n{ADVANCED}:\n" not in first
    rest = everything.partition(f"\n{ADVANCED}:\n")[2].partition("\n\n")[0]
    everyday = {name for names in PANELS.values() for name in names}
    assert {line.split()[0] for line in rest.splitlines()} == {
        name for name in COMMAND_TABLE if " " not in name
    } - everyday - HIDDEN
    assert run("--all").exit_code == 2


@each_row("name", COMMAND_TABLE)
def test_the_line_in_the_table_is_the_first_line_of_the_docstring(name: str) -> None:
    entry = COMMAND_TABLE[name]

    assert len(entry.help) <= LINE_MAX
    assert not entry.help.endswith(".")
    if isinstance(entry, CommandEntry):
        assert load_command(entry).__doc__.splitlines()[0] == f"{entry.help}."


@pytest.mark.parametrize("name", ["run", "up", "spawn"])
def test_the_options_of_long_commands_stand_in_panels(run: Callable[..., Any], name: str) -> None:
    shown = run(name, "--help").stdout

    titles = [line for line in shown.splitlines() if re.fullmatch(r"\w[\w ]*:", line)]
    assert titles[:2] == ["Arguments:", "Options:"]
    assert {"Where it works:", "Limits:"} <= set(titles)
    assert titles[-1] == "Common options:"


def test_the_version_is_the_installed_one(run: Callable[..., Any]) -> None:
    assert run("--version").stdout == f"bullpen {version('bullpen')}\n"


def test_the_reference_page_is_up_to_date() -> None:
    path = ROOT / "docs/reference/generate_cli.py"
    spec = importlib.util.spec_from_file_location("generate_cli", path)
    assert spec is not None
    assert spec.loader is not None
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)

    assert generate.PAGE.read_text(encoding="utf-8") == generate.page(), (
        "Run: python docs/reference/generate_cli.py"
    )
