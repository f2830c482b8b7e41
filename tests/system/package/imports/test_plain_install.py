"""What `pip install bullpen` brings, without any extra, is enough for the team's screen."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Collection, Iterable
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pytest

from support.doors.cli_fixtures import at_terminal, home, ok, run

__all__ = ["at_terminal", "home", "ok", "run"]

ROOT = Path(__file__).parents[4]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))

SCRIPT = """
[[agents.team-lead.turns]]
steps = [{tool = "Finish", input = {summary = "Hello was said."}}]
"""
# Importing what belongs to no distribution of the plain install fails, as if it were not there.
HIDING = """
import sys

class Hiding:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {hidden}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Hiding())
"""


def _plain(needs: Iterable[str], found: set[str], extras: Collection[str] = ()) -> set[str]:
    """The distributions that are required, with these extras, and all that they require."""
    for each in needs:
        needed, _, marker = each.partition(";")
        parts = re.match(r"([\w.-]+)(?:\[([^\]]*)\])?", needed.strip())
        assert parts is not None, each
        name, named = _normal(parts[1]), re.split(r"[, ]+", parts[2] or "")
        extra = re.search(r"extra *== *['\"]([^'\"]+)", marker)
        # What only another machine or an older Python needs is not installed here.
        left_out = re.search("platform|version", marker) or (extra and extra[1] not in extras)
        if f"{name}{named}" not in found and not left_out:
            found |= {name, f"{name}{named}"}
            _plain(requires(name) or (), found, named)
    return found


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _not_plain() -> set[str]:
    """The modules that the plain install does not bring."""
    plain = _plain(PROJECT["project"]["dependencies"], {"bullpen"})
    assert {"textual", "rich", "typer"} <= plain
    assert {"pydantic-ai-slim", "nats-py", "mcp", "starlette"}.isdisjoint(plain)
    return {
        module
        for module, owners in packages_distributions().items()
        if {_normal(owner) for owner in owners}.isdisjoint(plain)
    }


def test_the_screen_of_a_run_needs_no_extra(
    tmp_path: Path, at_terminal: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(HIDING.format(hidden=sorted(_not_plain())))
    (tmp_path / "script.toml").write_text(SCRIPT)
    monkeypatch.chdir(tmp_path)
    words = ("run", "Say hello", "--driver", "scripted", "--script", "script.toml")
    code, shown = at_terminal(*words, LINES="24", PYTHONPATH=str(tmp_path))
    assert code == 0, shown
    assert "\x1b[?1049h" in shown, "a screen was opened"
    assert "Hello was said." in shown


WALK = """
from typer.testing import CliRunner
from bullpen.doors.cli.commands import COMMANDS, HIDDEN
from bullpen.doors.cli.main import app

for name in COMMANDS:
    if name.split()[0] not in HIDDEN:
        done = CliRunner().invoke(app, [*name.split(), "--help"])
        print(done.exit_code, name)
for words in ("hosts", "host run", "host forget x", "server status", "auth list", "web"):
    done = CliRunner().invoke(app, words.split())
    print(done.exit_code, words, "bullpen[" in done.stderr)
"""


def test_the_help_of_every_command_works_and_a_missing_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(HIDING.format(hidden=sorted(_not_plain())))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-c", WALK], capture_output=True, text=True, timeout=120, check=True
    )
    *helps, a, b, c, d, e, f = done.stdout.splitlines()
    assert [line for line in helps if not line.startswith("0 ")] == []
    assert len(helps) > 100
    assert {line.split()[0] + line.split()[-1] for line in (a, b, c, d, e, f)} == {"5True"}
