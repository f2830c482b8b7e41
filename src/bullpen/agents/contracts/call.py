"""A tool call before it is made, and the decision about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bullpen.protocol import json_text, names
from bullpen.protocol.policy import Mode
from bullpen.team.requests.mode_rules import Effect, Kind

_DETAIL_FIELDS = (
    "command",
    "file_path",
    "notebook_path",
    "pattern",
    "url",
    "query",
    "subject",
    "summary",
    "taskId",
    "name",
    "bash_id",
    "shell_id",
    "to",
    "skill",
    "recipient",
    "reason",
)
_DETAIL_CHARS_MAX = 79
_STRICTNESS: tuple[Effect, ...] = ("allow", "ask", "deny")


@dataclass(frozen=True, slots=True)
class Call:
    """A call that a model wants to make. `use_id` is the model's id for it.

    `real` is the real path of its file, for a tool that will open exactly that file. `limits` also
    decides about it, besides the agent's rights: it is the call of a subagent.
    """

    tool: str
    input: Mapping[str, Any]
    kind: Kind
    use_id: str | None = None
    real: str | None = None
    limits: Callable[[Call], Ruling] | None = field(default=None, compare=False, repr=False)

    @property
    def detail(self) -> str:
        """What the call is about, on one short line."""
        for name in _DETAIL_FIELDS:
            value = self.input.get(name)
            if isinstance(value, str) and value.strip():
                line = " ".join(value.split())
                return line if len(line) <= _DETAIL_CHARS_MAX else f"{line[:_DETAIL_CHARS_MAX]}…"
        return ""

    @property
    def opens(self) -> str | None:
        """The path of the one file that a file tool opens, as the call names it."""
        given = self.input.get("notebook_path" if self.tool == "NotebookEdit" else "file_path")
        return given if isinstance(given, str) else None

    @property
    def digest(self) -> str:
        """A hash that identifies the call: an answer is valid only for this call."""
        return names.input_digest(self.tool, json_text.dumps_line(dict(self.input)))

    def __str__(self) -> str:
        return f"{self.tool} {self.detail}".rstrip()


@dataclass(frozen=True, slots=True)
class CommandEnvironment:
    """What an agent's commands start with: where programs are searched, and which variables."""

    path: str
    variables: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Rights:
    """Everything that decides about the calls of one agent at the moment.

    `tools` are the tools it was given by name, perhaps only in part: `Bash(git:*)`. `readable`
    directories, as real paths, may be read besides those it works in. No file tool may change
    `private` directories, in any mode: they hold the teams. `memory` directories, as real paths,
    hold the agent's own notes, which it may read and change unasked, also in a private or guarded
    place. `commands` is known if Bullpen runs its commands itself, each in a new shell in `cwd`:
    then those that only read need no approval.
    """

    mode: Mode
    cwd: str
    user_home: str
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    directories: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()
    private: tuple[str, ...] = ()
    memory: tuple[str, ...] = ()
    tools: tuple[str, ...] | None = None
    commands: CommandEnvironment | None = None


@dataclass(frozen=True, slots=True)
class AlwaysChoice:
    """One thing that "always" could allow: its name, what it covers, and the rules.

    `plain` is the one that is meant if nobody chooses.
    """

    name: str
    covers: str
    suggestions: tuple[dict[str, Any], ...]
    plain: bool = False

    @property
    def record(self) -> dict[str, Any]:
        """The choice as a request has it."""
        return {
            "name": self.name,
            "covers": self.covers,
            "suggestions": [dict(row) for row in self.suggestions],
        }


@dataclass(frozen=True, slots=True)
class Ruling:
    """The decision about a call: the effect, the reason, and the rule that decided.

    `choices` are what "always" could allow, from narrow to wide.
    """

    effect: Effect
    why: str
    rule: str | None = None
    choices: tuple[AlwaysChoice, ...] = field(default=())

    @property
    def suggestions(self) -> tuple[dict[str, Any], ...]:
        """What a plain "always" would allow, in Claude Code's format."""
        return next((each.suggestions for each in self.choices if each.plain), ())

    def or_stricter(self, other: Ruling) -> Ruling:
        """Return the ruling that allows less; this one if both allow the same."""
        return max(self, other, key=lambda ruling: _STRICTNESS.index(ruling.effect))
