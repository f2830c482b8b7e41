"""Find the assertions of a test that judge measured time: they fail when the machine is busy."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

_CLOCKS = re.compile(
    r"(time\.)?(monotonic|perf_counter|process_time|thread_time)(_ns)?|time\.time(_ns)?"
)
_LOOP_CLOCKS = re.compile(r"(anyio\.)?current_time|.*loop(\(\))?\.time")
_SIMULATED = re.compile(r"^from .* import .*\bsimulate\b", re.MULTILINE)
"""In a file that simulates time, the clock of its event loop is the simulated one."""
_STAMPS = {"st_mtime", "st_mtime_ns", "st_ctime", "st_ctime_ns", "ru_utime", "ru_stime"}
_PACE = {"cpu_s", "counting_s", "bare_python_s"}
_SPANS = re.compile(r"_?(took|elapsed|lasted)(_m?s|_ns)?")
"""What a span of time is called when another process or file measured it."""
_KEEPERS = {"abs", "float", "int", "list", "max", "mean", "median", "min", "quantiles", "round",
            "set", "sorted", "sum", "tuple"}  # fmt: skip
"""Functions whose result is a span of time when they are given one."""

_HINTS = re.compile(
    r"monotonic|perf_counter|process_time|thread_time|time\.time|current_time|loop\S*\.time"
    r"|st_[mc]time|ru_[us]time|support\.pace|took|elapsed|lasted"
)
"""Without any of these no time is measured, and the file need not be parsed."""

Scope = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda
Function = ast.FunctionDef | ast.AsyncFunctionDef
_ORDER = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)


@dataclass(slots=True)
class Known:
    """The names of a function that hold moments, deadlines and spans of time."""

    moments: set[str] = field(default_factory=set)
    deadlines: set[str] = field(default_factory=set)
    spans: set[str] = field(default_factory=set)
    functions: set[str] = field(default_factory=set)
    """The functions of the file that return a span of time."""
    simulated: bool = False
    """Whether the clock of the event loop is simulated."""

    def size(self) -> int:
        return len(self.moments) + len(self.deadlines) + len(self.spans) + len(self.functions)


def judged_time(source: str) -> list[int]:
    """The lines of the assertions that compare measured time, and of imports of `support.pace`."""
    if not _HINTS.search(source):
        return []
    tree = ast.parse(source)
    functions = [node for node in ast.walk(tree) if isinstance(node, Function)]
    known = Known(functions=set(_PACE), simulated=bool(_SIMULATED.search(source)))
    before = -1
    # Names are told apart by function, but a function may return what another one measured.
    while known.size() != before:
        before = known.size()
        for function in functions:
            inside = _known_in(function, known)
            if any(_is_span(value, inside) for value in _returned(function)):
                known.functions.add(function.name)
    lines = {
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "support.pace"
    }
    for function in functions:
        lines |= set(_judged_in(function, _known_in(function, known)))
    return sorted(lines)


def _known_in(function: Function, outside: Known) -> Known:
    """What the names of a function hold, wherever in it they are given a value."""
    known = Known(functions=set(outside.functions), simulated=outside.simulated)
    before = -1
    while known.size() != before:
        before = known.size()
        for node in ast.walk(function):
            for target, value in _given(node):
                names = {each.id for each in ast.walk(target) if isinstance(each, ast.Name)}
                if _is_span(value, known):
                    known.spans |= names
                elif isinstance(value, ast.Call | ast.Await):
                    known.spans |= {name for name in names if _SPANS.fullmatch(name)}
                    known.moments |= names if _holds_moment(value, known) else set()
                elif _is_deadline(value, known):
                    known.deadlines |= names
                elif _holds_moment(value, known):
                    known.moments |= names
    return known


def _given(node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    """What a statement gives a value to, with this value."""
    match node:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                yield from _in_pairs(target, value)
        case ast.AnnAssign(target=target, value=ast.AST() as value):
            yield target, value
        case ast.AugAssign(target=target, value=value) | ast.NamedExpr(target=target, value=value):
            yield target, value
        case ast.For() | ast.AsyncFor() | ast.comprehension():
            yield node.target, node.iter
        case ast.Call(func=ast.Attribute(value=kept, attr="append" | "add" | "extend"), args=args):
            for each in args:
                yield kept, each
        case _:
            pass


def _in_pairs(target: ast.AST, value: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        yield from zip(target.elts, value.elts, strict=False)
    else:
        yield target, value


def _is_span(node: ast.AST, known: Known) -> bool:
    """Whether the value of an expression is, or holds, a span of time that was measured."""
    match node:
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            if all(_holds_moment(side, known) for side in (left, right)):
                return True
        case ast.Name(id=name) if name in known.spans:
            return True
        case ast.Attribute(attr=name) | ast.Subscript(slice=ast.Constant(value=str() as name)) if (
            _SPANS.fullmatch(name)
        ):
            return True
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            if name in known.functions:
                return True
            if name not in _KEEPERS:
                return isinstance(node.func, ast.Attribute) and _is_span(node.func.value, known)
        case _:
            pass
    return any(_is_span(child, known) for child in ast.iter_child_nodes(node))


def _is_deadline(node: ast.AST, known: Known) -> bool:
    """Whether an expression is a moment in the future."""
    match node:
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _holds_moment(left, known) or _holds_moment(right, known)
        case ast.Name(id=name):
            return name in known.deadlines
        case _:
            return False


def _holds_moment(node: ast.AST, known: Known) -> bool:
    """Whether an expression holds what a clock said."""
    for each in ast.walk(node):
        match each:
            case ast.Call(func=called) if _is_clock(ast.unparse(called), known):
                return True
            case ast.Attribute(attr=name) if name in _STAMPS:
                return True
            case ast.Name(id=name) if name in known.moments or name in known.deadlines:
                return True
            case _:
                pass
    return False


def _is_clock(called: str, known: Known) -> bool:
    if _LOOP_CLOCKS.fullmatch(called):
        return not known.simulated
    return _CLOCKS.fullmatch(called) is not None


def _returned(function: Function) -> Iterator[ast.AST]:
    for node in ast.walk(function):
        if isinstance(node, ast.Return) and node.value is not None:
            yield node.value


def _judged_in(function: Function, known: Known) -> Iterator[int]:
    """The lines of a function's own assertions that judge time."""
    waiting: list[tuple[ast.AST, ast.AST | None]] = [(each, None) for each in function.body]
    while waiting:
        node, loop = waiting.pop()
        if isinstance(node, Scope):
            continue
        if isinstance(node, ast.Assert):
            inside = set[str]() if loop is None else _set_in(loop)
            if any(
                _judges(compared, known, guards=loop is not None, inside=inside)
                for compared in ast.walk(node.test)
                if isinstance(compared, ast.Compare)
            ):
                yield node.lineno
        if isinstance(node, ast.While | ast.For | ast.AsyncFor):
            loop = node
        waiting += [(child, loop) for child in ast.iter_child_nodes(node)]


