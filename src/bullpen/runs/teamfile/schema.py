"""The JSON Schema of team files, for completion and checks in editors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bullpen.runs.teamfile.tables import File

SHIPPED = Path(__file__).with_name("team-file.schema.json")
"""The schema that comes with the program."""

_TITLE = "A team file of Bullpen"
# The dialect that TOML editors support best.
_DIALECT = "http://json-schema.org/draft-07/schema#"
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")


def schema(words: Mapping[tuple[str, str], str]) -> dict[str, Any]:
    """Return the schema of the tables. `words` describe each key of each table."""
    made = File.model_json_schema(ref_template="#/definitions/{model}")
    tables = made.pop("$defs")
    for name, table in {**tables, "File": made}.items():
        table.pop("title", None)
        table["properties"] = {
            key: _key(value, words.get((name, key))) for key, value in table["properties"].items()
        }
    return {
        "$schema": _DIALECT,
        "title": _TITLE,
        **made,
        "definitions": {name: tables[name] for name in sorted(tables)},
    }


def shipped() -> str:
    """Return the text of the schema that comes with the program."""
    return SHIPPED.read_text(encoding="utf-8")


def _key(said: dict[str, Any], words: str | None) -> dict[str, Any]:
    """Return the schema of a key, without null, which TOML does not have, and with its words."""
    said = {key: value for key, value in said.items() if key != "title"}
    if isinstance(said.get("default", {}), (dict, list, type(None))):
        said.pop("default", None)
    choices = [each for each in said.pop("anyOf", ()) if each != {"type": "null"}]
    if len(choices) == 1:
        said = {**choices[0], **said}
    elif choices:
        said["anyOf"] = choices
    if "$ref" in said and len(said) + bool(words) > 1:
        # In draft 7, anything beside a reference is ignored.
        said = {"allOf": [{"$ref": said.pop("$ref")}], **said}
    return {"description": _LINK.sub(r"\1", words), **said} if words else said
