"""The native driver: Bullpen's own agent. It needs the extra `native`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from bullpen.agents.drivers.native.provider.options import SMALL_MODEL
from bullpen.agents.system.vendors.model_providers import provider_of
from bullpen.errors import Unavailable
from bullpen.protocol.agent import AgentSpec

if TYPE_CHECKING:
    from bullpen.agents.drivers.native.driver import Native

_EXTRA = {"genai_prices", "pydantic_ai"}


def make(spec: AgentSpec, env: Mapping[str, str], *, limits: Path | None = None) -> Native:
    """Create a native driver. Raises Unavailable if its model's library is not installed.

    `limits` is the folder in which all agents of this machine share their rate limits; by default
    it is in the home that the environment names.
    """
    try:
        from bullpen.agents.drivers.native.driver import Native
    except ImportError as error:
        # The model library raises its own error for a missing package; the cause names it.
        missing = error.name or getattr(error.__cause__, "name", None) or ""
        if missing.partition(".")[0] not in _EXTRA:
            raise
        raise Unavailable(
            f"The driver 'native' needs the package {missing}, which is not installed.",
            remedy="Run: pip install 'bullpen[native]'",
        ) from error
    for model in (spec.model, spec.options.get(SMALL_MODEL)):
        provider = provider_of(model)
        if provider is not None:
            provider.check_installed()
    return Native(spec, env, limits=limits)
