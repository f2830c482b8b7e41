"""The native driver: Bullpen's own agent. It needs the extra `native`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from bullpen.agents.drivers.native.model_choice import choose
from bullpen.agents.drivers.native.provider.options import SMALL_MODEL
from bullpen.agents.system.vendors.model_providers import Api, provider_of
from bullpen.errors import BullpenError, Unavailable
from bullpen.protocol.agent import AgentSpec

if TYPE_CHECKING:
    from bullpen.agents.drivers.native.driver import Native

_EXTRA = ("genai_prices", "pydantic_ai")
_EVERY_MODEL = (f"{__name__}.driver", "genai_prices.data", "genai_prices.decompose", "yaml")

_REHEARSALS: dict[Api, str] = {
    "anthropic": f"{__name__}.provider.rehearsal:anthropic",
    "openai-chat": f"{__name__}.provider.rehearsal:chat",
}
_LIBRARIES: dict[Api, tuple[str, ...]] = {
    "anthropic": ("models.anthropic", "providers.anthropic"),
    "openai": ("models.openai", "providers.openai"),
    "openai-chat": ("models.openai", "providers.openai"),
    "azure": ("models.openai", "providers.azure"),
    "google": ("models.google", "providers.google"),
    "vertex": ("models.google", "providers.google_cloud"),
    "bedrock": ("models.bedrock", "providers.bedrock"),
}
"""What speaks each API, in the library pydantic_ai."""


def check_installed(spec: AgentSpec | None = None) -> None:
    """Check that the model libraries are installed, without importing them: that takes seconds.

    With a spec, those of its models too. Raises Unavailable.
    """
    if any(find_spec(name) is None for name in _EXTRA):
        raise Unavailable(
            "The driver 'native' needs the extra 'native', which is not installed completely.",
            remedy="Run: pip install 'bullpen[native]'",
        )
    for model in () if spec is None else (spec.model, spec.options.get(SMALL_MODEL)):
        provider = provider_of(model)
        if provider is not None:
            provider.check_installed()


def modules_of(spec: AgentSpec, env: Mapping[str, str]) -> tuple[str, ...]:
    """What the process of an agent imports: the driver, and the library of its model."""
    try:
        api = choose(spec.model, env).provider.api
    except BullpenError:
        # The agent itself says which key or address is missing.
        return _EVERY_MODEL
    rehearsal = (_REHEARSALS[api],) if api in _REHEARSALS else ()
    return (*_EVERY_MODEL, *(f"pydantic_ai.{name}" for name in _LIBRARIES[api]), *rehearsal)


def make(spec: AgentSpec, env: Mapping[str, str], *, limits: Path | None = None) -> Native:
    """Create a native driver. Raises Unavailable if its model's library is not installed.

    `limits` is the folder in which all agents of this machine share their rate limits; by default
    it is in the home that the environment names.
    """
    check_installed(spec)
    from bullpen.agents.drivers.native.driver import Native

    return Native(spec, env, limits=limits)
