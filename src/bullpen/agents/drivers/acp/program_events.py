"""What a program says and asks, as our own types. No type of the protocol gets past here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Protocol

from bullpen.protocol.agent import Usage


@dataclass(frozen=True, slots=True)
class TextSaid:
    """A piece of text. The pieces of one message have the same id, if the program sends ids."""

    text: str
    message: str | None = None


@dataclass(frozen=True, slots=True)
class Thought:
    """A piece of the model's thinking. Its text is not used."""


@dataclass(frozen=True, slots=True)
class Diff:
    """A change to a file that a call made or would make. `old` is None for a new file."""

    path: str
    old: str | None
    new: str


_STRICTNESS = {
    "think": 1,
    "read": 2,
    "search": 2,
    "fetch": 3,
    "edit": 4,
    "delete": 4,
    "move": 4,
    "execute": 5,
    "switch_mode": 6,
}
"""The kinds of calls, the stricter the higher. `other` says nothing about a call."""


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A tool call. `server` and `tool` are set only if the program names them, not the model."""

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
        """The call with later information, which overrides the earlier one where it is given."""
        told = {each.name: getattr(later, each.name) for each in fields(later)}
        # A question about a path is of another kind than the call that it is about.
        if _STRICTNESS.get(self.kind, 0) > _STRICTNESS.get(later.kind, 0):
            told["kind"] = self.kind
        return replace(self, **{name: value for name, value in told.items() if value})

    def cut(self, length_max: int) -> ToolUse:
        """The call with at most so much of its result."""
        if len(self.output) + sum(map(len, self.texts)) <= length_max:
            return self
        texts = ("\n".join(self.texts)[:length_max],) if self.texts else ()
        return replace(self, output=self.output[:length_max], texts=texts)

    @property
    def over(self) -> bool:
        """Whether it has ended, successfully or not."""
        return self.status in ("completed", "failed")


@dataclass(frozen=True, slots=True)
class RunBegan:
    """The program started to work on a prompt. Mail during the turn has to name this id."""

    run: str


@dataclass(frozen=True, slots=True)
class WorkBegan:
    """The program starts to work, on a prompt or by itself; a model request follows."""


@dataclass(frozen=True, slots=True)
class Broke:
    """The turn failed; the program's own messages, before or after this, say why."""


@dataclass(frozen=True, slots=True)
class ModeTold:
    """The program switched to this mode of its own."""

    mode: str


@dataclass(frozen=True, slots=True)
class UsageTold:
    """Usage that is reported during a turn: of a request, the context, the cost so far."""

    usage: Usage | None = None
    context: int | None = None
    cost_usd: float | None = None
    model: str | None = None
    window: int | None = None


Event = TextSaid | Thought | ToolUse | RunBegan | WorkBegan | Broke | ModeTold | UsageTold
"""Everything that a program reports in a session."""


@dataclass(frozen=True, slots=True)
class Option:
    """An answer that the program accepts to its question."""

    id: str
    kind: str


@dataclass(frozen=True, slots=True)
class PermissionAsked:
    """The program asks whether it may make a call."""

    use: ToolUse
    options: tuple[Option, ...]

    def option(self, kind: str) -> str | None:
        """The id of the option of this kind, if there is one."""
        return next((option.id for option in self.options if option.kind == kind), None)


@dataclass(frozen=True, slots=True)
class AuthMethod:
    """A way to log in. `by_hand` says that it needs a person at a terminal."""

    id: str
    name: str
    by_hand: bool = False


@dataclass(frozen=True, slots=True)
class Hello:
    """What the program says about itself at the start."""

    program: str
    loads: bool
    takes_system_text: bool
    auth: tuple[AuthMethod, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolServer:
    """An MCP server that the program starts and talks to over stdin and stdout."""

    name: str
    command: tuple[str, ...]
    env: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class AnswerChoice:
    """A setting of a session: its mode or its model."""

    value: str
    offered: tuple[str, ...]
    # The id of the option; None if the protocol has a separate method for it.
    option: str | None = None


@dataclass(frozen=True, slots=True)
class Opened:
    """A session as the program opened it."""

    session: str
    mode: AnswerChoice | None = None
    model: AnswerChoice | None = None


@dataclass(frozen=True, slots=True)
class PromptEnd:
    """How the work on a prompt ended. `models` are those that the program says it has used."""

    stop: str
    usage: Usage | None = None
    quota: Usage | None = None
    models: tuple[str, ...] = ()


class Listener(Protocol):
    """Receives what the program says."""

    def heard(self, session: str, event: Event) -> None:
        """Take an event. Called in the order in which the program sent them."""

    async def asked(self, session: str, asked: PermissionAsked) -> str | None:
        """The id of the answer to a question; None to answer that the turn is cancelled."""

    async def drained(self, session: str) -> Sequence[str]:
        """The mail for a program that asks for it between two calls."""

    def garbage(self, line: str) -> None:
        """Take a line that is not a message of the protocol."""


_AUTH_REQUIRED = -32000


class ProgramError(Exception):
    """The program answered a request with an error, or can answer nothing any more."""

    def __init__(self, words: str, *, gone: bool = False, code: int | None = None) -> None:
        super().__init__(words)
        self.words = words
        self.gone = gone
        self.code = code

    @property
    def wants_auth(self) -> bool:
        """Whether the program wants a login first."""
        return self.code == _AUTH_REQUIRED or (not self.gone and "auth" in self.words.lower())
