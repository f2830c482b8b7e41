"""`bullpen init`: what it finds, what options say, and that an interrupted one leaves nothing."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from bullpen.errors import Invalid
from bullpen.runs.teamfile.templates import TemplateChoice

Run = Callable[..., Result]
KEYS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with tests, where no key is set and no agent program is on the path."""
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "Makefile").write_text("test:\n\ttrue\n", encoding="utf-8")
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.chdir(folder)
    return folder


def test_without_a_terminal_and_a_template_it_says_what_to_do(project: Path, run: Run) -> None:
    refused = run("init")
    assert refused.exit_code == 2
    assert "--template" in refused.stderr
    assert os.listdir(project) == ["Makefile"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--members", "9"), "1 to 3 readers"),
        (("--driver", "codex", "--budget-usd", "5"), "--budget-turns"),
        (("--driver", "nobody"), "bullpen drivers"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_written(
    project: Path, run: Run, words: tuple[str, ...], told: str
) -> None:
    refused = run("init", "new", "--template", "review", *words)
    assert refused.exit_code == 2
    assert told in refused.stderr.replace("\n        ", " ")
    assert os.listdir(project) == ["Makefile"]


def test_a_budget_in_money_is_only_for_what_is_priced() -> None:
    with pytest.raises(Invalid, match="is unknown"):
        TemplateChoice("review", "native", "local-model", usd=5.0).check()
    TemplateChoice("review", "native", "claude-x", usd=5.0).check()
