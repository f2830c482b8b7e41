"""The shape of the code: small files, small functions, nothing on import, pinned public names."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import bullpen

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "bullpen"
SOURCES = sorted((ROOT / "src").rglob("*.py"))
FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 500
FOLDER_ENTRIES_MAX = 16
HIDDEN_IMPORTS_MAX = 12
FORBIDDEN_NAMES = {"utils", "helpers", "common", "manager", "misc"}


@dataclass(frozen=True, slots=True)
class Import:
    """A statement that imports modules, or what may be names in one."""

    line: int
    modules: tuple[str, ...]
    in_function: bool


@dataclass(frozen=True, slots=True)
class Shape:
    """What the rules here judge of a source file. Its syntax tree is not kept: it is big."""

    lines: int
    functions: Mapping[str, int]
    imports: tuple[Import, ...]
    docstring: str | None


def shape_of(source: str) -> Shape:
    tree = ast.parse(source)
    functions: dict[str, int] = {}
    imports: list[Import] = []
    waiting: list[tuple[ast.AST, bool]] = [(tree, False)]
    while waiting:
        node, in_function = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            functions[f"{node.name}:{node.lineno}"] = lines_of(node)
            in_function = True
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names = (f"{node.module}.{alias.name}" for alias in node.names)
            imports += [Import(node.lineno, (name, node.module), in_function) for name in names]
        elif isinstance(node, ast.Import):
            imports += [Import(node.lineno, (alias.name,), in_function) for alias in node.names]
        # Neither a function nor an import is in an expression.
        if not isinstance(node, ast.expr):
            waiting += [(child, in_function) for child in ast.iter_child_nodes(node)]
    return Shape(len(source.splitlines()), functions, tuple(imports), ast.get_docstring(tree))


@cache
def shape_at(path: Path) -> Shape:
    return shape_of(path.read_text(encoding="utf-8"))


def lines_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The lines of a function without its docstring."""
    first = function.body[0]
    is_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    docstring = (first.end_lineno or 0) - first.lineno + 1 if is_docstring else 0
    return (function.end_lineno or 0) - function.lineno + 1 - docstring


def too_big(path: Path) -> list[str]:
    """What is too big in a source file, or the file."""
    shape = shape_at(path)
    sizes = [(f"{path}: {name}", n, FUNCTION_LINES_MAX) for name, n in shape.functions.items()]
    sizes.append((str(path), shape.lines, FILE_LINES_MAX))
    return [f"{name} has {n} lines, at most {most}" for name, n, most in sizes if n > most]


# Each part is a case: to read all sources takes long.
@pytest.mark.parametrize("part", sorted({path.relative_to(PACKAGE).parts[0] for path in SOURCES}))
def test_files_and_functions_stay_small(part: str) -> None:
    sources = [path for path in SOURCES if path.relative_to(PACKAGE).parts[0] == part]
    found = [each for path in sources for each in too_big(path)]
    assert not found, "\n".join(found)


def test_a_file_that_is_too_long_would_be_found(tmp_path: Path) -> None:
    path = tmp_path / "long.py"
    path.write_text("x = 1\n" * (FILE_LINES_MAX + 1))
    assert too_big(path) == [f"{path} has {FILE_LINES_MAX + 1} lines, at most {FILE_LINES_MAX}"]


def test_a_function_that_is_too_long_would_be_found() -> None:
    body = "\n".join("        x = 1" for _ in range(FUNCTION_LINES_MAX))
    shape = shape_of(f"class A:\n    async def long():\n{body}")
    assert shape.functions == {"long:2": FUNCTION_LINES_MAX + 1}


def module_of(path: Path) -> str:
    """The dotted name of a source file; that of the folder for an `__init__`."""
    parts = path.relative_to(ROOT / "src").with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in SOURCES}


def first_party(shape: Shape, modules: Mapping[str, object]) -> Iterator[tuple[Import, str]]:
    """The modules of ours that a file imports, for types alone too."""
    for each in shape.imports:
        found = next((name for name in each.modules if name in modules), None)
        if found is not None:
            yield each, found


def circle_in(shapes: Mapping[str, Shape]) -> list[str]:
    """A circle of modules that import each other, or nothing."""
    graph = {
        name: {found for _, found in first_party(shape, shapes) if found != name}
        for name, shape in shapes.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_modules_import_each_other_in_a_circle_not_even_for_types() -> None:
    # The public face imports everything, lazily, and nothing below it imports the face.
    shapes = {name: shape_at(path) for name, path in MODULES.items() if name != "bullpen"}
    assert circle_in(shapes) == []


def test_a_circle_that_only_types_make_would_be_found() -> None:
    for_types = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from two import Two"
    assert circle_in({"one": shape_of(for_types), "two": shape_of("from one import One")})
    line = {"one": "import two", "two": "import three", "three": ""}
    assert circle_in({name: shape_of(source) for name, source in line.items()}) == []


def hidden_imports(shape: Shape, modules: Mapping[str, object]) -> set[int]:
    """The lines on which a function imports a module of ours."""
    return {each.line for each, _ in first_party(shape, modules) if each.in_function}


def test_few_functions_import_anything_of_ours() -> None:
    found = {
        f"{name}:{line}"
        for name, path in MODULES.items()
        for line in hidden_imports(shape_at(path), MODULES)
    }
    assert len(found) <= HIDDEN_IMPORTS_MAX, sorted(found)


def test_an_import_inside_a_function_would_be_found() -> None:
    inside = "import one\ndef f():\n    def g():\n        if g:\n            from one import x\n"
    assert hidden_imports(shape_of(inside), {"one": None}) == {5}
    method = "class A:\n    import one\n    def f(self):\n        import one\n"
    assert hidden_imports(shape_of(method), {"one": None}) == {4}
    top = "try:\n    import one\nexcept ImportError:\n    import one\n"
    assert hidden_imports(shape_of(top), {"one": None}) == set()


def entries(folder: Path) -> list[str]:
    """What a reader sees in a folder of sources."""
    unseen = {"__init__.py", "__pycache__", "py.typed"}
    return sorted(each.name for each in folder.iterdir() if each.name not in unseen)


def test_a_folder_fits_a_head() -> None:
    folders = {path.parent for path in SOURCES}
    crowded = {f: len(entries(f)) for f in folders if len(entries(f)) > FOLDER_ENTRIES_MAX}
    assert crowded == {}


def test_every_folder_says_in_one_line_what_it_is() -> None:
    for folder in {path.parent for path in SOURCES}:
        docstring = shape_at(folder / "__init__.py").docstring
        assert docstring, folder
        assert len(docstring.splitlines()[0]) <= 100, folder


def test_no_module_has_a_name_that_says_nothing() -> None:
    assert [path for path in SOURCES if path.stem in FORBIDDEN_NAMES] == []


def test_the_public_names_are_these() -> None:
    assert len(bullpen.__all__) <= 25
    for name in bullpen.__all__:
        assert getattr(bullpen, name) is not None
    assert sorted(bullpen.__all__) == sorted(set(bullpen.__all__))
