"""Words that are taken from a command line as they are.

Typer converts each value with an adapter of pydantic, and building these takes longer than all else
that most commands do. Words, small numbers and choices need none. Any other value goes to Typer,
which converts or refuses it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args, get_origin

_DIGITS_MAX = 15


class PlainWords:
    """Stands in for the adapter of a parameter until a value needs one."""

    def coerce(self, value: Any, *, param: Any, ctx: Any) -> Any:
        """The value as the command gets it."""
        several = param.multiple or param.nargs == -1
        if value is None:
            return () if several else None
        info = param.type_descriptor.parameter_info
        if info.parser is None and not info.clamp:
            annotation = param.type_descriptor.annotation
            if not several:
                plain = _plain(value, annotation, info)
                if plain is not None:
                    return plain
            elif get_origin(annotation) is list and isinstance(value, list | tuple):
                plains = [_plain(each, get_args(annotation)[0], info) for each in value]
                if None not in plains:
                    return plains
        param._runtime_param = None
        return param.get_runtime_param().coerce(value, param=param, ctx=ctx)


_PLAIN_WORDS = PlainWords()


def taking_plain_words(params: Sequence[Any]) -> Sequence[Any]:
    """These parameters of a command, which take plain words without Typer's adapters."""
    for param in params:
        if param._runtime_param is None:
            param._runtime_param = _PLAIN_WORDS
    return params


def _plain(value: Any, annotation: Any, info: Any) -> Any:
    """What a word stands for; None if it needs Typer."""
    if annotation is str:
        return value if type(value) is str and _is_text(value) else None
    if get_origin(annotation) is Literal:
        return value if value in get_args(annotation) else None
    if annotation in {int, float}:
        return _small_number(value, annotation, info)
    return None


def _is_text(word: str) -> bool:
    """Whether it holds no bytes that are not UTF-8; Typer refuses those."""
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


def _small_number(value: Any, kind: type[int] | type[float], info: Any) -> float | None:
    if type(value) is str and value.isascii() and len(value) <= _DIGITS_MAX:
        digits = value.replace(".", "", 1) if kind is float else value
        value = kind(value) if digits.isdigit() else None
    if type(value) is not kind:
        return None
    too_small = info.min is not None and value < info.min
    too_large = info.max is not None and value > info.max
    return None if too_small or too_large else value
