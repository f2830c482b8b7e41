"""The JSON Schemas of everything that commands print for programs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from bullpen.errors import NotFound, Refused
from bullpen.protocol import json_text

SHIPPED = Path(__file__).with_name("json-output.schema.json")
"""The schemas that come with the program, all in one document."""

COMMANDS = "x-commands"
"""The key that names the commands which print an object; `*` stands for all."""

_PREFIX = "bullpen/"
_DEFINITIONS = "$defs"
_REFERENCE = "#/$defs/"


@dataclass(frozen=True, slots=True)
class Printed:
    """An object that commands print: its schema, as `bullpen/NAME/VERSION` without the prefix."""

    name: str
    version: str
    commands: tuple[str, ...]
    description: str


@cache
def shipped() -> dict[str, Any]:
    """The document with all schemas."""
    document: dict[str, Any] = json_text.loads(SHIPPED.read_bytes())
    return document


@cache
def printed() -> tuple[Printed, ...]:
    """All objects that commands print, by name."""
    return tuple(
        Printed(name, _version(schema), tuple(schema[COMMANDS]), schema["description"])
        for name, schema in shipped()[_DEFINITIONS].items()
        if COMMANDS in schema
    )


def schema_of(wanted: str) -> dict[str, Any]:
    """The schema of a name, such as `agents` or `bullpen/agents/1`, or of what a command prints.

    Raises:
        NotFound: there is no such schema or command.
        Refused: the command prints objects of several schemas.
    """
    name, _, version = wanted.removeprefix(_PREFIX).partition("/")
    for each in printed():
        if each.name == name and version in ("", each.version):
            return _alone(name)
    of_command = [each.name for each in printed() if wanted in each.commands]
    if len(of_command) == 1:
        return _alone(of_command[0])
    if of_command:
        raise Refused(
            f"`bullpen {wanted}` prints objects of several schemas: {', '.join(of_command)}.",
            reason="ambiguous",
            remedy=f"Name one of them: bullpen schema {of_command[0]}",
        )
    raise NotFound(f"There is no schema {wanted!r}.", remedy="See: bullpen schema --list")


def _alone(name: str) -> dict[str, Any]:
    """One schema as a document of its own, with the definitions that it refers to."""
    document = shipped()
    every = document[_DEFINITIONS]
    needed: set[str] = set()
    waiting = [name]
    while waiting:
        for other in _references(every[waiting.pop()]):
            if other not in needed:
                needed.add(other)
                waiting.append(other)
    alone = {"$schema": document["$schema"], "title": f"{_PREFIX}{name}", **every[name]}
    alone.pop(COMMANDS)
    return alone | {_DEFINITIONS: {each: every[each] for each in every if each in needed}}


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        for key, value in schema.items():
            if key == "$ref":
                yield value.removeprefix(_REFERENCE)
            else:
                yield from _references(value)
    elif isinstance(schema, list):
        for each in schema:
            yield from _references(each)


def _version(schema: dict[str, Any]) -> str:
    tag: str = schema["properties"]["schema"]["const"]
    return tag.rpartition("/")[2]
