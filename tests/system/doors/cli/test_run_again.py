"""What `bullpen` says when there is nothing to go on with, or no such command."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SCRIPT = '[[agents.team-lead.turns]]\nwhen = "start"\nsteps = [{say = "Hello."}]\n'


@pytest.fixture
def over(tmp_path: Path, home: Path, run: Callable[..., Any], monkeypatch: Any) -> Path:
    """A team of a run that is over."""
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "script.toml"
    script.write_text(SCRIPT)
    words = ("--driver", "scripted", "--script", str(script), "--mode", "bypassPermissions")
    run("run", "Say hello", "-t", "calc", *words)
    return tmp_path


def test_a_run_that_is_over_says_how_to_go_on(over: Path, run: Callable[..., Any]) -> None:
    said = run("run", "-t", "calc").stdout
    assert "The run is over. Go on with: bullpen run -t calc 'WHAT NEXT'" in said


def test_without_a_goal_no_team_is_restarted_that_nobody_named(
    over: Path, run: Callable[..., Any]
) -> None:
    said = run("run")
    assert said.exit_code == 2
    assert "error: There is no goal." in said.stderr
    assert "Or continue calc: bullpen run -t calc" in said.stderr


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        (("status",), "Did you mean 'ps'?"),
        (("resume",), "Did you mean 'team resume'?"),
        (("notes", "-t", "calc"), "To list them: bullpen notes list"),
        (("promises", "-t", "calc"), "To list them: bullpen promises list"),
    ],
)
def test_words_of_other_programs_lead_to_a_command(
    typed: tuple[str, ...], told: str, run: Callable[..., Any]
) -> None:
    refused = run(*typed)
    assert refused.exit_code == 2
    assert told in refused.stderr


def test_a_missing_key_and_a_model_without_provider_lead_to_what_works(
    run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    said = " ".join(run("run", "Say hello").stderr.split())
    assert "bullpen drivers. To try without a key: bullpen demo" in said
    assert "for example anthropic:claude" in run("run", "Say hello", "--model", "sonnet").stderr
