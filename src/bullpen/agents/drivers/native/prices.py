"""The price of a request. Imports only the price library, which loads quickly."""

from __future__ import annotations

import genai_prices

from bullpen.agents.drivers.native.model_choice import Api, ModelChoice
from bullpen.protocol.agent import Usage

_PROVIDERS: dict[Api, str] = {"anthropic": "anthropic", "openai": "openai", "openai-chat": "openai"}


def price(choice: ModelChoice, used: Usage) -> float | None:
    """The price in dollars; None if it is not known."""
    tokens = genai_prices.Usage(
        input_tokens=used.input_tokens + used.cache_read_tokens + used.cache_write_tokens,
        cache_read_tokens=used.cache_read_tokens,
        cache_write_tokens=used.cache_write_tokens,
        output_tokens=used.output_tokens,
    )
    try:
        found = genai_prices.calc_price(
            tokens, model_ref=choice.model, provider_id=_PROVIDERS[choice.api]
        )
    except (LookupError, ValueError, AssertionError):
        return None
    return float(found.total_price)
