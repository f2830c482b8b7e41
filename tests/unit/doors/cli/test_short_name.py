"""The lead by the short name that screens show: `lead`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


@pytest.mark.parametrize(
    "words",
    [
        ("inbox", "lead"),
        ("logs", "lead"),
        ("cost", "lead"),
        ("task", "list", "--owner", "lead"),
        ("task", "assign", "1", "lead"),
        ("team", "limits", "alpha", "--agent", "lead", "--usd", "3"),
        ("inbox", "--as", "lead"),
    ],
)
def test_the_short_name_of_the_lead_works_like_its_name(
    run: Callable[..., Any], team: str, words: tuple[str, ...]
) -> None:
    short = run(*words)
    full = run(*("team-lead" if word == "lead" else word for word in words))

    assert "'lead'" not in short.stderr
    assert (short.exit_code, short.stdout, short.stderr) == (
        full.exit_code,
        full.stdout,
        full.stderr,
    )


def test_a_member_that_is_called_lead_is_meant(
    ok: Callable[..., str], as_json: Callable[..., Any], team: str
) -> None:
    ok("member", "add", "lead")

    assert ok("send", "lead", "hello").startswith("Sent to lead")
    assert as_json("inbox", "team-lead")["messages"] == []


def test_agents_that_are_steered_may_be_named_in_short(run: Callable[..., Any], team: str) -> None:
    for words in (("mode", "lead", "delegate"), ("interrupt", "lead"), ("stop", "lead")):
        refused = run(*words)
        assert refused.stderr == run(*("team-lead" if w == "lead" else w for w in words)).stderr
        assert "'team-lead'" in refused.stderr
