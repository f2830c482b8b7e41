"""`bullpen doctor`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any


def _break_an_edge(home: Path) -> None:
    path = home / "tasks/alpha/1.json"
    task = json.loads(path.read_bytes())
    path.write_text(json.dumps({**task, "blocks": []}), encoding="utf-8")


def test_a_healthy_team_is_said_to_be_well(ok: Callable[..., str], team: str) -> None:
    assert ok("doctor") == "No problems found.\n"
    assert ok("doctor", "--all") == "No problems found.\n"


def test_damage_is_mended_when_asked(run: Callable[..., Any], team: str, home: Path) -> None:
    _break_an_edge(home)

    result = run("doctor", "--fix")

    assert result.exit_code == 0
    assert result.stdout.splitlines()[1].split()[:2] == ["fixed", "one_ended_edge"]
    assert json.loads((home / "tasks/alpha/1.json").read_bytes())["blocks"] == ["3"]
    assert run("doctor").stdout == "No problems found.\n"


def test_all_teams_are_examined(run: Callable[..., Any], team: str, home: Path) -> None:
    run("team", "create", "beta")
    _break_an_edge(home)

    assert run("doctor", "-t", "beta").exit_code == 0
    assert run("doctor").exit_code == 2
    assert run("doctor", "--all").exit_code == 1


def test_a_home_that_others_may_enter_is_said_and_closed(
    run: Callable[..., Any], team: str, home: Path
) -> None:
    home.chmod(0o755)

    result = run("doctor")

    assert "open_home" in result.stdout and "mode 755" in result.stdout
    assert home.stat().st_mode & 0o077 == 0
    assert run("doctor").stdout == "No problems found.\n"
