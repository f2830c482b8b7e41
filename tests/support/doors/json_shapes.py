"""Whether what commands print for programs fits the schemas that are published."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import jsonschema  # type: ignore[import-untyped]

from bullpen.doors.cli.output.json_schemas import schema_of


def fitting(text: str) -> Any:
    """The object in a text; fails if there is not exactly one, or it does not fit its schema."""
    (value,) = objects(text)
    assert faults(value) == [], value
    return value


def fitting_lines(text: str) -> list[Any]:
    """The objects of a text, one on each line."""
    values = [json.loads(line) for line in text.splitlines()]
    assert [each for value in values for each in faults(value)] == []
    return values


def objects(text: str) -> list[Any]:
    """The JSON values of a text, one after another."""
    found, rest, decoder = [], text.strip(), json.JSONDecoder()
    while rest:
        value, end = decoder.raw_decode(rest)
        found.append(value)
        rest = rest[end:].lstrip()
    return found


def faults(value: Any) -> list[str]:
    """What is wrong with an object; JSON Schemas themselves are documents of another kind."""
    if not isinstance(value, dict):
        return [f"not an object: {value!r}"]
    if "$schema" in value:
        return []
    if not isinstance(value.get("schema"), str):
        return [f"no name of a schema: {list(value)}"]
    found = _validator(value["schema"]).iter_errors(value)
    return [f"{value['schema']} at {each.json_path}: {each.message[:300]}" for each in found]


@cache
def _validator(name: str) -> Any:
    return jsonschema.Draft202012Validator(schema_of(name))
