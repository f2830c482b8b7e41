"""The base class of all records: a typed, frozen view of a JSON object."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    NoReturn,
    Self,
    TypeVar,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from bullpen.protocol import json_text
from bullpen.protocol.record.readers import (
    ABSENT,
    NULL_IS_ABSENT,
    Read,
    Readable,
    Wrong,
    in_bounds,
    long_enough,
    reader,
    refuse,
)

T = TypeVar("T")

_DEPTH_MAX = json_text.DEPTH_MAX - 20
"""How deep a value in a record may nest: files contain records some levels deeper."""

_LISTS = (list, tuple)
_NUMBERS = (int, float)


class _Field:
    """What a class says about one of its fields besides its type."""

    def __init__(
        self,
        default: Any = ABSENT,
        make_default: Callable[[], Any] | None = None,
        *,
        key: str | None = None,
        other_key: str | None = None,
        checked: Callable[[Read], Read] | None = None,
    ) -> None:
        self.default = default
        self.make_default = make_default
        self.key = key
        self.other_key = other_key
        self.checked = checked


def field(
    *,
    default: Any = ABSENT,
    default_factory: Callable[[], Any] | None = None,
    key: str | None = None,
    other_key: str | None = None,
    min_length: int | None = None,
    gt: float | None = None,
    ge: float | None = None,
    le: float | None = None,
    finite: bool = False,
) -> Any:
    """Describe a field of a record: its default, its key if it is not the camel case of its name,
    another key that it is read from, and what its value must be.
    """
    checked: Callable[[Read], Read] | None = None
    if min_length is not None:
        checked = partial(long_enough, min_length=min_length)
    elif finite or (gt, ge, le) != (None, None, None):
        checked = partial(in_bounds, gt=gt, ge=ge, le=le, finite=finite)
    return _Field(default, default_factory, key=key, other_key=other_key, checked=checked)


class _Shared:
    """A default that is made when it is first looked at, and then shared."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._made: Any = ABSENT

    def __get__(self, record: object, owner: type) -> Any:
        if self._made is ABSENT:
            self._made = self._make()
        return self._made


_Row = tuple[str, str, type | None, Read, Callable[[], Any] | None]
"""How one field is read: its name, its key, the type whose values need not be read, how all others
are read, and what makes its default if that is not the attribute of the class.
"""


