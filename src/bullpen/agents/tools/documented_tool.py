"""Make a tool of a function whose docstring is the description that models read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from bullpen.agents.contracts.tool import Tool, ToolInput
from bullpen.team.requests.mode_rules import Kind

D = TypeVar("D")


def documented(
    name: str,
    given: type[ToolInput],
    kind: Kind,
    run: Callable[[Any, D], Awaitable[str]],
    *,
    deferred: bool = False,
) -> Tool[D]:
    """A tool that is described by the docstring of `run`. Models search for a `deferred` one."""
    if not run.__doc__:
        raise TypeError(f"The tool {name} has no description: python -OO removes docstrings.")
    return Tool(name, " ".join(run.__doc__.split()), given, kind, run, deferred)
