"""The base class of all records: a typed, frozen view of a JSON object."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, TypeVar, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticUseDefault

from bullpen.protocol import json_text

T = TypeVar("T")

_DEPTH_MAX = json_text.DEPTH_MAX - 20
"""How deep a value in a record may nest: files contain records some levels deeper."""


class Wire(BaseModel):
    """A record whose JSON object is the truth and whose fields are a typed view of it.

    Unknown fields, their order and their exact values survive every rewrite, because a change
    creates a new JSON object from the old one and never rebuilds it from the fields. A field can be
    a record itself: it is parsed together with its owner and has its own part of the JSON object.
    """

    model_config = ConfigDict(
        frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True
    )

    # A plain slot: pydantic's private attributes would cost a third of the time to parse a task.
    __slots__ = ("_raw",)
    if TYPE_CHECKING:
        _raw: dict[str, Any]
    _keys: ClassVar[dict[str, str]]
    _nested: ClassVar[tuple[tuple[str, str], ...]]
    _or_default: ClassVar[frozenset[str]]

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        fields = cls.model_fields
        cls._keys = {name: field.alias or name for name, field in fields.items()}
        cls._nested = tuple(
            (name, cls._keys[name])
            for name, field in fields.items()
            if _holds_records(field.annotation)
        )
        cls._or_default = frozenset(
            name for name, field in fields.items() if _NULL_IS_ABSENT in field.metadata
        )

    @classmethod
    def parse(cls, raw: Any) -> Self:
        """Parse `raw` as this record. Raises ValueError with the name of the wrong field."""
        if not isinstance(raw, dict):
            raise ValueError(f"expected an object, found {type(raw).__name__}")
        record = cls._validated(raw)
        record._bind(raw)
        return record

    @classmethod
    def _validated(cls, raw: dict[str, Any]) -> Self:
        """Return the fields of `raw` and of every record in it, without their JSON objects."""
        try:
            record: Self = cls.__pydantic_validator__.validate_python(
                raw, by_alias=True, by_name=False
            )
        except ValidationError as error:
            raise ValueError(_why(error)) from None
        return record

    def _bind(self, raw: dict[str, Any]) -> None:
        """Keep the JSON object this record was parsed from, and give each record in it its part."""
        object.__setattr__(self, "_raw", raw)
        for name, key in self._nested:
            part = raw.get(key)
            # Without a part the field has its default, and a damaged part is not a record.
            if part is None:
                continue
            value = getattr(self, name)
            if isinstance(value, Wire):
                value._bind(part)
            else:
                for record, row in zip(value or (), part, strict=False):
                    record._bind(row)

    @classmethod
    def new(cls, **fields: Any) -> Self:
        """Create a record in canonical field order, without None. Raises ValueError."""
        plain = {cls._keys.get(name, name): _plain(value) for name, value in fields.items()}
        for name, value in plain.items():
            _refuse_too_deep(name, value)
        record = cls._validated(plain)
        raw = record.model_dump(mode="json", by_alias=True, exclude_none=True)
        for name, key in cls._nested:
            if plain.get(key) is not None:
                raw[key] = plain[key]
            elif name in cls._or_default:
                raw.pop(key, None)
        record._bind(raw)
        return record

    def evolve(self, **changes: Any) -> Self:
        """Return this record with some fields changed and everything else untouched.

        A field set to None is removed. A field that was absent is placed in canonical order.
        """
        plain = {name: _plain(value) for name, value in changes.items()}
        for name, value in plain.items():
            _refuse_too_deep(name, value)
        return self._evolved(**plain)

    def _evolved(self, **changes: Any) -> Self:
        """Return the record with values that were in it before, however deep they nest."""
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

    def has(self, name: str) -> bool:
        """Return whether the JSON object has this field, even if it is damaged."""
        return self._raw.get(self._keys[name]) is not None

    @property
    def raw(self) -> dict[str, Any]:
        """Return the JSON object. Treat it as read-only."""
        return self._raw

    def dump(self) -> bytes:
        """Return the bytes of this record's own file."""
        return json_text.dumps(self._raw)

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


def _null_is_absent(value: Any) -> Any:
    if value is None:
        raise PydanticUseDefault
    return value


def _default_if_damaged(value: Any, read: ValidatorFunctionWrapHandler) -> Any:
    try:
        return read(value)
    except ValidationError:
        raise PydanticUseDefault from None


_NULL_IS_ABSENT = BeforeValidator(_null_is_absent)

OrDefault = Annotated[T, _NULL_IS_ABSENT]
"""A field that has its default if it is absent or null. The default is never written."""

OrAbsent = Annotated[T, WrapValidator(_default_if_damaged)]
"""A field that has its default if it is damaged, so that the rest of its record is usable."""


def default(value: T) -> T:
    """Return the default of a record's field: one shared value, because nobody changes it."""
    made: T = Field(default_factory=lambda: value)
    return made


def _holds_records(annotation: Any) -> bool:
    if isinstance(annotation, type) and issubclass(annotation, Wire):
        return True
    return any(_holds_records(part) for part in get_args(annotation))


def _refuse_too_deep(name: str, value: Any) -> None:
    if json_text.too_deep(value, _DEPTH_MAX):
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
