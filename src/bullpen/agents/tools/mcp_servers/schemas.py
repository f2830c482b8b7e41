"""Make the input schema of a foreign tool safe to show and to check inputs with.

References are replaced by what they refer to, so that checking an input takes time in proportion
to its size. Patterns are left out: a hostile one takes forever. The server checks inputs as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from referencing import Registry

from bullpen.agents.contracts.tool import ToolInput
from bullpen.errors import Invalid
from bullpen.protocol import json_text

CHARS_MAX = 20_000
"""The longest schema, as JSON."""

_NODES_MAX = 2_000
_DEPTH_MAX = 12
_TEXT_CHARS_MAX = 300
_ERRORS_SHOWN = 5
_ERROR_CHARS_MAX = 200
_PROPERTY = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_TYPES = frozenset(("object", "array", "string", "number", "integer", "boolean", "null"))
_NUMBERS = frozenset(
    """
    minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength minItems
    maxItems
    """.split()  # noqa: SIM905 - one name a line would fill the page
)
_VARIANTS = ("anyOf", "oneOf", "allOf")

Clean = Callable[[str], str]
"""Changes text from others so that it cannot pose as ours."""


class UnsafeSchema(Exception):
    """A schema that cannot be used, with the reason."""


def safe_schema(raw: Any, clean: Clean) -> dict[str, Any]:
    """The part of a schema that models need, without anything that could harm. Raises UnsafeSchema.

    The top is an object without variants, as models' APIs want it.
    """
    if not isinstance(raw, Mapping) or raw.get("type", "object") != "object":
        raise UnsafeSchema("its input is not an object")
    try:
        size = len(json_text.dumps_line(dict(raw)))
    except ValueError:
        raise UnsafeSchema("its schema is no JSON, or nested too deeply") from None
    if size > CHARS_MAX:
        raise UnsafeSchema(f"its schema has more than {CHARS_MAX} characters")
    walk = _Walk(raw, clean)
    made = walk.node(raw, 0, ())
    kept = {key: value for key, value in made.items() if key not in _VARIANTS}
    made = {"type": "object", "properties": {}, **kept}
    if len(json_text.dumps_line(made)) > CHARS_MAX:
        raise UnsafeSchema("its schema is too large without references")
    return made


class _Walk:
    """One pass through a schema."""

    def __init__(self, top: Mapping[str, Any], clean: Clean) -> None:
        self._top = top
        self._clean = clean
        self._nodes = 0
        # How many characters of texts and values may follow: references can repeat them.
        self._room = CHARS_MAX

    def node(self, raw: Any, depth: int, refs: tuple[str, ...]) -> dict[str, Any]:
        """The safe copy of one schema."""
        self._nodes += 1
        if self._nodes > _NODES_MAX or depth > _DEPTH_MAX:
            raise UnsafeSchema("its schema is too deep or has too many parts")
        if isinstance(raw, bool):
            return {}
        if not isinstance(raw, Mapping):
            raise UnsafeSchema("its schema is not an object")
        if "$ref" in raw:
            ref = raw["$ref"]
            if ref in refs:
                # It refers to itself: anything goes there, for us.
                return {}
            return self.node(self._referred(ref), depth, (*refs, ref))
        made: dict[str, Any] = {}
        self._add_values(raw, made)
        for key in _VARIANTS:
            if isinstance(raw.get(key), list) and raw[key]:
                made[key] = [self.node(each, depth + 1, refs) for each in raw[key]]
        if isinstance(raw.get("items"), (Mapping, bool)):
            made["items"] = self.node(raw["items"], depth + 1, refs)
        if isinstance(raw.get("properties"), Mapping):
            made["properties"] = {
                self._name(name): self.node(each, depth + 1, refs)
                for name, each in raw["properties"].items()
            }
            required = raw.get("required")
            if isinstance(required, list):
                named = {name for name in required if isinstance(name, str)}
                made["required"] = [name for name in made["properties"] if name in named]
        more = raw.get("additionalProperties")
        if isinstance(more, bool):
            made["additionalProperties"] = more
        elif isinstance(more, Mapping):
            made["additionalProperties"] = self.node(more, depth + 1, refs)
        return made

    def _add_values(self, raw: Mapping[str, Any], made: dict[str, Any]) -> None:
        told = raw.get("type")
        types = told if isinstance(told, list) else [told]
        if told is not None:
            if not types or not all(isinstance(each, str) and each in _TYPES for each in types):
                raise UnsafeSchema("its schema has an unknown type")
            made["type"] = told
        if isinstance(raw.get("description"), str):
            # Cleaning takes time, and no more of it is shown.
            some = raw["description"][: 2 * _TEXT_CHARS_MAX]
            made["description"] = short(self._clean(some), _TEXT_CHARS_MAX)
            self._take(len(made["description"]))
        if isinstance(raw.get("enum"), list) and raw["enum"]:
            made["enum"] = [self._plain(each) for each in raw["enum"]]
        for key in ("const", "default"):
            if key in raw:
                made[key] = self._plain(raw[key])
        # In the same order in every process, so that cached requests stay valid.
        for key in sorted(_NUMBERS & raw.keys()):
            value = raw[key]
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if number and (key != "multipleOf" or value > 0):
                made[key] = value

    def _referred(self, ref: Any) -> Any:
        parts = ref.split("/") if isinstance(ref, str) else []
        if len(parts) != 3 or parts[:2] not in (["#", "$defs"], ["#", "definitions"]):
            raise UnsafeSchema("its schema refers to something outside of it")
        found = self._top.get(parts[1])
        if not isinstance(found, Mapping) or parts[2] not in found:
            raise UnsafeSchema("its schema refers to a part that it does not have")
        return found[parts[2]]

    def _name(self, name: Any) -> str:
        if not isinstance(name, str) or _PROPERTY.fullmatch(name) is None:
            raise UnsafeSchema("its schema has a field whose name no model's API accepts")
        return name

    def _plain(self, value: Any) -> Any:
        """A value that must stay as it is; one that would pose as ours makes the tool unusable."""
        text = value if isinstance(value, str) else json_text.dumps_line(value).decode()
        self._take(len(text) + 1)
        if self._clean(text) != text:
            raise UnsafeSchema("its schema has values with reserved words or invisible characters")
        return value

    def _take(self, chars: int) -> None:
        self._room -= chars
        if self._room < 0:
            raise UnsafeSchema("its schema is too large without references")


def short(text: str, chars: int) -> str:
    """The text, cut if it is too long."""
    return text if len(text) <= chars else f"{text[: chars - 1]}…"


class ServerInput(ToolInput):
    """The input of a foreign tool: any object that its schema allows."""

    arguments: dict[str, Any]

    shape: ClassVar[dict[str, Any]] = {}
    label: ClassVar[str] = ""

    @classmethod
    def model_json_schema(cls, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return the schema of the tool."""
        return cls.shape

    @classmethod
    def model_validate(cls, obj: Any, *args: Any, **kwargs: Any) -> Self:
        """Check an input. Raises Invalid, which names the fields."""
        faults = _input_faults(cls.shape, obj)
        if faults:
            required = cls.shape.get("required", ())
            fields = [
                f"{name}{'' if name in required else '?'}" for name in cls.shape["properties"]
            ]
            raise Invalid(
                f"Invalid input for {cls.label}: {'; '.join(faults)}.",
                remedy=f"The fields are {{{', '.join(fields)}}}; those with ? are optional.",
            )
        return cls(arguments=dict(obj))


def input_type(label: str, schema: dict[str, Any]) -> type[ServerInput]:
    """The input of the tool of this name."""
    return type(
        "ForeignInput", (ServerInput,), {"shape": schema, "label": label, "__module__": __name__}
    )


def _input_faults(schema: dict[str, Any], given: Any) -> list[str]:
    if not isinstance(given, dict):
        return ["it is not an object"]
    found = []
    try:
        for error in Draft202012Validator(schema, registry=Registry()).iter_errors(given):
            where = ".".join(str(part) for part in error.absolute_path)
            words = short(error.message, _ERROR_CHARS_MAX)
            found.append(f"{where}: {words}" if where else words)
            if len(found) >= _ERRORS_SHOWN:
                break
    except RecursionError:
        return ["it is too deep"]
    except ArithmeticError:
        return ["it has a number that is too large"]
    return found
