"""The hostile command lines against an allow list."""

from __future__ import annotations

from pathlib import Path

import pytest

from bullpen.protocol.policy import Mode
from support.hostile.bash_runs import Bench
from support.hostile.commands import COMMANDS
from support.hostile.scenes import LISTED, RUNS, UNLISTED, Scene, _scene


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """Programs that record, those of the list and others."""
    made = Bench(tmp_path)
    made.add((*LISTED, *UNLISTED), then="exit 0")
    return made


@pytest.fixture
def scene(tmp_path: Path, bench: Bench) -> Scene:
    """A project with traps in it, and a canary and a secret beside it."""
    return _scene(tmp_path, bench)


def test_there_are_enough_hostile_commands_and_none_twice() -> None:
    """R-4.1: the size of the corpus."""
    assert len(COMMANDS) >= 1_400
    assert len(set(COMMANDS)) == len(COMMANDS)


def test_no_hostile_command_passes_an_allow_list(scene: Scene) -> None:
    """R-4.1: none of them is allowed by the rules, and so in dontAsk all are denied."""
    escapes = [each for each in COMMANDS if scene.effect(scene.aimed(each)) != "deny"]
    assert escapes == []


@pytest.mark.parametrize("mode", ["default", "acceptEdits"])
def test_no_mode_that_asks_lets_a_hostile_command_pass_unasked(scene: Scene, mode: Mode) -> None:
    """R-4.1: a mode that allows changes in the project adds nothing to the list of commands."""
    commands = COMMANDS if len(COMMANDS) <= RUNS else COMMANDS[::6]
    assert {scene.effect(scene.aimed(each), mode) for each in commands} == {"ask"}
