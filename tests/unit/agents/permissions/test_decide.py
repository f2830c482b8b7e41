"""Every mode, every tool, inside and outside the project, with every kind of rule."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bullpen.agents.contracts.call import Call, Rights
from bullpen.agents.permissions.decide import decide
from bullpen.agents.tools.toolbox import TOOLS
from bullpen.protocol.policy import MODES

MODE_ORDER = ("default", "acceptEdits", "bypassPermissions", "plan", "delegate", "dontAsk")

# Written by hand from what the modes are documented to mean: one row for each kind of call, one
# column for each mode in the order above. `+` it is done, `?` somebody is asked, `-` it is refused.
EXPECTED = """
no rule         read inside     + + + + + +
no rule         read outside    ? ? + ? ? -
no rule         write inside    ? + + - + -
no rule         write outside   ? ? + - ? -
no rule         run             ? ? + - ? -
no rule         team            + + + + + +
allow           read inside     + + + + + +
allow           read outside    + + + + + +
allow           write inside    + + + - + +
allow           write outside   + + + - + +
allow           run             + + + - + +
allow           team            + + + + + +
ask             read inside     ? ? ? ? ? -
ask             read outside    ? ? ? ? ? -
ask             write inside    ? ? ? - ? -
ask             write outside   ? ? ? - ? -
ask             run             ? ? ? - ? -
ask             team            ? ? ? ? ? -
ask+allow       read inside     ? ? ? ? ? -
ask+allow       read outside    ? ? ? ? ? -
ask+allow       write inside    ? ? ? - ? -
ask+allow       write outside   ? ? ? - ? -
ask+allow       run             ? ? ? - ? -
ask+allow       team            ? ? ? ? ? -
deny            read inside     - - - - - -
deny            read outside    - - - - - -
deny            write inside    - - - - - -
deny            write outside   - - - - - -
deny            run             - - - - - -
deny            team            - - - - - -
allow+deny      read inside     - - - - - -
allow+deny      read outside    - - - - - -
allow+deny      write inside    - - - - - -
allow+deny      write outside   - - - - - -
allow+deny      run             - - - - - -
allow+deny      team            - - - - - -
ask+deny        read inside     - - - - - -
ask+deny        read outside    - - - - - -
ask+deny        write inside    - - - - - -
ask+deny        write outside   - - - - - -
ask+deny        run             - - - - - -
ask+deny        team            - - - - - -
allow+ask+deny  read inside     - - - - - -
allow+ask+deny  read outside    - - - - - -
allow+ask+deny  write inside    - - - - - -
allow+ask+deny  write outside   - - - - - -
allow+ask+deny  run             - - - - - -
allow+ask+deny  team            - - - - - -
other allow     read inside     + + + + + +
other allow     read outside    ? ? + ? ? -
other allow     write inside    ? + + - + -
other allow     write outside   ? ? + - ? -
other allow     run             ? ? + - ? -
other allow     team            + + + + + +
other deny      read inside     + + + + + +
other deny      read outside    ? ? + ? ? -
other deny      write inside    ? + + - + -
other deny      write outside   ? ? + - ? -
other deny      run             ? ? + - ? -
other deny      team            + + + + + +
"""
SIGNS = {"+": "allow", "?": "ask", "-": "deny"}

# What each tool can change, by hand as well. None: it names no file.
FILE_TOOLS = {
    **dict.fromkeys(("Read", "Glob", "Grep"), "read"),
    **dict.fromkeys(("Write", "Edit", "MultiEdit", "NotebookEdit"), "write"),
}
OTHERS = {
    "Bash": "run",
    "mcp__tracker__search": "run",
    # It asks about each file as Edit or Write.
    "apply_patch": "team",
    "mcp__tracker__read_resource": "run",
    "BashOutput": "read inside",
    "KillShell": "read inside",
    "Skill": "read inside",
    "WebFetch": "read outside",
    "WebSearch": "read outside",
    "TaskCreate": "team",
    "TaskGet": "team",
    "TaskList": "team",
    "TaskUpdate": "team",
    "NotesRead": "team",
    "NotesWrite": "team",
    "Promise": "team",
    "SendMessage": "team",
    "TeamStatus": "team",
    "ScheduleWakeup": "team",
    "SpawnTeammate": "team",
    "Task": "team",
    "StopTeammate": "team",
    "SetMode": "team",
    "Finish": "team",
    "TeamCreate": "team",
    "TeamDelete": "team",
    "EnterPlanMode": "team",
    "ExitPlanMode": "team",
    "ToolSearch": "team",
    "TodoWrite": "team",
    "AskUserQuestion": "team",
}
KINDS = sorted({line.split("  ")[0] for line in EXPECTED.strip().splitlines()})
ROWS = 3_330


@dataclass(frozen=True)
class Row:
    mode: str
    tool: str
    where: str
    rules: str
    wide: bool
    expected: str


def expected_effects() -> dict[tuple[str, str, str], str]:
    table = {}
    for line in EXPECTED.strip().splitlines():
        rules, kind, signs = line[:16].strip(), line[16:32].strip(), line[32:].split()
        for mode, sign in zip(MODE_ORDER, signs, strict=True):
            table[rules, kind, mode] = SIGNS[sign]
    return table


def rows() -> Iterator[Row]:
    table = expected_effects()
    for rules, mode, wide in itertools.product(KINDS, MODE_ORDER, (True, False)):
        if not wide and rules in ("no rule", "other allow", "other deny"):
            continue
        for tool, kind in FILE_TOOLS.items():
            for where in ("inside", "outside"):
                effect = table[rules, f"{kind} {where}", mode]
                yield Row(mode, tool, where, rules, wide, effect)
        for tool, kind in OTHERS.items():
            # Only commands and files can be told apart by a rule.
            if wide or tool == "Bash":
                yield Row(mode, tool, "inside", rules, wide, table[rules, kind, mode])


def call_of(row: Row, place: Path) -> Call:
    kinds = {tool.name: "team" if tool.asks_itself else tool.kind for tool in TOOLS}
    folder = place / ("project" if row.where == "inside" else "elsewhere")
    inputs: dict[str, dict[str, Any]] = {
        "Glob": {"pattern": "*.py", "path": str(folder)},
        "Grep": {"pattern": "x", "path": str(folder)},
        "Bash": {"command": "git status --short"},
    }
    given = inputs.get(row.tool, {"file_path": str(folder / "a.py")})
    about_something = row.tool in (*FILE_TOOLS, "Bash")
    return Call(row.tool, given if about_something else {}, kinds.get(row.tool, "run"))


def rights_of(row: Row, place: Path) -> Rights:
    folder = place / ("project" if row.where == "inside" else "elsewhere")
    rule = row.tool
    if not row.wide:
        rule = "Bash(git status:*)" if row.tool == "Bash" else f"{row.tool}(/{folder}/**)"
    if row.rules.startswith("other"):
        rule = "Bash(git push:*)" if row.tool == "Bash" else f"{row.tool}(//nowhere/**)"
        if row.tool not in (*FILE_TOOLS, "Bash"):
            rule = "mcp__tracker__delete"
    lists: dict[str, Any] = {
        name: (rule,) for name in ("allow", "ask", "deny") if name in row.rules
    }
    mode = next(mode for mode in MODES if mode == row.mode)
    return Rights(mode, str(place / "project"), str(place / "home"), **lists)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name in ("project", "elsewhere", "home"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.py").write_text("x = 1\n")
    return tmp_path


def test_the_table_is_about_every_mode_and_every_tool() -> None:
    """The table has no gaps, and a new tool or mode has to be put into it."""
    assert set(MODE_ORDER) == set(MODES)
    assert {*FILE_TOOLS, *OTHERS} == {tool.name for tool in TOOLS} | {
        *("mcp__tracker__search", "mcp__tracker__read_resource")
    }
    table = list(rows())
    assert len(table) == len(set(table)) == ROWS >= 500


@pytest.mark.parametrize("rules", KINDS)
def test_each_call_has_the_effect_that_the_table_says(rules: str, place: Path) -> None:
    """6 modes, every tool, inside and outside, with these rules: the effect as written above."""
    wrong = []
    for row in rows():
        if row.rules == rules:
            ruling = decide(call_of(row, place), rights_of(row, place))
            if ruling.effect != row.expected:
                wrong.append((row, ruling.effect, ruling.why))
    assert wrong == []
