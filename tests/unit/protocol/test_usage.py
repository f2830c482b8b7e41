"""What was used, added up."""

from __future__ import annotations

from bullpen.protocol.agent import Spent, Usage
from bullpen.team.budget.rules import together


def test_an_estimate_is_written_only_if_there_is_one() -> None:
    plain = Usage.new(requests=1, input_tokens=10)
    assert "estimated" not in plain.plus(plain).raw
    guessed = Usage.new(requests=1, input_tokens=30, estimated=1)
    assert plain.plus(guessed).plus(guessed).raw["estimated"] == 2
    row = Spent.new(task="1", requests=1, estimated=1)
    assert together([plain, row]).estimated == 1


def test_sums_keep_the_type_of_their_numbers() -> None:
    """Records are compared byte by byte, and 0 is not 0.0 there."""
    total = Usage.new().plus(Usage.new())
    assert (repr(total.raw["costUsd"]), repr(total.raw["requests"])) == ("0.0", "0")
