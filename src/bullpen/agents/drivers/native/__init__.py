"""The native driver: Bullpen's own agent. It needs the extra `native`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from bullpen.errors import Unavailable
from bullpen.protocol.agent import AgentSpec

if TYPE_CHECKING:
    from bullpen.agents.drivers.native.driver import Native

_EXTRA = ("anthropic", "genai_prices", "openai", "pydantic_ai")


def check_installed() -> None:
    """Check that the model libraries are installed, without importing them: that takes seconds.

    Raises Unavailable.
    """
    missing = next((name for name in _EXTRA if find_spec(name) is None), None)
    if missing is not None:
        raise Unavailable(
            f"The driver 'native' needs the package {missing}, which is not installed.",
            remedy="Run: pip install 'bullpen[native]'",
        )


def make(spec: AgentSpec, env: Mapping[str, str], *, limits: Path | None = None) -> Native:
    """Create a native driver. Raises Unavailable if a model library is not installed.

    `limits` is the folder in which all agents of this machine share their rate limits; by default
    it is in the home that the environment names.
    """
    check_installed()
    from bullpen.agents.drivers.native.driver import Native

    return Native(spec, env, limits=limits)
