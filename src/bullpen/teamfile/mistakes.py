"""What is wrong in a table, in words, and at which place in it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from bullpen.teamfile.lines import Path
from bullpen.teamfile.tables import TAGS, nearest


@dataclass(frozen=True, slots=True)
class Mistake:
    """Something that is wrong, where, and what to do about it if that is not plain."""

    path: Path
    why: str
    remedy: str = ""
    # The table alone, if the key that it is about stands in the words.
    in_table: bool = False

    def words(self, tables: Mapping[str, Any]) -> str:
        """The mistake after the names of the table and the key that it is in."""
        named = self.path[:-1] if self.in_table else self.path
        return ": ".join([*_places(named, tables), self.why])


def mistakes_of(
    error: ValidationError, tables: Mapping[str, Any], model: type[BaseModel]
) -> list[Mistake]:
    """All that tables are not accepted for."""
    return [_mistake(dict(row), tables, model) for row in error.errors(include_url=False)]


def _mistake(row: dict[str, Any], tables: Mapping[str, Any], model: type[BaseModel]) -> Mistake:
    path = tuple(part for part in row["loc"] if part not in TAGS)
    if row["type"] == "extra_forbidden":
        *above, key = path
        guess = nearest(str(key), _keys(above, model))
        return Mistake(path, f"there is no key {str(key)!r}{guess}", in_table=True)
    if row["type"] == "missing":
        return Mistake(path, "it is missing")
    if row["type"] == "literal_error" and isinstance(row["input"], str):
        known = row["ctx"]["expected"].replace(" or ", ", ")
        return Mistake(path, f"{row['input']!r} is none of {known}")
    return Mistake(path, row["msg"].removeprefix("Value error, "))


def _places(path: Path, tables: Mapping[str, Any]) -> Iterator[str]:
    """The words for a place in the file: lists count from 1, and name whom they are about."""
    at: Any = tables
    for index, part in enumerate(path):
        at = _below(at, part)
        if isinstance(part, int) and not isinstance(at, dict):
            # What is wrong with one of several words says which it is.
            yield str(path[index - 1])
        elif isinstance(part, int):
            about = at.get("name") or at.get("id")
            called = f" ({about})" if isinstance(about, str) and about else ""
            yield f"{str(path[index - 1]).removesuffix('s')} {part + 1}{called}"
        elif not (index + 1 < len(path) and isinstance(path[index + 1], int)):
            yield part


def _below(at: Any, part: str | int) -> Any:
    if isinstance(at, dict):
        return at.get(part)
    return at[part] if isinstance(at, list) and isinstance(part, int) and part < len(at) else None


def _keys(path: Sequence[str | int], model: type[BaseModel]) -> list[str]:
    """The keys that the table at this place may have."""
    at = model
    for part in path:
        field = at.model_fields.get(part) if isinstance(part, str) else None
        if field is not None:
            at = next(_tables_in(field.annotation), at)
    return list(at.model_fields)


def _tables_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """The tables that a key may hold, by its type."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _tables_in(part)
