"""Whether a file has a promised signature, and whether two of them can both be kept."""

from __future__ import annotations

import pytest

from bullpen.errors import Invalid
from bullpen.team.promises.signatures import agree, check_signature, name_of, problem
from support.rows import each_row

SOURCE = """
import typing

@typing.overload
def parse(text: str) -> int: ...
def parse(text, *, strict=False) -> dict:
    return {}

class Reader:
    async def read(self, size: int = -1): ...

if True:
    def late(a, /, b, *rest, **more): ...
"""


@pytest.mark.parametrize(
    "signature",
    [
        "parse(text, *, strict=False)",
        "def parse(text, *, strict = False) -> dict:",
        "async def Reader.read(self, size=-1)",
        "async def Reader.read(self, size: int = -1)",
        "late(a, /, b, *rest, **more)",
    ],
)
def test_a_signature_that_is_there_is_found(signature: str) -> None:
    assert problem("a.py", signature, SOURCE) is None


@each_row(
    "signature",
    [
        "parse(text, strict=False)",
        "parse(text, *, strict=True)",
        "parse(text, *, lax=False)",
        "parse(text: str, *, strict=False)",
        "parse(text, *, strict=False) -> list",
        "async def parse(text, *, strict=False)",
        "Reader.read(self, size=-1)",
        "late(a, b, *rest, **more)",
        "missing()",
        "Reader()",
    ],
)
def test_a_signature_that_is_not_there_is_said(signature: str) -> None:
    found = problem("a.py", signature, SOURCE)
    assert found
    assert name_of("a.py", signature) in found


def test_a_file_that_is_not_there_or_not_python_keeps_no_promise() -> None:
    assert "no file" in (problem("a.py", "f()", None) or "")
    assert "not valid Python" in (problem("a.py", "f()", "def f(:\n") or "")
    assert problem("a.py", "f()", "def f(): ...\n\0")


@pytest.mark.parametrize("deep", ["-" * 300_000 + "1", "(" * 50_000, "a." * 100_000 + "b"])
def test_a_hostile_file_ends_no_process(deep: str) -> None:
    assert problem("a.py", "f()", f"def f(): ...\nx = {deep}\n")


def test_another_language_is_compared_as_text_without_space() -> None:
    source = "export function parse(\n  text: string,\n  strict = false\n): Tree {\n"
    promised = "function parse(text: string, strict = false): Tree"
    assert problem("a.ts", promised, source) is None
    assert problem("a.ts", "function parse(text: string): Tree", source)
    assert name_of("a.ts", promised) == "parse"
    assert not agree("a.ts", promised, "function parse(text: string): Tree")


def test_annotations_contradict_only_if_both_promises_have_them() -> None:
    assert agree("a.py", "f(a)", "f(a: int) -> str")
    assert not agree("a.py", "f(a: str)", "f(a: int)")
    assert not agree("a.py", "f(a)", "f(a=1)")


@pytest.mark.parametrize(
    ("path", "signature"),
    [("a.py", "parse"), ("a.py", "f(a"), ("a.py", "f(): import os; x("), ("a.go", "no brackets")],
)
def test_what_cannot_be_checked_is_refused(path: str, signature: str) -> None:
    with pytest.raises(Invalid):
        check_signature(path, signature)
