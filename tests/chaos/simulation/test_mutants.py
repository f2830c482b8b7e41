"""Deliberate bugs: the simulation finds each of them within a thousand histories.

The quick test draws only the kinds of faults that show a bug, and stops early. With
BULLPEN_NIGHTLY all kinds are drawn, as in any other history.
"""

from __future__ import annotations

import os

import pytest

from .faults import KINDS
from .machine import patched
from .mutants import MUTANTS, Mutant
from .play import play_each

_HISTORIES = 1_000


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_a_deliberate_bug_is_found(mutant: Mutant) -> None:
    kinds = KINDS if os.environ.get("BULLPEN_NIGHTLY") else mutant.kinds
    with patched(*mutant.patches()):
        for found in play_each(range(_HISTORIES), kinds):
            if any(wrong.split(":")[0] in mutant.breaks for wrong in found.wrong):
                print(found)
                return
    pytest.fail(f"{mutant.name}: not found in {_HISTORIES} histories")
