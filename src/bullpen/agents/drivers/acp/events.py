"""What a driven program says and asks, in our own words: no type of the protocol gets further."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from bullpen.protocol.agent import Usage


@dataclass(frozen=True, slots=True)
class Said:
    """A piece of what the model says, or the program itself: the id of the message tells which.

    Pieces of one message have one id, if the program tells it.
    """

    text: str
    message: str | None = None


@dataclass(frozen=True, slots=True)
class Thought:
    """A piece of what the model thinks."""

    text: str


@dataclass(frozen=True, slots=True)
class Diff:
    """A change of a file that a call would make or made. `old` is None for a new file."""

    path: str
    old: str | None
    new: str


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A tool call of the program, as far as it has told about it.

    `server` and `tool` are set only where the program itself says which server's tool it is; a
    title is text that a model may have chosen.
    """

    id: str
    title: str = ""
    kind: str = ""
    status: str = ""
    tool: str = ""
    server: str = ""
    input: Mapping[str, Any] = field(default_factory=dict)
    paths: tuple[str, ...] = ()
    diffs: tuple[Diff, ...] = ()
    texts: tuple[str, ...] = ()
    output: str = ""

    def updated(self, later: ToolUse) -> ToolUse:
        """With what was told later: that counts, and what it leaves out stays."""
        told = {name: value for name in _FIELDS if (value := getattr(later, name))}
        return replace(self, **told)

    @property
    def over(self) -> bool:
        """Whether it has ended, well or not."""
        return self.status in ("completed", "failed")


_FIELDS = (
    "title",
    "kind",
    "status",
    "tool",
    "server",
    "input",
    "paths",
    "diffs",
    "texts",
    "output",
)


@dataclass(frozen=True, slots=True)
class RunBegan:
    """The program has begun to work on a prompt; it wants this id back with mail in mid-turn."""

    run: str


@dataclass(frozen=True, slots=True)
class Broke:
    """The turn has failed; the program's own words, before or after this, say why."""


@dataclass(frozen=True, slots=True)
class ModeTold:
    """The program is in this mode of its own now."""

    mode: str


@dataclass(frozen=True, slots=True)
class UsageTold:
    """What the program says in between: what a request used, its context, the cost so far."""

    usage: Usage | None = None
    context: int | None = None
    cost_usd: float | None = None
    model: str | None = None
    window: int | None = None


Event = Said | Thought | ToolUse | RunBegan | Broke | ModeTold | UsageTold
"""Everything that a program tells in a session."""


@dataclass(frozen=True, slots=True)
class Option:
    """An answer that the program would take to its question."""

    id: str
    kind: str


@dataclass(frozen=True, slots=True)
class Asked:
    """The program asks whether it may make a call."""

    use: ToolUse
    options: tuple[Option, ...]

    def option(self, kind: str) -> str | None:
        """The id of the answer of this kind, if there is one."""
        return next((option.id for option in self.options if option.kind == kind), None)


@dataclass(frozen=True, slots=True)
class Hello:
    """What the program says about itself at the start."""

    program: str
    loads: bool
    steers: bool
    takes_system_text: bool


@dataclass(frozen=True, slots=True)
class ToolServer:
    """An MCP server that the program starts itself, to talk to it over stdin and stdout."""

    name: str
    command: tuple[str, ...]
    env: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Choice:
    """Something that can be set for a session: its mode, its model."""

    value: str
    offered: tuple[str, ...]
    # The id of the option; None where the protocol has a method of its own for it.
    option: str | None = None


@dataclass(frozen=True, slots=True)
class Opened:
    """A session as the program opened it."""

    session: str
    mode: Choice | None = None
    model: Choice | None = None


@dataclass(frozen=True, slots=True)
class PromptEnd:
    """How the work on a prompt ended. `models` are those that the program says it has used."""

    stop: str
    usage: Usage | None = None
    quota: Usage | None = None
    models: tuple[str, ...] = ()


class Listener(Protocol):
    """Who hears what the program says."""

    def heard(self, session: str, event: Event) -> None:
        """Hear something. It is called in the order in which the program said it."""

    async def asked(self, session: str, asked: Asked) -> str | None:
        """The id of the answer to a question; None to answer that the turn is cancelled."""

    async def drained(self, session: str) -> Sequence[str]:
        """The mail for a program that asks for it between two calls."""

    def garbage(self, line: str) -> None:
        """Hear a line that is no message of the protocol."""


class ProgramError(Exception):
    """The program answered a request with an error, or can answer nothing any more."""

    def __init__(self, words: str, *, gone: bool = False, unknown: bool = False) -> None:
        super().__init__(words)
        self.words = words
        self.gone = gone
        # It does not know the method.
        self.unknown = unknown
