"""A table in one case: every row is checked, and every row that differs is in the message."""

from __future__ import annotations

import inspect
import os
from pathlib import Path

import pytest

from support.rows import each_row


def test_every_row_that_differs_is_named_with_its_reason() -> None:
    checked = []

    @each_row("number, word", [(1, "one"), (2, "two"), (3, "three"), (4, "four")])
    def check(number: int, word: str) -> None:
        checked.append(number)
        assert number % 2, f"{number} is even"

    with pytest.raises(AssertionError) as failure:
        check()
    assert checked == [1, 2, 3, 4]
    said = str(failure.value)
    line = check.__wrapped__.__code__.co_firstlineno + 3  # type: ignore[attr-defined]
    assert said.startswith("2 of 4 rows differ:")
    assert f"2, 'two' (line {line})" in said and "2 is even" in said
    assert "4, 'four' (line " in said and "4 is even" in said
    assert "'one'" not in said and "'three'" not in said


def test_any_error_an_outcome_and_a_skip_are_differences() -> None:
    @each_row("name", ["an error", "nothing raised", "skipped", "good"])
    def check(name: str) -> None:
        if name == "an error":
            raise KeyError("missing")
        if name == "nothing raised":
            with pytest.raises(ValueError, match="never"):
                pass
        if name == "skipped":
            pytest.skip("no program")

    with pytest.raises(AssertionError) as failure:
        check()
    said = str(failure.value)
    assert said.startswith("3 of 4 rows differ:")
    assert "KeyError: 'missing'" in said and "DID NOT RAISE" in said and "no program" in said


def test_a_row_is_called_by_its_id() -> None:
    @each_row("text", ["a" * 5000, "b"], ids=["huge", "small"])
    def listed(text: str) -> None:
        raise ValueError

    with pytest.raises(AssertionError, match=r"huge: 'aaa[^\n]{,250} \(line(.|\n)*small: 'b'"):
        listed()

    @each_row(("left", "right"), [(1, 2)], ids=lambda value: f"<{value}>")
    def called(left: int, right: int) -> None:
        raise ValueError

    with pytest.raises(AssertionError, match="<1> <2>: 1, 2"):
        called()


def test_tables_multiply_and_each_pair_that_differs_is_named() -> None:
    @each_row("left", [1, 2])
    @each_row("right", [1, 2, 3])
    def check(left: int, right: int) -> None:
        assert left + right != 4, "four"

    with pytest.raises(AssertionError) as failure:
        check()
    lines = [line.strip() for line in str(failure.value).splitlines()]
    assert lines[0] == "2 of 2 rows differ:"
    assert [line[0] for line in lines if line[0].isdigit()] == ["2", "1", "3", "2", "2"]
    assert len([line for line in lines if "(line " in line]) == 2


def test_a_table_without_rows_fails() -> None:
    @each_row("number", [])
    def check(number: int) -> None: ...

    with pytest.raises(AssertionError, match="no rows"):
        check()


@pytest.mark.anyio
async def test_a_test_that_waits_is_awaited_for_each_row() -> None:
    @each_row("number", [1, 2, 3])
    async def check(number: int) -> None:
        assert number == 2, number

    with pytest.raises(AssertionError, match=r"2 of 3 rows differ(.|\n)*1 \((.|\n)*3 \("):
        await check()


@each_row("name", ["one", "two"])
def test_each_row_has_a_folder_and_patches_of_its_own(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "left").write_text(name)
    assert "BULLPEN_ROW" not in os.environ
    monkeypatch.setenv("BULLPEN_ROW", name)


def test_a_test_asks_only_for_its_fixtures() -> None:
    @each_row("word", ["a"])
    def check(word: str, tmp_path: Path) -> None: ...

    assert list(inspect.signature(check).parameters) == ["tmp_path"]
