"""The tool contract. One set of tools serves every driver that Bullpen gives tools to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict

from bullpen.team.requests.mode_rules import Kind

D_contra = TypeVar("D_contra", contravariant=True)
"""The part of the desk that a tool needs."""


class ToolInput(BaseModel):
    """The input of a tool, with the field names that models know. Other fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


@dataclass(frozen=True, slots=True)
class Tool(Generic[D_contra]):
    """A tool. The model sees its name, description and input schema; `run` does the work.

    `run` returns the text for the model. A BullpenError becomes an error for the model, with its
    remedy. The second argument of `run` is the part of the desk that it needs: a `Tool[Identity]`
    also serves a desk with more parts. A `deferred` tool is shown to a model only after the model
    has searched for it, with those of its `group`; it can always be called.
    """

    name: str
    description: str
    input: type[ToolInput]
    kind: Kind
    run: Callable[[Any, D_contra], Awaitable[str]]
    deferred: bool = False
    # The server that it belongs to, as its name begins.
    group: str | None = None
