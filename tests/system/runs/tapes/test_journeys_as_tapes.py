"""The recorded journeys of a person, as tapes: today's code still takes their paths.

A changed prompt or tool changes the requests. If that was meant, record the tapes again:

    BULLPEN_TAPES=write uv run pytest -n 2 tests/system/runs/tapes/test_journeys_as_tapes.py
"""

from __future__ import annotations

import importlib
import os
import shutil
from pathlib import Path
from types import ModuleType

import pytest

from bullpen.agents.drivers import team_instructions
from bullpen.agents.tools.toolbox import TOOLS
from support.runs.reading import ROOT
from support.runs.taping import Taping, told

TAPES = Path(__file__).parent / "recorded"
NAMES = {
    "key": ("key-wrong", "key-right"),
    "questions": ("questions",),
    "debate": ("debate",),
    "plan": ("plan",),
    "stuck": ("stuck",),
}
TAPE_NAMES = [name for names in NAMES.values() for name in names]
WRITES = os.environ.get("BULLPEN_TAPES") == "write"
ALL_BYTES_MAX = 300_000
TRIES = 4


@pytest.fixture
def journeys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    images = ROOT / "docs" / "images"
    monkeypatch.syspath_prepend(str(images))
    monkeypatch.setattr(importlib.import_module("make"), "HERE", tmp_path)
    found = importlib.import_module("journeys")
    # The machine may be busy.
    monkeypatch.setattr(found, "SEEN_WITHIN_S", 60.0 if WRITES else 240.0)
    return found


@pytest.fixture
def taping(tmp_path: Path, journeys: ModuleType) -> Taping:
    taping = Taping(tmp_path)
    taping.make(journeys.PROJECT)
    return taping


def too_early(text: str) -> bool:
    """Whether a tape has a message to an agent that was still to be started."""
    return "has no member" in text


@pytest.mark.skipif(not WRITES, reason="records the tapes only with BULLPEN_TAPES=write")
@pytest.mark.parametrize("journey", NAMES)
def test_a_journey_is_recorded_on_tapes(
    journey: str, journeys: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[Path] = []
    for number in range(TRIES):
        made = tmp_path / f"tapes-{number}"
        made.mkdir()
        monkeypatch.setattr(journeys, "TAPES", made)
        journeys.JOURNEYS[journey]()
        found = sorted(made.glob("*.tape"))
        if not any(too_early(path.read_text(encoding="utf-8")) for path in found):
            break
        # A message to an agent that was still starting: a replay does not start it so late.
    assert len(found) == len(NAMES[journey])
    TAPES.mkdir(exist_ok=True)
    for path, name in zip(found, NAMES[journey], strict=True):
        shutil.copyfile(path, TAPES / f"{name}.tape")


@pytest.mark.skipif(WRITES, reason="the tapes are being recorded")
@pytest.mark.parametrize("name", TAPE_NAMES)
async def test_todays_code_takes_the_path_of_a_journey(name: str, taping: Taping) -> None:
    replayed = await taping.replay(TAPES / f"{name}.tape")
    assert replayed.departure is None, told(replayed)
    assert replayed.made == replayed.calls > 0


@pytest.mark.skipif(WRITES, reason="the tapes are being recorded")
async def test_a_changed_prompt_is_found(taping: Taping, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = team_instructions.HOW_IT_WORKS.replace("The team shares", "Every team shares")
    assert changed != team_instructions.HOW_IT_WORKS
    monkeypatch.setattr(team_instructions, "HOW_IT_WORKS", changed)
    left = (await taping.replay(TAPES / "key-right.tape")).departure
    assert left is not None
    assert (left.agent, left.number, left.what) == ("team-lead", 1, "system prompt")
    assert any(line.startswith("-- The team shares") for line in left.lines)
    assert any(line.startswith("+- Every team shares") for line in left.lines)


@pytest.mark.skipif(WRITES, reason="the tapes are being recorded")
async def test_a_changed_tool_is_found(taping: Taping) -> None:
    read = next(tool for tool in TOOLS if tool.name == "Read")
    before = read.description
    object.__setattr__(read, "description", f"{before} Reads well.")
    try:
        left = (await taping.replay(TAPES / "key-right.tape")).departure
    finally:
        object.__setattr__(read, "description", before)
    assert left is not None
    assert (left.what, left.lines) == ("tools", ("~ Read: its description or input differs",))


def test_the_tapes_are_small_and_have_no_place_of_their_machine() -> None:
    found = sorted(TAPES.glob("*.tape"))
    assert [path.stem for path in found] == sorted(TAPE_NAMES)
    assert sum(path.stat().st_size for path in found) < ALL_BYTES_MAX
    for path in found:
        text = path.read_text(encoding="utf-8")
        assert "bullpen-pictures-" not in text, path
        assert not too_early(text), f"{path}: record it again"
        assert "sk-right" not in text, path
        assert "sk-wrong" not in text, path
