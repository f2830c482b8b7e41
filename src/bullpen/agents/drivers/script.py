"""The script file: what scripted agents do in their turns, in TOML.

    [[agents.alice.turns]]
    when = "mail"
    from = "team-lead"
    steps = [
      {tool = "TaskUpdate", input = {taskId = "{task:parser}", status = "in_progress"}},
      {say = "I take task {task}."},
    ]

The turns of an agent are tried from the first to the last; the first that fits is played, once
unless `repeat` is true. Texts may hold the placeholders in `PLACEHOLDERS`; `{{name}}` is the text
`{name}`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from bullpen.errors import Unreadable

PLACEHOLDERS = ("agent", "team", "task", "task:Part of a subject", "mail", "request", "cwd")
"""What texts may hold, in braces."""

PLACEHOLDER = re.compile(r"\{(\{)?(?P<name>task(?=:)|[a-z_]+(?!:))(?::(?P<of>[^{}]*))?\}(?(1)\})")
"""A placeholder, or in two pairs of braces the text of one. Code such as `{a: 1}` is none."""

_REMEDY = "Correct the script, then start the agent again."


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class UsageStep(_Strict):
    """What the turn so far is to have used."""

    input_tokens: int = Field(default=0, ge=0)
    output_tokens: int = Field(default=0, ge=0)
    cache_read_tokens: int = Field(default=0, ge=0)
    cache_write_tokens: int = Field(default=0, ge=0)
    cost_usd: float = Field(default=0.0, ge=0)
    unpriced: int = Field(default=0, ge=0)


class WaitMail(_Strict):
    """Mail to wait for; without `from` anybody's. The turn fails when `seconds` are over."""

    sender: str | None = Field(default=None, alias="from")
    contains: str | None = None
    seconds: float = Field(default=30.0, gt=0)


class Step(_Strict):
    """One thing to do: exactly one of the fields but `input` and `may_fail`, which are a tool's."""

    tool: str | None = None
    input: dict[str, Any] | None = None
    may_fail: bool = False
    say: str | None = None
    sleep: float | None = Field(default=None, ge=0)
    hang: Literal[True] | None = None
    fail: str | None = None
    usage: UsageStep | None = None
    wait_mail: WaitMail | None = None
    # The process ends at once: with an exit code, or by a signal to itself.
    exit: int | None = Field(default=None, ge=0, le=255)
    kill: int | None = Field(default=None, ge=1, le=64)

    @model_validator(mode="after")
    def _is_one_thing(self) -> Self:
        things = sorted(self.model_fields_set - {"input", "may_fail"})
        if len(things) != 1:
            found = ", ".join(things) or "nothing"
            raise ValueError(f"a step does exactly one thing; this one does {found}")
        if self.tool is None and len(self.model_fields_set) > 1:
            raise ValueError("only a step with `tool` has `input` and `may_fail`")
        return self

    @field_validator("input", "say", "fail")
    @classmethod
    def _only_known_placeholders(cls, value: Any) -> Any:
        for text in texts(value):
            for found in PLACEHOLDER.finditer(text):
                if not (found[1] or _known(found)):
                    known = ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
                    raise ValueError(
                        f"there is no placeholder {found[0]}, only {known}; "
                        f"write {{{found[0]}}} if it is meant as text"
                    )
        return value


class ScriptedTurn(_Strict):
    """What is done in one turn, and when.

    `start` is the very first turn; `mail` a message; `task` a task that came into the agent's
    hands; `any` whatever it is. `from` and `contains` speak of the message, `task` of the
    subject of a task that the agent works on.
    """

    when: Literal["start", "mail", "task", "any"] = "any"
    sender: str | None = Field(default=None, alias="from")
    contains: str | None = None
    task: str | None = None
    repeat: bool = False
    steps: tuple[Step, ...] = Field(strict=False)

    @property
    def answers_mail(self) -> bool:
        """Whether it is played because of one message."""
        return self.when == "mail" or self.sender is not None or self.contains is not None


class _Agent(_Strict):
    turns: tuple[ScriptedTurn, ...] = Field(default=(), strict=False)


class _Script(_Strict):
    agents: dict[str, _Agent]


def load(path: Path, agent: str) -> tuple[ScriptedTurn, ...]:
    """The turns of one agent; the whole script is checked.

    Raises:
        Unreadable: the script is missing or wrong, or has nothing for this agent; the text says
            where.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise Unreadable(str(path), why, remedy="Name a script that exists.") from None
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
            remedy=f"Add a section [agents.{agent}], which may be empty.",
        )
    return script.agents[agent].turns


def _known(found: re.Match[str]) -> bool:
    return found["name"] in PLACEHOLDERS and (found["of"] is None or bool(found["of"].strip()))


def texts(value: Any) -> Iterator[str]:
    """Every text in a value of TOML; keys are none."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from texts(each)


def _why(error: ValidationError) -> str:
    """The first thing that is wrong, with the agent, the turn and the step it is in."""
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