def _set_in(loop: ast.AST) -> set[str]:
    """The names that get a value in each turn of a loop."""
    return {
        each.id
        for node in ast.walk(loop)
        for target, _ in _given(node)
        for each in ast.walk(target)
        if isinstance(each, ast.Name)
    }


def _judges(compared: ast.Compare, known: Known, *, guards: bool, inside: set[str]) -> bool:
    sides = [compared.left, *compared.comparators]
    if not any(isinstance(op, _ORDER) for op in compared.ops):
        return "approx(" in ast.unparse(compared) and any(_is_span(side, known) for side in sides)
    if any(_is_span(side, known) for side in sides):
        return True
    return any(
        _judges_moment(*pair, known, guards=guards, inside=inside)
        for each in pairwise(sides)
        for pair in (each, each[::-1])
    )


def _judges_moment(
    moment: ast.AST, deadline: ast.AST, known: Known, *, guards: bool, inside: set[str]
) -> bool:
    """Whether one moment is compared with a deadline that a clock set."""
    if not _is_deadline(deadline, known) or not _holds_moment(moment, known):
        return False
    # A deadline that was set before a loop only keeps the loop from hanging.
    names = {each.id for each in ast.walk(deadline) if isinstance(each, ast.Name)}
    return not guards or bool(names & inside)
