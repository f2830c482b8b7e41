"""The price of a request. Imports only the price library, which loads quickly."""

from __future__ import annotations

import genai_prices

from bullpen.agents.drivers.native.model_choice import ModelChoice
from bullpen.agents.drivers.native.provider.options import ModelOptions
from bullpen.errors import Invalid
from bullpen.protocol.agent import Usage


def price(
    choice: ModelChoice,
    used: Usage,
    *,
    answered: str | None = None,
    options: ModelOptions = ModelOptions(),  # noqa: B008 - frozen
    searches: int = 0,
) -> float | None:
    """The price in dollars, with that of searches by the API; None if it is not known.

    A price that was set counts. Otherwise it is that of the model which answered, if that is known,
    or else that of the model which was asked for.
    """
    if (told := options.price(used)) is not None:
        return told
    names = dict.fromkeys(name for name in (answered, choice.model) if name)
    for name in names:
        if (found := _known(choice, name, used, searches)) is not None:
            return found
    return None


def check_price(choice: ModelChoice, options: ModelOptions) -> None:
    """Refuse a model whose price is not known. Raises Invalid."""
    if price(choice, Usage.new(input_tokens=1, output_tokens=1), options=options) is None:
        raise Invalid(
            f"A budget in money cannot be enforced for the model {choice}: its price is not known.",
            remedy="Set its prices, give a budget in tokens instead, or choose another model.",
        )


def _known(choice: ModelChoice, name: str, used: Usage, searches: int) -> float | None:
    tokens = genai_prices.Usage(
        input_tokens=used.input_tokens + used.cache_read_tokens + used.cache_write_tokens,
        cache_read_tokens=used.cache_read_tokens,
        cache_write_tokens=used.cache_write_tokens,
        output_tokens=used.output_tokens,
        **({"web_searches": searches} if searches else {}),
    )
    try:
        found = genai_prices.calc_price(tokens, model_ref=name, provider_id=choice.provider.prices)
    except (LookupError, ValueError, AssertionError):
        return None
    return float(found.total_price)
