"""GitHub's own description of its API: whether a request or an answer fits it."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from graphql import GraphQLSchema, build_schema
from jsonschema import Draft7Validator, Draft202012Validator  # type: ignore[import-untyped]

UNPUBLISHED = frozenset({401, 403, 404, 422, 429})
"""Errors that any call may have, published or not."""

PUBLISHED = Path(__file__).with_name("published")


@cache
def _described() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((PUBLISHED / "openapi.json").read_text(encoding="utf-8"))
    return found


@cache
def recorded() -> dict[str, Any]:
    """Return the recorded deliveries of webhooks and their shapes."""
    found: dict[str, Any] = json.loads((PUBLISHED / "webhooks.json").read_text(encoding="utf-8"))
    return found


@cache
def graphql_schema() -> GraphQLSchema:
    """Return the part of GitHub's GraphQL that we use."""
    return build_schema((PUBLISHED / "schema.graphql").read_text(encoding="utf-8"))


@dataclass(frozen=True, slots=True)
class Operation:
    """One call of the API."""

    id: str
    method: str
    path: str
    pattern: re.Pattern[str]
    parameters: tuple[Mapping[str, Any], ...]
    body: Mapping[str, Any] | None
    body_required: bool
    responses: Mapping[str, Mapping[str, Any]]

    @property
    def is_paged(self) -> bool:
        """Return whether its answer comes in pages."""
        return any(each["name"] == "page" for each in self.parameters)

    def wrong_in_request(
        self, values: Mapping[str, str], query: Mapping[str, str], body: Any
    ) -> list[str]:
        """Return what does not fit in a request."""
        found = []
        known = {each["name"]: each for each in self.parameters}
        found += [f"unknown parameter {name}" for name in query if name not in known]
        for name, one in known.items():
            given = (values if one["in"] == "path" else query).get(name)
            if given is None:
                found += [f"{name} is missing"] if one["required"] else []
            else:
                # In an address, a number may also be a text of digits.
                wrong = _wrong(one["schema"], _typed(given)) and _wrong(one["schema"], given)
                found += [f"{name}: {each}" for each in wrong]
        if self.body is None:
            return found + (["it has a body"] if body is not None else [])
        if body is None:
            return found + (["its body is missing"] if self.body_required else [])
        allowed = _properties(self.body)
        if isinstance(body, dict) and allowed:
            found += [f"unknown key {name}" for name in body if name not in allowed]
        return found + _wrong(self.body, body)

    def wrong_in_answer(self, status: int, content: Any) -> list[str]:
        """Return what does not fit in an answer. Any call may find a wrong token or a limit."""
        response = self.responses.get(str(status))
        if response is None:
            return [] if status in UNPUBLISHED or status >= 500 else [f"status {status}"]
        schema = response.get("schema")
        if schema is None:
            return ["it has content"] if content is not None and status < 300 else []
        return _wrong(schema, content)


@cache
def operations() -> tuple[Operation, ...]:
    """Return all calls that the stand-in knows."""
    return tuple(
        Operation(
            each["id"],
            each["method"].upper(),
            each["path"],
            _pattern(each["path"]),
            tuple(each["parameters"]),
            each.get("body"),
            each["body_required"],
            each["responses"],
        )
        for each in _described()["operations"]
    )


def find(method: str, raw_path: str) -> tuple[Operation, dict[str, str]] | None:
    """Return the call that a request makes, and the values in its path."""
    for each in operations():
        found = each.pattern.fullmatch(raw_path)
        if found and each.method == method:
            return each, {name: unquote(value) for name, value in found.groupdict().items()}
    return None


@cache
def _example_text(operation_id: str) -> str:
    for each in operations():
        if each.id == operation_id:
            found = [one["example"] for one in each.responses.values() if "example" in one]
            return json.dumps(found[0])
    raise LookupError(operation_id)


def example(operation_id: str) -> Any:
    """Return a copy of what GitHub gives as an answer of a call."""
    return json.loads(_example_text(operation_id))


def recorded_delivery(name: str) -> dict[str, Any]:
    """Return a copy of a recorded delivery, such as `issues.opened`."""
    found: dict[str, Any] = copy.deepcopy(recorded()["examples"][name])
    return found


def wrong_in_delivery(name: str, body: Any) -> list[str]:
    """Return what does not fit in a delivery."""
    shapes = recorded()
    schema = {**shapes["events"][name], "definitions": shapes["definitions"]}
    return [_sentence(each) for each in Draft7Validator(schema).iter_errors(body)]


def _pattern(path: str) -> re.Pattern[str]:
    parts = re.split(r"\{(\w+)\}", path)
    made = [
        re.escape(each)
        if at % 2 == 0
        else f"(?P<{each}>{'.+' if _is_ref(path, each) else '[^/]+'})"
        for at, each in enumerate(parts)
    ]
    return re.compile("".join(made))


def _is_ref(path: str, name: str) -> bool:
    return name == "ref" and "/git/" in path


def _typed(given: str) -> Any:
    if re.fullmatch(r"-?\d{1,15}", given):
        return int(given)
    return {"true": True, "false": False}.get(given, given)


def _properties(schema: Mapping[str, Any]) -> set[str]:
    found = set(schema.get("properties", ()))
    for kind in ("anyOf", "oneOf", "allOf"):
        for each in schema.get(kind, ()):
            found |= _properties(each)
    return found


def _wrong(schema: Mapping[str, Any], value: Any) -> list[str]:
    whole = {**schema, "schemas": _described()["schemas"]}
    return [_sentence(each) for each in Draft202012Validator(whole).iter_errors(value)]


def _sentence(error: Any) -> str:
    where = "/".join(str(each) for each in error.absolute_path)
    return f"{where or 'it'}: {error.message[:200]}"
