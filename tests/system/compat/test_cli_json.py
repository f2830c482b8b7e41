"""Every command answers in JSON as the recorded commit did, but for what is listed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from . import cases
from .comparing import Change, Renamed, Wrapped, deliberate, judge, reshaped, translated
from .phases import PHASES
from .stage import HERE, app

CHANGES = HERE / "deliberate_changes.toml"


def baseline(phase: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(
        (HERE / "cli_json" / f"{phase}.json").read_text("utf-8")
    )
    return found


@pytest.mark.parametrize("phase", PHASES)
def test_answers_are_those_of_the_recorded_commit(phase: str, tmp_path: Path) -> None:
    before, _ = translated(baseline(phase), *reshaped(CHANGES))
    now = PHASES[phase](tmp_path / "root")
    assert [each["command"] for each in now] == [each["command"] for each in before]
    unlisted, unused = judge(before, now, deliberate(CHANGES, phase))
    assert not unlisted, "\n".join(map(str, unlisted[:40]))
    assert not unused


def test_what_is_listed_as_reshaped_was_in_an_earlier_answer() -> None:
    answers = [each for phase in PHASES for each in baseline(phase)]
    _, unused = translated(answers, *reshaped(CHANGES))
    assert unused == []


def test_every_command_has_an_answer_to_compare_with() -> None:
    lines = [each["command"] for phase in PHASES for each in baseline(phase)]
    missing = [
        name for name in commands() if not any(f"{line} ".startswith(f"{name} ") for line in lines)
    ]
    assert not missing
    answered = {
        each["command"] for phase in PHASES for each in baseline(phase) if each["exit"] == 0
    }
    refused = [
        name
        for name in commands()
        if not any(f"{line} ".startswith(f"{name} ") for line in answered)
    ]
    assert set(refused) == set(cases.NOT_RUN)


def commands() -> list[str]:
    """The names of all commands, hidden ones too."""

    def below(command: Any, path: str, parent: typer.Context | None) -> Iterator[str]:
        if not hasattr(command, "list_commands"):
            yield path
            return
        context = typer.Context(command, info_name=path or "bullpen", parent=parent)
        names = dict.fromkeys([*command.list_commands(context), *command.commands])
        for name in names:
            yield from below(command.get_command(context, name), f"{path} {name}".strip(), context)

    return sorted(below(typer.main.get_command(app()), "", None))


def test_a_difference_is_found_and_a_change_that_shows_nowhere_too() -> None:
    before = [{"command": "ps", "stdout": [{"state": "idle", "n": 1}]}]
    now = [{"command": "ps", "stdout": [{"state": "done", "n": True}]}]
    listed = Change(("recorded",), "p*", "/stdout/*/state", "one word")
    stale = Change(("recorded",), "up", "*", "gone")
    unlisted, unused = judge(before, now, [listed, stale])
    assert [each.path for each in unlisted] == ["/stdout/0/n"]
    assert unused == [stale]


def test_an_earlier_answer_is_read_in_the_shape_of_today() -> None:
    answers = [
        {"command": "saved", "exit": 0, "stdout": [{"made_ms": 1}]},
        {"command": "saved", "exit": 3, "stdout": {"error": {"kind": "not_found"}}},
    ]
    wrapped, renamed = Wrapped("saved*", "rows", "one"), Renamed("s*", "made_ms", "madeMs", "two")
    stale = Renamed("ps", "a_b", "aB", "three")
    found, unused = translated(answers, [wrapped], [renamed, stale])
    assert found[0]["stdout"] == {"rows": [{"madeMs": 1}]}
    assert found[1] == answers[1]
    assert unused == [stale]
