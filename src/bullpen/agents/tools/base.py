"""What a tool is. One set of tools serves every driver that we give tools to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict

from bullpen.agents.drivers.base import Desk
from bullpen.team.policy_rules import Kind


class ToolInput(BaseModel):
    """The input of a tool, by the names that models know. What is not a field is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool: its name and input schema are what the model sees; `run` does it.

    `run` returns the text for the model. It raises a BullpenError for what the model must be told
    as an error: its text and remedy are the answer.
    """

    name: str
    description: str
    input: type[ToolInput]
    kind: Kind
    run: Callable[[Any, Desk], Awaitable[str]]
