"""The shape of the code: small files, small functions, nothing on import, pinned public names."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import bullpen

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "src").rglob("*.py"))
FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 500
FORBIDDEN_NAMES = {"utils", "helpers", "common", "manager", "misc"}


def lines_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The lines of a function without its docstring."""
    first = function.body[0]
    is_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    docstring = (first.end_lineno or 0) - first.lineno + 1 if is_docstring else 0
    return (function.end_lineno or 0) - function.lineno + 1 - docstring


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT / "src")))
def test_files_and_functions_stay_small(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= FILE_LINES_MAX
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert lines_of(node) <= FUNCTION_LINES_MAX, f"{node.name} in {path.name}"


def test_a_function_that_is_too_long_would_be_found() -> None:
    body = "\n".join("    x = 1" for _ in range(FUNCTION_LINES_MAX))
    (function,) = ast.parse(f"def long():\n{body}").body
    assert isinstance(function, ast.FunctionDef)
    assert lines_of(function) > FUNCTION_LINES_MAX


def test_no_module_has_a_name_that_says_nothing() -> None:
    assert [path for path in SOURCES if path.stem in FORBIDDEN_NAMES] == []


def test_importing_does_nothing_and_is_quick() -> None:
    program = (
        "import sys, time; before = set(sys.modules); start = time.perf_counter();"
        "import bullpen; took = time.perf_counter() - start;"
        "print(took, *(set(sys.modules) - before))"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        ).stdout.split()
        for _ in range(5)
    ]
    assert min(float(run[0]) for run in runs) < 0.1
    heavy = {"pydantic", "anyio", "typer", "rich", "watchfiles"}
    assert not heavy & set(runs[0])


def test_the_public_names_are_these() -> None:
    assert len(bullpen.__all__) <= 25
    for name in bullpen.__all__:
        assert getattr(bullpen, name) is not None
    assert sorted(bullpen.__all__) == sorted(set(bullpen.__all__))


def test_nothing_names_the_place_it_was_made_in() -> None:
    tracked = subprocess.run(
        ["git", "ls-files"], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout.split()
    for name in tracked:
        text = (ROOT / name).read_bytes()
        assert b"/home/" not in text.replace(b"/home/user", b"") or name.startswith("tests/"), name
