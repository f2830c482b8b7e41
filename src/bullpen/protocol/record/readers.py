"""How values of JSON objects are read as the types of fields.

What other programs write for a number or for true is read as that: "5", 5.0 and true as an integer,
"yes" and 1 as true. All that is not of its type is refused with the path to it.
"""

from __future__ import annotations

import math
import types
from collections.abc import Callable
from contextlib import suppress
from typing import (
    Annotated,
    Any,
    Literal,
    NoReturn,
    TypeVar,
    Union,
    get_args,
    get_origin,
)

T = TypeVar("T")

ABSENT: Any = object()

Read = Callable[[Any], Any]
"""Returns the value of a field for a value of the JSON object. Raises `Wrong`; `ABSENT` means that
the field has its default.
"""


class Wrong(Exception):
    """A value that is not of its type, with the path to it, innermost part first."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.path: list[str] = []

    def __str__(self) -> str:
        return f"{'.'.join(reversed(self.path))}: {self.args[0]}"


class Otherwise:
    """In `Annotated`: what a text reads as that is not one of the literals."""

    def __init__(self, value: str) -> None:
        self.value = value


NULL_IS_ABSENT = "null is absent"
_DAMAGED_IS_ABSENT = "damaged is absent"
_STRICT = "strict"

OrDefault = Annotated[T, NULL_IS_ABSENT]
"""A field that has its default if it is absent or null. The default is never written."""

OrAbsent = Annotated[T, _DAMAGED_IS_ABSENT]
"""A field that has its default if it is damaged, so that the rest of its record is usable."""

StrictBool = Annotated[bool, _STRICT]
"""true or false, never a text or a number that means one of them."""


class Readable:
    """A type of field that is read from an object."""

    @classmethod
    def read_part(cls, raw: dict[str, Any]) -> Any:
        """Return what the object is read as. Raises `Wrong`."""
        raise NotImplementedError


def reader(hint: Any) -> tuple[type | None, Read]:
    """Return the type whose values need not be read, and how all others are."""
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any:
        return None, lambda value: value
    if origin is Annotated:
        return _annotated(args[0], args[1:])
    if origin in (Union, types.UnionType):
        return _one_of(args)
    if origin is Literal:
        return None, _literal(args)
    if origin in (list, tuple):
        return None, _listed(origin, args[0])
    if origin is dict:
        return None, _object(args[1])
    if isinstance(hint, type) and issubclass(hint, Readable):
        return None, _record(hint)
    return hint, _SCALARS[hint]


def refuse(why: str) -> NoReturn:
    """Raise `Wrong` for the value that is being read."""
    raise Wrong(why)


def _annotated(hint: Any, marks: tuple[Any, ...]) -> tuple[type | None, Read]:
    kind, read = reader(hint)
    for mark in marks:
        if isinstance(mark, Otherwise):
            read = _literal(get_args(hint), mark.value)
        elif mark == NULL_IS_ABSENT:
            read = _null_is_absent(read)
        elif mark == _DAMAGED_IS_ABSENT:
            read = _damaged_is_absent(read)
        elif mark == _STRICT:
            read = _not_a_bool
    return kind, read


def _null_is_absent(read: Read) -> Read:
    return lambda value: ABSENT if value is None else read(value)


def _damaged_is_absent(read: Read) -> Read:
    def tolerant(value: Any) -> Any:
        try:
            return read(value)
        except Wrong:
            return ABSENT

    return tolerant


def _one_of(hints: tuple[Any, ...]) -> tuple[type | None, Read]:
    """Read one of several types: the one that fits exactly, else the first that can be read."""
    kinds, reads = zip(*(reader(hint) for hint in hints if hint is not type(None)), strict=True)
    exact = {*kinds, type(None)} if type(None) in hints else {*kinds}
    *earlier, last = reads

    def read(value: Any) -> Any:
        if type(value) in exact:
            return value
        for each in earlier:
            with suppress(Wrong):
                return each(value)
        return last(value)

    return kinds[0], read


def _literal(values: tuple[Any, ...], otherwise: str | None = None) -> Read:
    allowed = frozenset(values)
    *most, last = (repr(value) for value in values)
    words = f"{', '.join(most)} or {last}" if most else last

    def read(value: Any) -> Any:
        if isinstance(value, str):
            if value in allowed:
                return value
            if otherwise is not None:
                return otherwise
        return refuse(f"Input should be {words}")

    return read


def _listed(origin: type, hint: Any) -> Read:
    kind, read = reader(hint)

    def read_list(value: Any) -> Any:
        if not isinstance(value, list):
            refuse(f"Input should be a valid {origin.__name__}")
        for item in value:
            if type(item) is not kind:
                break
        else:
            return origin(value)
        items = []
        for index, item in enumerate(value):
            try:
                items.append(item if type(item) is kind else read(item))
            except Wrong as wrong:
                wrong.path.append(str(index))
                raise
        return items if origin is list else tuple(items)

    return read_list


def _object(hint: Any) -> Read:
    kind, read = reader(hint)

    def read_object(value: Any) -> Any:
        if not isinstance(value, dict):
            refuse("Input should be a valid dictionary")
        for key in value:
            if type(key) is not str:
                break
        else:
            if hint is Any:
                return value.copy()
        items = {}
        for key, item in value.items():
            try:
                if not isinstance(key, str):
                    refuse("Keys should be strings")
                items[key] = item if type(item) is kind else read(item)
            except Wrong as wrong:
                wrong.path.append(str(key))
                raise
        return items

    return read_object


def _record(cls: type[Readable]) -> Read:
    def read(value: Any) -> Any:
        if not isinstance(value, dict):
            refuse("Input should be a valid dictionary")
        return cls.read_part(value)

    return read


def in_bounds(
    read: Read, *, gt: float | None, ge: float | None, le: float | None, finite: bool
) -> Read:
    """Return how a number is read that has bounds."""

    def checked(value: Any) -> Any:
        value = read(value)
        if value is None:
            return value
        if finite and not math.isfinite(value):
            refuse("Input should be a finite number")
        if gt is not None and not value > gt:
            refuse(f"Input should be greater than {gt}")
        if ge is not None and not value >= ge:
            refuse(f"Input should be greater than or equal to {ge}")
        if le is not None and not value <= le:
            refuse(f"Input should be less than or equal to {le}")
        return value

    return checked


def long_enough(read: Read, min_length: int) -> Read:
    """Return how a text is read that has at least some characters."""

    def checked(value: Any) -> Any:
        if type(value) is str and len(value) >= min_length and value.isascii():
            return value
        text = read(value)
        if text is None:
            return text
        if len(text) < min_length:
            end = "character" if min_length == 1 else "characters"
            refuse(f"String should have at least {min_length} {end}")
        try:
            text.encode()
        except UnicodeEncodeError:
            # It is a name, and no name has half an emoji in it.
            refuse("Input should be a valid string, found half a character")
        return text

    return checked


def _text(value: Any) -> str:
    return str(value) if isinstance(value, str) else refuse("Input should be a valid string")


_BOOLS = dict.fromkeys(("1", "on", "t", "true", "y", "yes"), True) | dict.fromkeys(
    ("0", "off", "f", "false", "n", "no"), False
)


_EXACT_MAX = 2.0**63


def _integer(value: Any) -> int:
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            refuse("Input should be a finite number")
        if not value.is_integer():
            refuse("Input should be a valid integer, got a number with a fractional part")
        if abs(value) >= _EXACT_MAX:
            refuse("Input should be a valid integer, got a number too large to be exact")
        return int(value)
    if not isinstance(value, str):
        refuse("Input should be a valid integer")
    text = value.strip()
    digits, point, zeros = text.partition(".")
    is_whole = set(zeros) == {"0"} if point else True
    try:
        if text.isascii() and is_whole and digits[-1:].isdigit():
            return int(digits)
    except ValueError:
        pass
    return refuse("Input should be a valid integer, unable to parse string as an integer")


def _number(value: Any) -> float:
    if not isinstance(value, int | float | str):
        refuse("Input should be a valid number")
    try:
        if not isinstance(value, str) or value.strip().isascii():
            return float(value)
    except (ValueError, OverflowError):
        pass
    return refuse("Input should be a valid number, unable to parse string as a number")


def _bool(value: Any) -> bool:
    if isinstance(value, str):
        found = _BOOLS.get(value.lower())
    elif isinstance(value, int | float):
        found = bool(value) if value in (0, 1) else None
    else:
        refuse("Input should be a valid boolean")
    if found is None:
        refuse("Input should be a valid boolean, unable to interpret input")
    return found


def _not_a_bool(value: Any) -> NoReturn:
    refuse("Input should be a valid boolean")


_SCALARS: dict[Any, Read] = {str: _text, int: _integer, float: _number, bool: _bool}
