"""A tool call before it is made, and what is decided about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bullpen.protocol import jsontext, names
from bullpen.protocol.policy import Mode
from bullpen.team.policy_rules import Effect, Kind

_DETAIL_FIELDS = (
    "command",
    "file_path",
    "pattern",
    "subject",
    "summary",
    "taskId",
    "name",
    "bash_id",
    "shell_id",
    "to",
    "recipient",
    "reason",
)
_DETAIL_CHARS_MAX = 79


@dataclass(frozen=True, slots=True)
class Call:
    """A call that a model wants to make. `use_id` is the model's own name for it.

    `real` is where the file that it names really lies, for a tool that will open exactly that.
    """

    tool: str
    input: Mapping[str, Any]
    kind: Kind
    use_id: str | None = None
    real: str | None = None

    @property
    def detail(self) -> str:
        """What it is about, on one short line."""
        for name in _DETAIL_FIELDS:
            value = self.input.get(name)
            if isinstance(value, str) and value.strip():
                line = " ".join(value.split())
                return line if len(line) <= _DETAIL_CHARS_MAX else f"{line[:_DETAIL_CHARS_MAX]}…"
        return ""

    @property
    def digest(self) -> str:
        """What tells it from every other call: an answer holds for this only."""
        return names.input_digest(self.tool, jsontext.dumps_line(dict(self.input)))

    def __str__(self) -> str:
        return f"{self.tool} {self.detail}".rstrip()


@dataclass(frozen=True, slots=True)
class Rights:
    """Everything that decides about the calls of one agent, as it stands now.

    `tools` are the tools it was given by name, some perhaps only in part: `Bash(git:*)`.
    `readable` are directories that may be read beside those it works in: its own folder.
    `private` are directories that no file tool may change, in no mode: those of the teams.
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
    tools: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Ruling:
    """What is decided about a call: the effect, why in a sentence, and by which rule.

    `suggestions` are what an "always" would allow, in the form of Claude Code.
    """

    effect: Effect
    why: str
    rule: str | None = None
    suggestions: tuple[dict[str, Any], ...] = field(default=())
