"""The tool contract. One set of tools serves every driver that Bullpen gives tools to."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import BaseModel, ConfigDict

from bullpen.team.requests.mode_rules import Kind

D_contra = TypeVar("D_contra", contravariant=True)
"""The part of the desk that a tool needs."""


class ToolInput(BaseModel):
    """The input of a tool, with the field names that models know. Other fields are refused.

    `sent_as` has shorter schemas for fields, by the names that models know. None is for a field
    that is accepted, but that models are not told of.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    sent_as: ClassVar[Mapping[str, Mapping[str, Any] | None]] = {}


@dataclass(frozen=True, slots=True)
class Attachment:
    """An image or a PDF in a tool's result. A model that cannot see it reads `instead`."""

    name: str
    media_type: str
    data: bytes = field(repr=False)
    instead: str

    @property
    def digest(self) -> str:
        """The SHA-256 of its bytes."""
        return hashlib.sha256(self.data).hexdigest()


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The text for the model, and what it is shown besides."""

    text: str
    attachments: tuple[Attachment, ...] = ()


@dataclass(frozen=True, slots=True)
class Tool(Generic[D_contra]):
    """A tool. The model sees its name, description and input schema; `run` does the work.

    `run` returns the text for the model, or a ToolResult. A BullpenError becomes an error for the
    model, with its remedy. The second argument of `run` is the part of the desk that it needs: a
    `Tool[Identity]` also serves a desk with more parts. A `deferred` tool is shown to a model only
    after the model has searched for it, with those of its `group`; it can always be called.

    A tool that `asks_itself` amounts to several calls: it is judged by its name, and its `run` asks
    the gate about each of the calls and tells hooks about each.
    """

    name: str
    description: str
    input: type[ToolInput]
    kind: Kind
    run: Callable[[Any, D_contra], Awaitable[str | ToolResult]]
    deferred: bool = False
    # The server that it belongs to, as its name begins.
    group: str | None = None
    asks_itself: bool = False
