"""Boxes that are ticked, and ticks that are taken out of a merge and put back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bullpen.workspace.git.checkboxes import ticked_line, with_ticks, without_ticks

_LINES = st.lists(st.sampled_from(["- [ ] a", "- [ ] b", "* [ ] c\r", "1. [ ] d", "text", ""]))


@given(lines=_LINES, which=st.sets(st.integers(0, 10)))
def test_ticks_are_taken_out_and_put_back(lines: list[str], which: set[int]) -> None:
    earlier = "\n".join(lines)
    now = "\n".join(
        (ticked_line(line) or line) if number in which else line
        for number, line in enumerate(lines)
    )
    plain, opened = without_ticks(now, earlier)
    assert with_ticks(plain, opened) == now
    if len(set(lines)) == len(lines):
        assert plain == earlier


def test_only_ticks_that_are_new_are_taken_out() -> None:
    earlier = "- [x] a\n- [ ] b\n- [ ] c\n"
    assert without_ticks("- [x] a\n- [x] b\n- [x] d\n", earlier) == (
        "- [x] a\n- [ ] b\n- [x] d\n",
        ["- [ ] b"],
    )


def test_a_line_without_an_empty_box_is_not_ticked() -> None:
    for line in ("- [x] a", "- a", "[ ] a", "a - [ ] b", "-[ ] a"):
        assert ticked_line(line) is None
    assert ticked_line("  12) [ ] a [ ] b") == "  12) [x] a [ ] b"
