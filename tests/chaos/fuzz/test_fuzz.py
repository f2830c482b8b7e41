"""Thousands of bad inputs: no traceback, no write outside the home, nothing valid is lost."""

from __future__ import annotations

import pytest

from support.fuzz.budget import PARTS, SEED
from support.fuzz.workers import Workers

pytestmark = pytest.mark.no_loss


@pytest.mark.parametrize("part", range(PARTS["files"]))
@pytest.mark.parametrize("kind", ["files"])
def test_damaged_files_cost_nothing_that_was_valid(workers: Workers, kind: str, part: int) -> None:
    print(f"BULLPEN_FUZZ_SEED={SEED}")
    workers.check(kind, part)


@pytest.mark.parametrize("part", range(PARTS["arguments"]))
@pytest.mark.parametrize("kind", ["arguments"])
def test_no_command_line_fails_in_an_unkind_way(workers: Workers, kind: str, part: int) -> None:
    print(f"BULLPEN_FUZZ_SEED={SEED}")
    workers.check(kind, part)
