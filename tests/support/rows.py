"""Tables of rows: one test that checks every row and names each one that differs."""

from __future__ import annotations

import functools
import inspect
import reprlib
import textwrap
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

Test = Callable[..., Any]
Ids = Iterable[object] | Callable[[Any], object]

_WRONG = (Exception, pytest.fail.Exception, pytest.skip.Exception)
"""What makes a row differ. A row cannot be skipped: nobody would see it."""

_short = reprlib.Repr()
_short.maxstring = _short.maxother = 200


class Rows:
    """What was found in the rows of one table."""

    def __init__(self) -> None:
        self.checked = 0
        self.wrong: list[str] = []
        self.first: BaseException | None = None

    @contextmanager
    def row(self, name: str) -> Iterator[None]:
        """Check one row. What is raised in here is kept for `judge`."""
        self.checked += 1
        try:
            yield
        except _WRONG as error:
            self.first = self.first or error
            frames = traceback.extract_tb(error.__traceback__)
            lines = [frame.lineno for frame in frames if frame.filename != __file__]
            where = f" (line {lines[0]})" if lines else ""
            why = "".join(traceback.format_exception_only(error)).rstrip()
            self.wrong.append(f"{name}{where}\n{textwrap.indent(why, '    ')}")

    def judge(self) -> None:
        """Fail with every row that differs. A table without rows proves nothing and fails too."""
        __tracebackhide__ = True
        assert self.checked, "the table has no rows"
        if self.wrong:
            head = f"{len(self.wrong)} of {self.checked} rows differ:"
            raise AssertionError("\n".join([head, *self.wrong])) from self.first


def each_row(
    names: str | Sequence[str], rows: Iterable[Any], *, ids: Ids | None = None
) -> Callable[[Test], Test]:
    """Like `pytest.mark.parametrize`, as one case. All rows are checked, whatever differs.

    Rows share the fixtures of the test, but for `tmp_path` and `monkeypatch`, which each row has
    for itself. Whatever else a row changes, it must make itself.
    """
    alone = isinstance(names, str) and "," not in names
    keys = [key.strip() for key in names.split(",")] if isinstance(names, str) else list(names)
    table = list(_named([[row] if alone else list(row) for row in rows], ids))

    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        def check(*given: Any, **fixtures: Any) -> None:
            __tracebackhide__ = True
            found = Rows()
            for name, values in table:
                with found.row(name), _own(fixtures, found.checked) as own:
                    test(*given, **own, **dict(zip(keys, values, strict=True)))
            found.judge()

        @functools.wraps(test)
        async def check_async(*given: Any, **fixtures: Any) -> None:
            __tracebackhide__ = True
            found = Rows()
            for name, values in table:
                with found.row(name), _own(fixtures, found.checked) as own:
                    await test(*given, **own, **dict(zip(keys, values, strict=True)))
            found.judge()

        checked: Test = check_async if inspect.iscoroutinefunction(test) else check
        wanted = inspect.signature(test)
        left = [each for name, each in wanted.parameters.items() if name not in keys]
        # What pytest reads to know the fixtures.
        vars(checked)["__signature__"] = wanted.replace(parameters=left)
        return checked

    return decorate


def _named(table: Sequence[list[Any]], ids: Ids | None) -> Iterator[tuple[str, list[Any]]]:
    """Each row with what a reader calls it."""
    given = [ids] * len(table) if ids is None or callable(ids) else list(ids)
    for values, called in zip(table, given, strict=True):
        told = ", ".join(_short.repr(value) for value in values)
        name = " ".join(str(called(value)) for value in values) if callable(called) else called
        yield told if name is None else f"{name}: {told}", values


@contextmanager
def _own(fixtures: Mapping[str, Any], number: int) -> Iterator[dict[str, Any]]:
    """The fixtures for one row, with a folder and patches of its own."""
    own = dict(fixtures)
    if "tmp_path" in own:
        folder: Path = own["tmp_path"] / f"row-{number}"
        folder.mkdir()
        own["tmp_path"] = folder
    with pytest.MonkeyPatch.context() as patches:
        if "monkeypatch" in own:
            own["monkeypatch"] = patches
        yield own