class _Shape:
    """How a class of records is read. Made when its first record is."""

    def __init__(self, cls: type[Wire]) -> None:
        hints = get_type_hints(cls, include_extras=True)
        fields = {name: hint for name, hint in hints.items() if get_origin(hint) is not ClassVar}
        self.rows = [_row(name, hint, cls._fields[name]) for name, hint in fields.items()]
        self.keys = {name: key for name, key, *_ in self.rows}
        self.other_keys = {
            self.keys[name]: about.other_key
            for name, about in cls._fields.items()
            if about.other_key is not None
        }
        self.holds_records = {name for name, hint in fields.items() if _holds_records(hint)}
        self.or_default = {
            name for name, hint in fields.items() if NULL_IS_ABSENT in get_args(hint)[1:]
        }

    def by_own_keys(self, raw: dict[str, Any]) -> dict[str, Any]:
        """Return an object with the values of other keys under the fields' own."""
        found = {key: raw[other] for key, other in self.other_keys.items() if other in raw}
        return {**found, **raw}

    def other_key(self, key: str, raw: dict[str, Any]) -> str:
        """Return the key that a field was read from, if it was not its own."""
        other = self.other_keys.get(key)
        return other if other in raw else key


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
class Wire(Readable):
    """A record whose JSON object is the truth and whose fields are a typed view of it.

    Unknown fields, their order and their exact values survive every rewrite, because a change
    creates a new JSON object from the old one and never rebuilds it from the fields. A field can be
    a record itself: it is parsed together with its owner and has its own part of the JSON object.

    A field that is absent has its default: the attribute of the class.
    """

    if TYPE_CHECKING:
        _raw: dict[str, Any]
    _fields: ClassVar[dict[str, _Field]] = {}
    _own_shape: ClassVar[_Shape | None] = None

    def __init_subclass__(cls) -> None:
        cls._own_shape = None
        cls._fields = dict(cls._fields)
        for name, hint in cls.__annotations__.items():
            if str(hint).startswith("ClassVar"):
                continue
            given = cls.__dict__.get(name, ABSENT)
            about = given if isinstance(given, _Field) else _Field(given)
            cls._fields[name] = about
            if about.make_default is not None:
                setattr(cls, name, about.make_default())
            elif about.default is not ABSENT:
                setattr(cls, name, about.default)
            elif given is not ABSENT:
                delattr(cls, name)

    @classmethod
    def _shape(cls) -> _Shape:
        found = cls._own_shape
        if found is None:
            found = cls._own_shape = _Shape(cls)
        return found

    @classmethod
    def field_keys(cls) -> Mapping[str, str]:
        """Return the key of every field in the JSON object by its name, in canonical order."""
        return cls._shape().keys

    @classmethod
    def parse(cls, raw: Any) -> Self:
        """Parse `raw` as this record. Raises ValueError with the name of the wrong field."""
        if not isinstance(raw, dict):
            raise ValueError(f"expected an object, found {type(raw).__name__}")
        try:
            return cls.read_part(raw)
        except Wrong as wrong:
            raise ValueError(str(wrong)) from None

    @classmethod
    def read_part(cls, raw: dict[str, Any]) -> Self:
        """Return the record with its fields, each record in it with its own part of `raw`."""
        shape = cls._own_shape or cls._shape()
        record = cls.__new__(cls)
        fields = record.__dict__
        fields["_raw"] = raw
        find = shape.by_own_keys(raw).get if shape.other_keys else raw.get
        key = ""
        try:
            for name, key, kind, read, make_default in shape.rows:
                value = find(key, ABSENT)
                if type(value) is kind or (
                    value is not ABSENT and (value := read(value)) is not ABSENT
                ):
                    fields[name] = value
                elif make_default is not None:
                    fields[name] = make_default()
        except Wrong as wrong:
            wrong.path.append(key if key in raw else shape.other_key(key, raw))
            raise
        return record

    @classmethod
    def new(cls, **fields: Any) -> Self:
        """Create a record in canonical field order, without None. Raises ValueError."""
        shape = cls._shape()
        plain = {shape.keys.get(name, name): _plain(value) for name, value in fields.items()}
        for name, value in plain.items():
            _refuse_too_deep(name, value)
        record = cls.parse(plain)
        raw: dict[str, Any] = {}
        for name, key in shape.keys.items():
            if name in shape.holds_records and plain.get(key) is not None:
                raw[key] = plain[key]
            elif name not in shape.or_default:
                value = getattr(record, name)
                if value is not None:
                    raw[key] = value if type(value) is float else _json_value(key, value)
        record.__dict__.update(_raw=raw, _stated=frozenset(fields))
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
        keys = self.field_keys()
        raw = dict(self._raw)
        for name, value in changes.items():
            key = keys[name]
            if value is None:
                raw.pop(key, None)
            elif key in raw:
                raw[key] = _plain(value)
            else:
                raw = self._inserted(raw, key, _plain(value))
        return type(self).parse(raw)

    @classmethod
    def _inserted(cls, raw: dict[str, Any], key: str, value: Any) -> dict[str, Any]:
        order = list(cls.field_keys().values())
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
        return self._raw.get(self.field_keys()[name]) is not None

    @property
    def stated_fields(self) -> frozenset[str]:
        """Return the names of the fields that `new` was given, or that the JSON object has."""
        stated: frozenset[str] | None = self.__dict__.get("_stated")
        if stated is None:
            stated = frozenset(name for name, key in self.field_keys().items() if key in self._raw)
        return stated

    @property
    def raw(self) -> dict[str, Any]:
        """Return the JSON object. Treat it as read-only."""
        return self._raw

    def dump(self) -> bytes:
        """Return the bytes of this record's own file."""
        return json_text.dumps(self._raw)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is frozen: use evolve to change {name}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is frozen: use evolve to remove {name}")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._raw!r})"

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


def default(make: Callable[[], T]) -> T:
    """Return the default of a record's field: one shared value, because nobody changes it."""
    made: T = field(default=_Shared(make))
    return made


def camel(name: str) -> str:
    """Return the camel case of a name in snake case, as keys of JSON objects are written."""
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def _row(name: str, hint: Any, about: _Field) -> _Row:
    kind, read = reader(hint)
    if about.checked is not None:
        kind, read = None, about.checked(read)
    made = about.make_default or (_required if about.default is ABSENT else None)
    return name, about.key or camel(name), kind, read, made


def _required() -> NoReturn:
    refuse("Field required")


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
    if isinstance(value, _LISTS):
        return [_plain(item) for item in value]
    return value


def _json_value(key: str, value: Any) -> Any:
    """Return a copy of a value as JSON has it: a number that JSON cannot represent is null."""
    if isinstance(value, str) or value is None:
        return value
    if isinstance(value, dict):
        return {str(name): _json_value(key, item) for name, item in value.items()}
    if isinstance(value, _LISTS):
        return [_json_value(key, item) for item in value]
    if not isinstance(value, _NUMBERS):
        raise ValueError(f"{key}: {type(value).__name__} is not a type of JSON")
    return None if isinstance(value, float) and not math.isfinite(value) else value
