"""Commands whose packages an extra installs: their help works without it, and they name it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import typer.testing
from typer.main import get_command

from bullpen.doors.cli import command
from bullpen.doors.cli.commands import COMMANDS, CommandEntry
from bullpen.doors.cli.main import app

ON_NATS = [
    name
    for name, entry in COMMANDS.items()
    if isinstance(entry, CommandEntry) and entry.target.startswith("machines.")
]


@pytest.fixture
def plain(run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Runs commands as the plain install does: importing some of them fails."""
    load_command = command.load_command

    def load(entry: Any) -> Any:
        if entry.target.startswith("machines."):
            raise ModuleNotFoundError("No module named 'nats'", name="nats.aio")
        return load_command(entry)

    monkeypatch.setattr(command, "load_command", load)
    fresh = get_command(app)
    monkeypatch.setattr(typer.testing, "_get_command", lambda _: fresh)
    return run


@pytest.mark.parametrize("name", ON_NATS)
def test_the_help_works_without_the_extra_and_names_it(
    plain: Callable[..., Any], name: str
) -> None:
    result = plain(*name.split(), "--help")

    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(f"Usage: bullpen {name} ")
    shown = " ".join(result.stdout.split())
    assert COMMANDS[name].help in shown
    assert "pip install 'bullpen[nats]'" in shown


@pytest.mark.parametrize("name", ON_NATS)
def test_the_command_names_the_extra_whatever_is_typed(
    plain: Callable[..., Any], name: str
) -> None:
    result = plain(*name.split(), "thing", "--whatever", "it-is")

    assert result.exit_code == 5, result.output
    assert "error: Packages are not installed: nats." in result.stderr
    assert "hint: Run: pip install 'bullpen[nats]'" in result.stderr


def test_another_module_that_is_missing_is_a_bug(
    run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(_: Any) -> Any:
        raise ModuleNotFoundError("No module named 'bullpen.gone'", name="bullpen.gone")

    monkeypatch.setattr(command, "load_command", load)
    fresh = get_command(app)
    monkeypatch.setattr(typer.testing, "_get_command", lambda _: fresh)
    assert "Bug in bullpen: ModuleNotFoundError" in run("hosts").stderr
