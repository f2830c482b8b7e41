"""The base of every record: a typed, frozen view of the JSON object it came from."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from bullpen.protocol import jsontext

_DEPTH_MAX = jsontext.DEPTH_MAX - 20
"""How deep a value that we put into a record may nest: files hold records some levels deeper."""


class Wire(BaseModel):
    """A record whose JSON object is the truth and whose fields are a typed view of it.

    Unknown fields, their order and their exact values survive every rewrite, because a change
    makes a new JSON object from the old one and never rebuilds it from the fields.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="ignore",
        alias_generator=to_camel,
        populate_by_name=True,
    )

    # A plain slot: pydantic's private attributes would cost a third of the time to read a task.
    __slots__ = ("_raw",)
    if TYPE_CHECKING:
        _raw: dict[str, Any]
    _keys: ClassVar[dict[str, str]]

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        cls._keys = {name: field.alias or name for name, field in cls.model_fields.items()}

    @classmethod
    def parse(cls, raw: Any) -> Self:
        """View `raw` as this record.

        Raises:
            ValueError: a required field is missing or has the wrong type; the text names it.
        """
        if not isinstance(raw, dict):
            raise ValueError(f"expected an object, found {type(raw).__name__}")
        try:
            record: Self = cls.__pydantic_validator__.validate_python(
                raw, by_alias=True, by_name=False
            )
        except ValidationError as error:
            raise ValueError(_why(error)) from None
        object.__setattr__(record, "_raw", raw)
        return record

    @classmethod
    def new(cls, **fields: Any) -> Self:
        """Make a record in canonical field order; fields that are None are left out.

        Raises:
            ValueError: a field is missing, has the wrong type or nests too deeply.
        """
        for name, value in fields.items():
            _refuse_too_deep(name, value)
        record = cls(**fields)
        raw = record.model_dump(mode="json", by_alias=True, exclude_none=True)
        object.__setattr__(record, "_raw", raw)
        return record

    def evolve(self, **changes: Any) -> Self:
        """Return this record with some fields changed and everything else untouched.

        A field set to None is removed. A field that was absent is placed in canonical order.

        Raises:
            ValueError: a value has the wrong type or nests too deeply.
        """
        for name, value in changes.items():
            _refuse_too_deep(name, value)
        return self._evolved(**changes)

    def _evolved(self, **changes: Any) -> Self:
        """The same for values that were in this record before, however deep they nest."""
        raw = dict(self._raw)
        for name, value in changes.items():
            key = self._keys[name]
            if value is None:
                raw.pop(key, None)
            elif key in raw:
                raw[key] = _plain(value)
            else:
                raw = self._inserted(raw, key, _plain(value))
        return type(self).parse(raw)

    @classmethod
    def _inserted(cls, raw: dict[str, Any], key: str, value: Any) -> dict[str, Any]:
        order = list(cls._keys.values())
        later = set(order[order.index(key) + 1 :])
        placed: dict[str, Any] = {}
        for existing, current in raw.items():
            if key not in placed and existing in later:
                placed[key] = value
            placed[existing] = current
        placed.setdefault(key, value)
        return placed

    @property
    def raw(self) -> dict[str, Any]:
        """The JSON object. Treat it as read-only."""
        return self._raw

    def dump(self) -> bytes:
        """The bytes of this record's own file."""
        return jsontext.dumps(self._raw)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).parse, (self._raw,)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        return type(self).parse(copy.deepcopy(self._raw, memo))

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._raw == other._raw

    def __hash__(self) -> int:
        # Equal objects may differ in key order and in 1 against 1.0: only texts are safe to hash.
        return hash(frozenset(pair for pair in self._raw.items() if isinstance(pair[1], str)))


def _refuse_too_deep(name: str, value: Any) -> None:
    if jsontext.too_deep(value, _DEPTH_MAX):
        raise ValueError(f"{name}: nested too deeply")


def _plain(value: Any) -> Any:
    if isinstance(value, Wire):
        return value.raw
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _why(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg']}" if where else str(first["msg"])
