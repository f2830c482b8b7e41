"""Signatures that were promised: read, compared and looked for in a file. Pure.

Python is compared by its syntax tree: names, order, kinds and defaults of the parameters, whether
it is async, and annotations where the promise has them. Any other language is compared as text: the
promised words must be in the file, whatever the space between them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from bullpen.errors import Invalid

SOURCE_CHARS_MAX = 2_000_000
"""The largest file in which a signature is looked for."""

_CHARS_MAX = 1_000
_PYTHON = re.compile(
    r"(?P<head>async\s+def\s|def\s|)\s*(?P<name>[^\W\d][\w.]*)\s*(?P<rest>\(.*)", re.DOTALL
)
_CALLED = re.compile(r"([^\W\d][\w$]*)[^\w(]*\(")
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_TOO_DEEP = (RecursionError, MemoryError)


def check_signature(path: str, signature: str) -> None:
    """Refuse a signature that could not be checked. Raises Invalid."""
    if len(signature) > _CHARS_MAX:
        raise Invalid(
            f"The signature is longer than {_CHARS_MAX} characters.",
            remedy="Promise one function at a time.",
        )
    name_of(path, signature)
    if _is_python(path):
        _stated(path, signature)


def name_of(path: str, signature: str) -> str:
    """Return the name of the promised function, such as `Parser.parse`. Raises Invalid."""
    found = _PYTHON.fullmatch(signature.strip()) if _is_python(path) else None
    called = None if _is_python(path) else _CALLED.search(signature)
    if found is not None:
        return found["name"]
    if called is not None:
        return called[1]
    raise _unusable(path, signature)


def agree(path: str, one: str, other: str) -> bool:
    """Return whether two promised signatures of the same name can both be kept."""
    if not _is_python(path):
        return _packed(one) == _packed(other)
    return not _difference(_stated(path, one), _stated(path, other), all_said=False)


def problem(path: str, signature: str, source: str | None) -> str | None:
    """Return why a file does not have the promised signature; None if it has. None is no file."""
    if source is None:
        return f"there is no file {path}"
    if len(source) > SOURCE_CHARS_MAX:
        return f"{path} is too large to be checked"
    if not _is_python(path):
        wanted = re.escape(_packed(signature))
        there = re.search(rf"(?<!\w){wanted}(?!\w)", _packed(source))
        return None if there else f"{path} does not contain the text {signature.strip()!r}"
    try:
        return _python_problem(path, signature, source)
    except SyntaxError as error:
        return f"{path} is not valid Python: {error.msg} (line {error.lineno})"
    except ValueError as error:
        return f"{path} is not valid Python: {error}"
    except _TOO_DEEP:
        return f"{path} is nested too deeply to be checked"


def _python_problem(path: str, signature: str, source: str) -> str | None:
    name = name_of(path, signature)
    wanted = _stated(path, signature)
    found = _named(ast.parse(source).body, name.split("."))
    if not found:
        return f"{path} does not define {name}"
    for each in found:
        if isinstance(each, ast.ClassDef):
            return f"{name} in {path} is a class: promise a method, such as {name}.__init__"
        different = _difference(wanted, each, all_said=True)
        if different:
            return f"{path} has {name}{_shown(each)}: {different}"
    return None


def _named(body: Sequence[ast.stmt], names: Sequence[str]) -> list[_Function | ast.ClassDef]:
    """Return every definition with that name, in whichever branch of the module it is."""
    there = [each for each in _definitions(body) if each.name == names[0]]
    if len(names) == 1:
        return [each for each in there if not _is_aside(each)]
    return [
        inner
        for each in there
        if isinstance(each, ast.ClassDef)
        for inner in _named(each.body, names[1:])
    ]


def _definitions(body: Sequence[ast.stmt]) -> Iterator[_Function | ast.ClassDef]:
    for each in body:
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield each
            continue
        for part in ("body", "orelse", "finalbody"):
            yield from _definitions(getattr(each, part, ()))
        for handler in getattr(each, "handlers", ()):
            yield from _definitions(handler.body)


def _is_aside(each: _Function | ast.ClassDef) -> bool:
    """Return whether a definition does not say how the name is called: an overload, a setter."""
    words = {ast.unparse(decorator).rpartition(".")[2] for decorator in each.decorator_list}
    return bool(words & {"overload", "setter", "deleter"})


def _stated(path: str, signature: str) -> _Function:
    found = _PYTHON.fullmatch(signature.strip())
    if found is None:
        raise _unusable(path, signature)
    head = "async def" if found["head"].startswith("async") else "def"
    rest = found["rest"].strip().removesuffix("...").rstrip().removesuffix(":")
    try:
        body = ast.parse(f"{head} _{rest}: ...").body
    except (SyntaxError, ValueError, *_TOO_DEEP):
        raise _unusable(path, signature) from None
    only = body[0] if len(body) == 1 else None
    if not isinstance(only, ast.FunctionDef | ast.AsyncFunctionDef):
        raise _unusable(path, signature)
    return only


def _difference(wanted: _Function, found: _Function, *, all_said: bool) -> str | None:
    """Return what differs, in words. With `all_said`, promised annotations must be there."""
    if isinstance(wanted, ast.AsyncFunctionDef) != isinstance(found, ast.AsyncFunctionDef):
        return "one of them is async"
    ours, theirs = _parameters(wanted.args), _parameters(found.args)
    promised = f"promised is {_shown(wanted)}"
    if [row[:3] for row in ours] != [row[:3] for row in theirs]:
        return promised
    annotations = [(row[3], other[3]) for row, other in zip(ours, theirs, strict=True)]
    annotations.append((_text(wanted.returns), _text(found.returns)))
    said = [(one, other) for one, other in annotations if one and (other or all_said)]
    return promised if any(one != other for one, other in said) else None


_Parameter = tuple[str, str, str, str]


def _parameters(args: ast.arguments) -> list[_Parameter]:
    """Return kind, name, default and annotation of each parameter, in order."""
    plain = [*((each, "only by position") for each in args.posonlyargs)]
    plain += [(each, "") for each in args.args]
    absent = [None] * (len(plain) - len(args.defaults))
    rows = [
        (kind, each.arg, _text(default), _text(each.annotation))
        for (each, kind), default in zip(plain, [*absent, *args.defaults], strict=True)
    ]
    if args.vararg is not None:
        rows.append(("*", args.vararg.arg, "", _text(args.vararg.annotation)))
    rows += [
        ("only by name", each.arg, _text(default), _text(each.annotation))
        for each, default in zip(args.kwonlyargs, args.kw_defaults, strict=True)
    ]
    if args.kwarg is not None:
        rows.append(("**", args.kwarg.arg, "", _text(args.kwarg.annotation)))
    return rows


def _text(node: ast.expr | None) -> str:
    return "" if node is None else ast.unparse(node)


def _shown(function: _Function) -> str:
    returns = f" -> {_text(function.returns)}" if function.returns is not None else ""
    return f"({ast.unparse(function.args)}){returns}"


def _is_python(path: str) -> bool:
    return path.lower().endswith((".py", ".pyi"))


def _packed(text: str) -> str:
    """Return the words of a text without the space that makes no difference."""
    return re.sub(r"\s*([^\w\s])\s*", r"\1", " ".join(text.split()))


def _unusable(path: str, signature: str) -> Invalid:
    form = (
        "Write it as in Python: parse(text, *, strict=False)"
        if _is_python(path)
        else "Write the declaration as it is going to be in the file, with its parentheses"
    )
    return Invalid(
        f"The signature {signature[:100]!r} cannot be checked in {path}.", remedy=f"{form}."
    )
