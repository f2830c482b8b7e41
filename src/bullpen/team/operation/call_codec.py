"""Arguments and results of operations as JSON, by the types that the operations declare.

Everything that comes from elsewhere is checked: a value that does not fit its type is refused.
"""

from __future__ import annotations

import inspect
import math
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from bullpen.protocol.record import Wire

_LISTS = (list, Sequence, Iterable)
_MAPPINGS = (dict, Mapping)


@dataclass(frozen=True, slots=True)
class Codec:
    """How values of one type become JSON and come back. `decode` raises ValueError."""

    fits: Callable[[Any], bool]
    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class CallCodec:
    """How the arguments and the result of one operation become JSON and come back."""

    signature: inspect.Signature
    arguments: Mapping[str, Codec]
    result: Codec

    def arguments_raw(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return the arguments of a call as a JSON object. Raises TypeError, ValueError."""
        given = self.signature.bind(None, *args, **kwargs).arguments
        return {
            name: self.arguments[name].encode(value)
            for name, value in given.items()
            if name in self.arguments
        }

    def arguments_of(self, raw: Any) -> dict[str, Any]:
        """Return the arguments that a JSON object stands for. Raises ValueError."""
        if not isinstance(raw, dict):
            raise ValueError("the arguments must be an object")
        made: dict[str, Any] = {}
        for name, value in raw.items():
            if name not in self.arguments:
                raise ValueError(f"there is no argument {name!r}")
            try:
                made[name] = self.arguments[name].decode(value)
            except (TypeError, ValueError, RecursionError) as error:
                raise ValueError(f"{name}: {error}") from None
        return made


@cache
def call_codec(method: Callable[..., Any]) -> CallCodec:
    """Return the codec of an operation. Raises TypeError if one of its types cannot be sent."""
    hints = get_type_hints(method)
    signature = inspect.signature(method)
    arguments = {}
    for name, parameter in list(signature.parameters.items())[1:]:
        codec = codec_of(hints[name])
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            codec = _mapping(codec_of(str), codec)
        arguments[name] = codec
    return CallCodec(signature, arguments, codec_of(hints["return"]))


def codec_of(hint: Any) -> Codec:
    """Return the codec of a type. Raises TypeError if it cannot be sent."""
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any:
        return Codec(lambda value: True, _same, _same)
    if hint in _plain():
        return _plain()[hint]
    if origin is Literal:
        return _checked(lambda value: isinstance(value, str) and value in args, f"one of {args}")
    if origin in (Union, types.UnionType):
        return _union([codec_of(each) for each in args])
    if origin is tuple and len(args) == 2 and args[1] is Ellipsis:
        return _list(codec_of(args[0]), tuple)
    if origin in _LISTS:
        return _list(codec_of(args[0]), list)
    if origin in _MAPPINGS:
        return _mapping(codec_of(args[0]), codec_of(args[1]), numbers=args[0] is int)
    if isinstance(hint, type) and issubclass(hint, Wire):
        return Codec(lambda value: isinstance(value, hint), lambda value: value.raw, hint.parse)
    if isinstance(hint, type) and is_dataclass(hint):
        return _record(hint)
    raise TypeError(f"a value of type {hint} cannot be sent")


def _same(value: Any) -> Any:
    return value


def _checked(fits: Callable[[Any], bool], what: str) -> Codec:
    def decode(value: Any) -> Any:
        if not fits(value):
            raise ValueError(f"expected {what}, found {type(value).__name__}")
        return value

    return Codec(fits, _same, decode)


def _is_number(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


@cache
def _plain() -> dict[Any, Codec]:
    return {
        type(None): _checked(lambda value: value is None, "null"),
        str: _checked(lambda value: isinstance(value, str), "a text"),
        bool: _checked(lambda value: isinstance(value, bool), "true or false"),
        int: _checked(
            lambda value: isinstance(value, int) and not isinstance(value, bool), "a whole number"
        ),
        float: _checked(_is_number, "a number"),
    }


def _union(members: Sequence[Codec]) -> Codec:
    def encode(value: Any) -> Any:
        return next(each for each in members if each.fits(value)).encode(value)

    def decode(value: Any) -> Any:
        why: list[str] = []
        for each in members:
            try:
                return each.decode(value)
            except (TypeError, ValueError) as error:
                why.append(str(error))
        raise ValueError("; ".join(why))

    return Codec(lambda value: any(each.fits(value) for each in members), encode, decode)


def _list(item: Codec, made: Callable[[list[Any]], Any]) -> Codec:
    def decode(value: Any) -> Any:
        if not isinstance(value, list):
            raise ValueError(f"expected a list, found {type(value).__name__}")
        return made([item.decode(each) for each in value])

    return Codec(
        lambda value: isinstance(value, Iterable) and not isinstance(value, str | Mapping),
        lambda value: [item.encode(each) for each in value],
        decode,
    )


def _mapping(key: Codec, item: Codec, *, numbers: bool = False) -> Codec:
    def decode(value: Any) -> Any:
        if not isinstance(value, dict):
            raise ValueError(f"expected an object, found {type(value).__name__}")
        return {
            key.decode(int(name) if numbers else name): item.decode(each)
            for name, each in value.items()
        }

    return Codec(
        lambda value: isinstance(value, Mapping),
        lambda value: {str(name): item.encode(each) for name, each in value.items()},
        decode,
    )


def _record(kind: type) -> Codec:
    hints = get_type_hints(kind)
    parts = {each.name: codec_of(hints[each.name]) for each in fields(kind)}
    needed = {
        each.name
        for each in fields(kind)
        if each.default is MISSING and each.default_factory is MISSING
    }

    def decode(value: Any) -> Any:
        if not isinstance(value, dict) or not needed <= value.keys() <= parts.keys():
            raise ValueError(f"expected a {kind.__name__}")
        return kind(**{name: parts[name].decode(each) for name, each in value.items()})

    return Codec(
        lambda value: isinstance(value, kind),
        lambda value: {name: part.encode(getattr(value, name)) for name, part in parts.items()},
        decode,
    )
