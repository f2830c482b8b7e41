"""The schema of a tool's input as a model is sent it. Pure.

Every request pays for the schemas, so they have only what tells a model how to call the tool. The
input is still validated by its whole type, whose errors say what is wrong.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from copy import deepcopy
from functools import cache
from typing import Any

from pydantic import BaseModel

from bullpen.agents.contracts.tool import Tool, ToolInput

_KEPT = ("type", "enum", "const", "items", "properties", "required", "anyOf", "description")
_NOTHING = {"type": "null"}


def sent_schema(given: type[ToolInput]) -> dict[str, Any]:
    """The schema without titles, defaults, limits, `null` and the fields models are not told of.

    A type with a schema of its own, such as that of another program's tool, is sent as it says.
    """
    if given.model_json_schema.__func__ is not BaseModel.model_json_schema.__func__:  # type: ignore[attr-defined]
        return given.model_json_schema()
    return deepcopy(_schema_of(given))


@cache
def _schema_of(given: type[ToolInput]) -> dict[str, Any]:
    """Made once: it takes milliseconds, and every request has all of them."""
    whole = given.model_json_schema()
    sent = _trimmed(whole, whole.get("$defs", {}))
    # Docstrings of inputs are for readers of the code.
    sent.pop("description", None)
    told: dict[str, Any] = {}
    for name, schema in sent.get("properties", {}).items():
        if name not in given.sent_as:
            told[name] = schema
        elif (other := given.sent_as[name]) is not None:
            told[name] = dict(other)
    return {**sent, "properties": told}


def definitions(tools: Iterable[Tool[Any]]) -> list[str]:
    """The definitions of tools as a model is sent them, one text for each."""
    return [
        json.dumps([tool.name, tool.description, sent_schema(tool.input)], ensure_ascii=False)
        for tool in tools
    ]


def is_team_tool(name: str, tools: Iterable[Tool[Any]]) -> bool:
    """Whether a tool is one of the team's."""
    return any(tool.name == name and tool.kind == "team" for tool in tools)


def _trimmed(schema: Mapping[str, Any], named: Mapping[str, Any]) -> dict[str, Any]:
    if "$ref" in schema:
        inner = dict(named[str(schema["$ref"]).removeprefix("#/$defs/")])
        # What the field says about it is more exact than what the type says.
        inner.pop("description", None)
        schema = {**inner, **{key: value for key, value in schema.items() if key != "$ref"}}
    sent = {key: value for key, value in schema.items() if key in _KEPT}
    if "properties" in sent:
        sent["properties"] = {
            name: _trimmed(field, named) for name, field in sent["properties"].items()
        }
    if "items" in sent:
        sent["items"] = _trimmed(sent["items"], named)
    if "anyOf" in sent:
        some = [_trimmed(one, named) for one in sent.pop("anyOf") if one != _NOTHING]
        sent = {**some[0], **sent} if len(some) == 1 else {"anyOf": some, **sent}
    return sent
