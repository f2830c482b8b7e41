"""The script file: what scripted agents do in their turns, in TOML.

    [[agents.alice.turns]]
    when = "mail"
    from = "team-lead"
    steps = [
      {tool = "TaskUpdate", input = {taskId = "{task:parser}", status = "in_progress"}},
      {say = "I take task {task}."},
    ]

The turns of an agent are tried in order. The first that matches is played, only once unless
`repeat` is true. Texts may contain the placeholders in `PLACEHOLDERS`; `{{name}}` is the literal
text `{name}`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from bullpen.errors import Unreadable

PLACEHOLDERS = (
    "agent",
    "team",
    "task",
    "task:Part of a subject",
    "subject",
    "mail",
    "request",
    "cwd",
)
"""The names that texts may contain in braces."""

PLACEHOLDER = re.compile(r"\{(\{)?(?P<name>task(?=:)|[a-z_]+(?!:))(?::(?P<of>[^{}]*))?\}(?(1)\})")
"""A placeholder, or a literal one in double braces. Code such as `{a: 1}` does not match."""

_REMEDY = "Fix the script, then start the agent again."


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class UsageStep(_Strict):
    """The usage to report for the turn so far."""

    input_tokens: int = Field(default=0, ge=0)
    output_tokens: int = Field(default=0, ge=0)
    cache_read_tokens: int = Field(default=0, ge=0)
    cache_write_tokens: int = Field(default=0, ge=0)
    cost_usd: float = Field(default=0.0, ge=0)
    unpriced: int = Field(default=0, ge=0)


class WaitMail(_Strict):
    """Mail to wait for, from anyone if `from` is not set. The turn fails after `seconds`."""

    sender: str | None = Field(default=None, alias="from")
    contains: str | None = None
    seconds: float = Field(default=30.0, gt=0)


class ScriptStep(_Strict):
    """One action: exactly one field, besides `input` and `may_fail`, which belong to `tool`."""

    tool: str | None = None
    input: dict[str, Any] | None = None
    may_fail: bool = False
    say: str | None = None
    sleep: float | None = Field(default=None, ge=0)
    hang: Literal[True] | None = None
    fail: str | None = None
    usage: UsageStep | None = None
    wait_mail: WaitMail | None = None
    # End the process at once: with an exit code, or by a signal to itself.
    exit: int | None = Field(default=None, ge=0, le=255)
    kill: int | None = Field(default=None, ge=1, le=64)

    @model_validator(mode="after")
    def _is_one_thing(self) -> Self:
        things = sorted(self.model_fields_set - {"input", "may_fail"})
        if len(things) != 1:
            found = ", ".join(things) or "nothing"
            raise ValueError(f"a step needs exactly one action; found {found}")
        if self.tool is None and len(self.model_fields_set) > 1:
            raise ValueError("`input` and `may_fail` need `tool` in the same step")
        return self

    @field_validator("input", "say", "fail")
    @classmethod
    def _only_known_placeholders(cls, value: Any) -> Any:
        for text in texts(value):
            for found in PLACEHOLDER.finditer(text):
                of = found["of"]
                if not (found[1] or (found["name"] in PLACEHOLDERS and (of is None or of.strip()))):
                    known = ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
                    raise ValueError(
                        f"there is no placeholder {found[0]}, only {known}; "
                        f"write {{{found[0]}}} for the literal text"
                    )
        return value


class ScriptedTurn(_Strict):
    """The steps of one turn, and when it is played.

    `when` is `start` for the very first turn, `mail` for a message, `task` for a task that the
    agent got, `any` for anything. `from` and `contains` match the message; `task` matches the
    subject of a task that the agent has in progress, `ready` that of a task of its own that it can
    begin.
    """

    when: Literal["start", "mail", "task", "any"] = "any"
    sender: str | None = Field(default=None, alias="from")
    contains: str | None = None
    task: str | None = None
    ready: str | None = None
    repeat: bool = False
    steps: tuple[ScriptStep, ...] = Field(strict=False)

    @property
    def answers_mail(self) -> bool:
        """Whether this turn answers one message."""
        return self.when == "mail" or self.sender is not None or self.contains is not None


class _Agent(_Strict):
    turns: tuple[ScriptedTurn, ...] = Field(default=(), strict=False)


class _Script(_Strict):
    agents: dict[str, _Agent]


def load(path: Path, agent: str) -> tuple[ScriptedTurn, ...]:
    """The turns of one agent. Raises Unreadable if any part of the script is invalid."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise Unreadable(str(path), why, remedy="Name an existing script.") from None
    except UnicodeDecodeError as error:
        raise Unreadable(str(path), f"it is not UTF-8 ({error})", remedy=_REMEDY) from None
    try:
        script = _Script.model_validate(tomllib.loads(text))
    except ValidationError as error:
        raise Unreadable(str(path), _why(error), remedy=_REMEDY) from None
    except tomllib.TOMLDecodeError as error:
        raise Unreadable(str(path), f"it is not TOML ({error})", remedy=_REMEDY) from None
    if agent not in script.agents:
        known = ", ".join(script.agents) or "nobody"
        raise Unreadable(
            str(path),
            f"it has no turns for {agent!r}, only for {known}",
            remedy=f"Add a section [agents.{agent}]; it may be empty.",
        )
    return script.agents[agent].turns


def texts(value: Any) -> Iterator[str]:
    """Every text in a TOML value, without keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from texts(each)


def _why(error: ValidationError) -> str:
    """The first error, with its agent, turn and step."""
    first = error.errors(include_url=False, include_input=False)[0]
    words: list[str] = []
    for part in first["loc"]:
        if isinstance(part, int) and words:
            words[-1] = f"{words[-1].removesuffix('s')} {part + 1}"
        else:
            words.append(str(part))
    if words[:1] == ["agents"] and len(words) > 1:
        words[:2] = [f"agent {words[1]!r}"]
    message = first["msg"].removeprefix("Value error, ")
    return f"{', '.join(words)}: {message}" if words else message
