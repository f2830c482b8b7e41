"""Mistakes in a team file: what is wrong, and where. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from bullpen.runs.teamfile.tables import TAGS, nearest
from bullpen.runs.teamfile.toml_lines import Path


@dataclass(frozen=True, slots=True)
class Mistake:
    """What is wrong, where, and a remedy if that is not obvious."""

    path: Path
    why: str
    remedy: str = ""
    # Whether to name only the table, because the words name the key.
    in_table: bool = False

    def words(self, tables: Mapping[str, Any]) -> str:
        """Return the mistake with the table and the key in front."""
        named = self.path[:-1] if self.in_table else self.path
        return ": ".join([*_places(named, tables), self.why])


def mistakes_of(
    error: ValidationError, tables: Mapping[str, Any], model: type[BaseModel]
) -> list[Mistake]:
    """Return the mistakes that a validation found."""
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
        return Mistake(path, f"{row['input']!r} is not one of {known}")
    return Mistake(path, row["msg"].removeprefix("Value error, "))


def _places(path: Path, tables: Mapping[str, Any]) -> Iterator[str]:
    """Yield the words for a place in the file: a list counts from 1 and shows a name or id."""
    at: Any = tables
    for index, part in enumerate(path):
        at = _below(at, part)
        if isinstance(part, int) and not isinstance(at, dict):
            # The mistake itself names the value.
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
    """Return the keys that the table at this place may have."""
    at = model
    for part in path:
        field = at.model_fields.get(part) if isinstance(part, str) else None
        if field is not None:
            at = next(_tables_in(field.annotation), at)
    return list(at.model_fields)


def _tables_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the tables that a key may hold, by its type."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _tables_in(part)
