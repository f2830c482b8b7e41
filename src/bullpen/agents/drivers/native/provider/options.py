"""What is known of a model besides its name: window, longest answer, prices. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from bullpen.errors import Invalid
from bullpen.protocol.agent import Usage

STRICT_MODEL = "strict_model"
"""The option of a spec: end the agent if the API answers with another model's name."""

SMALL_MODEL = "small_model"
"""The option of a spec that names the model for summaries."""

SMALL_MODEL_OPTIONS = "small_model_options"
"""The option of a spec with what was set for that model."""

_MILLION = 1_000_000
_COUNTS = ("context_window", "max_output")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions:
    """What was set for a model, or what its server tells. None: not known."""

    context_window: int | None = None
    max_output: int | None = None
    # Dollars for a million tokens.
    input_price: float | None = None
    output_price: float | None = None
    cache_read_price: float | None = None
    cache_write_price: float | None = None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> ModelOptions:
        """The options among others, as a spec has them. Raises Invalid."""
        found: dict[str, Any] = {}
        for name in NAMES:
            value = given.get(name)
            if value is None:
                continue
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if name in _COUNTS and not (number and isinstance(value, int) and value > 0):
                raise Invalid(
                    f"The {name.replace('_', ' ')} {value!r} is not a number of tokens.",
                    remedy="Give a whole number.",
                )
            if name not in _COUNTS and not (number and 0 <= value < float("inf")):
                raise Invalid(
                    f"The {name.replace('_', ' ')} {value!r} is not a price.",
                    remedy="Give dollars for a million tokens, such as 0.25.",
                )
            found[name] = value
        made = cls(**found)
        if (made.input_price is None) != (made.output_price is None):
            raise Invalid(
                "A model needs both an input_price and an output_price, or neither.",
                remedy="Set both; a price may be 0.",
            )
        return made

    @classmethod
    def parse(cls, words: list[str]) -> ModelOptions:
        """The options in words such as `context_window=32768`. Raises Invalid."""
        given: dict[str, Any] = {}
        for word in words:
            name, equals, text = word.partition("=")
            if not equals or name not in NAMES:
                raise Invalid(
                    f"There is no model option {word!r}.",
                    remedy=f"Write NAME=NUMBER, with one of these: {', '.join(NAMES)}.",
                )
            try:
                given[name] = int(text) if name in _COUNTS else float(text)
            except ValueError:
                given[name] = text
        return cls.of(given)

    @property
    def stated(self) -> dict[str, Any]:
        """What is known, as a spec has it."""
        values = ((name, getattr(self, name)) for name in NAMES)
        return {name: value for name, value in values if value is not None}

    def over(self, other: ModelOptions) -> ModelOptions:
        """These options, completed by others."""
        return replace(other, **self.stated)

    def price(self, used: Usage) -> float | None:
        """The price of a request by these options; None if they do not have one."""
        if self.input_price is None or self.output_price is None:
            return None
        read = self.input_price if self.cache_read_price is None else self.cache_read_price
        write = self.input_price if self.cache_write_price is None else self.cache_write_price
        return (
            used.input_tokens * self.input_price
            + used.output_tokens * self.output_price
            + used.cache_read_tokens * read
            + used.cache_write_tokens * write
        ) / _MILLION


NAMES = tuple(each.name for each in fields(ModelOptions))
"""The names of all options."""
