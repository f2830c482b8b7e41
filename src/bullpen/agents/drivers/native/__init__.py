"""The native driver: our own agent on a model library. It needs the extra `native`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from bullpen.errors import Unavailable
from bullpen.protocol.agent import AgentSpec

if TYPE_CHECKING:
    from bullpen.agents.drivers.native.driver import Native

_EXTRA = {"anthropic", "genai_prices", "openai", "pydantic_ai"}


def make(spec: AgentSpec, env: Mapping[str, str], *, limits: Path | None = None) -> Native:
    """A native driver for one agent, with keys and addresses from this environment only.

    `limits` is where the limiters of all agents of this machine live; without it, they live in the
    home that the environment names.

    Raises:
        Unavailable: the model library is not installed.
    """
    try:
        from bullpen.agents.drivers.native.driver import Native
    except ImportError as error:
        # The model library reports what it lacks in words, with the real error behind them.
        missing = error.name or getattr(error.__cause__, "name", None) or ""
        if missing.partition(".")[0] not in _EXTRA:
            raise
        raise Unavailable(
            f"The native driver needs the package {missing}, which is not installed.",
            remedy="Run: pip install 'bullpen[native]'",
        ) from error
    return Native(spec, env, limits=limits)
