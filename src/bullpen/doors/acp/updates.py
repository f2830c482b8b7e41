"""What the client is told of a team, in our own words; `wire` turns it into the protocol's."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

CallStatus = Literal["pending", "in_progress", "completed", "failed"]
CallKind = Literal["read", "edit", "search", "execute", "fetch", "think", "switch_mode", "other"]
OptionKind = Literal["allow_once", "allow_always", "reject_once"]
StopReason = Literal["end_turn", "cancelled", "max_turn_requests"]


@dataclass(frozen=True, slots=True)
class Said:
    """Words: of the lead, of the person in a replay, or about the team."""

    text: str
    who: Literal["lead", "person", "team"] = "lead"


@dataclass(frozen=True, slots=True)
class FileChange:
    """A change of a file that a call makes; `old` is None for a file written as a whole."""

    path: str
    old: str | None
    new: str


@dataclass(frozen=True, slots=True)
class CallTold:
    """A tool call, or a task of a teammate, as the client shows it.

    `begins` says that the client has not heard of it before.
    """

    id: str
    begins: bool
    status: CallStatus
    title: str | None = None
    kind: CallKind | None = None
    # The name of the tool, with its server as `mcp__SERVER__TOOL`.
    tool: str | None = None
    input: Mapping[str, Any] | None = None
    text: str | None = None
    change: FileChange | None = None


@dataclass(frozen=True, slots=True)
class PlanStep:
    """A task, as a step of a plan."""

    text: str
    status: Literal["pending", "in_progress", "completed"]


@dataclass(frozen=True, slots=True)
class PlanTold:
    """The whole task list."""

    steps: tuple[PlanStep, ...]


@dataclass(frozen=True, slots=True)
class ModeTold:
    """The mode of the lead has changed."""

    mode: str


Update = Said | CallTold | PlanTold | ModeTold


@dataclass(frozen=True, slots=True)
class Choice:
    """One answer that the client can give."""

    id: str
    name: str
    kind: OptionKind


@dataclass(frozen=True, slots=True)
class Asked:
    """What the client is asked: about which call, and what it can answer."""

    call: CallTold
    choices: tuple[Choice, ...]


@dataclass(frozen=True, slots=True)
class Client:
    """The program at the other end, for one session.

    `ask` returns the id of the choice, or None if the client cancelled.
    """

    tell: Callable[[Update], Awaitable[None]]
    ask: Callable[[Asked], Awaitable[str | None]]


@dataclass(frozen=True, slots=True)
class ClientServer:
    """An MCP server that the client wants the agent to use."""

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
