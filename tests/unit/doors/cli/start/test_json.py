"""What these commands print for programs fits the schemas that are published."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.asking import hire
from support.doors.json_shapes import fitting


@pytest.mark.parametrize(
    ("words", "schema"),
    [
        ((), "overview"),
        (("-t", "calc"), "overview"),
        (("config", "list"), "config"),
        (("config", "get", "notify"), "setting"),
        (("config", "set", "notify", "bell,desktop"), "config-set"),
        (("config", "set", "budget_usd", "5"), "config-set"),
        (("config", "path"), "config-file"),
        (("docs", "spawn"), "docs"),
        (("mode", "alice"), "mode"),
        (("mode", "alice", "plan"), "mode"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, tuple) else each,
)
def test_the_answer_fits_its_schema(
    run: Callable[..., Any], home: Path, words: tuple[str, ...], schema: str
) -> None:
    if words:
        run("team", "create", "calc")
        hire(home, "alice")
    result = run(*words, "--json")
    assert result.exit_code == 0, result.output
    assert fitting(result.stdout)["schema"] == f"bullpen/{schema}/1"
