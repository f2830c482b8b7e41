"""The recorded journeys of a person can be recorded again: one of them, in a real terminal."""

from __future__ import annotations

import importlib
import re
import shutil
from pathlib import Path

import pytest

from support.runs.reading import ROOT

IMAGES = ROOT / "docs" / "images"


@pytest.mark.pages
@pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")
def test_a_journey_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A goal is given, three questions are answered with one key each, and the run is finished."""
    monkeypatch.syspath_prepend(str(IMAGES))
    journeys = importlib.import_module("journeys")
    monkeypatch.setattr(importlib.import_module("make"), "HERE", tmp_path)
    # The machine may be busy.
    monkeypatch.setattr(journeys, "SEEN_WITHIN_S", 240.0)
    person = journeys.questions()
    goal, finish = "bullpen run 'Make the tests pass'\n", "/finish\n"
    assert person.keys == len(goal) + len("aaa") + len(finish)
    assert person.first_s is not None
    drawn = {path.name for path in tmp_path.glob("*.svg")}
    assert drawn == {path.name for path in IMAGES.glob("journey-questions-*.svg")}


def test_every_picture_of_a_journey_is_shown_with_words_about_it() -> None:
    page = (ROOT / "docs/howto/first-run.md").read_text(encoding="utf-8")
    shown = dict(re.findall(r"!\[([^\]]+)\]\(\.\./images/(journey-[^)]+)\)", page))
    assert sorted(shown.values()) == sorted(path.name for path in IMAGES.glob("journey-*.svg"))
