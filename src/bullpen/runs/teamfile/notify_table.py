"""`[[notify]]`: who is notified of what happens, and how."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal, Self

from pydantic import ConfigDict, Field, field_validator, model_validator

from bullpen.runs.reach.due_rules import PINGS
from bullpen.runs.reach.targets import ADDRESS, Target
from bullpen.runs.teamfile.file_table import SPAN, FileTable, quiet_span
from bullpen.runs.watch.notify import Notified
from bullpen.view.notable_events import Kind

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

NOTIFIED = ("run", "url", "url_env", "push")


class NotifyTable(FileTable):
    """`[[notify]]`: a command that gets what happens as JSON, or where a person gets notices."""

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": [target]} for target in NOTIFIED]}
    )

    run: str | None = Field(default=None, min_length=1)
    # An address of apprise, or the variable that holds one.
    url: str | None = Field(default=None, json_schema_extra={"pattern": "^[A-Za-z][^:]*://"})
    url_env: str | None = Field(
        default=None, json_schema_extra={"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"}
    )
    # To all browsers that were subscribed in the dashboard.
    push: Literal[True] | None = None
    on: list[Kind] = Field(default_factory=list)
    # Local times at which nothing is sent; what was held comes as one notice afterwards.
    quiet: str | None = Field(default=None, json_schema_extra={"pattern": SPAN})
    # For how long the links of a notice work.
    answer_minutes: float = Field(default=60.0, gt=0, le=1440)
    timeout_s: float = Field(default=30.0, gt=0)

    @field_validator("url")
    @classmethod
    def _is_an_address(cls, url: str | None) -> str | None:
        if url is not None and ADDRESS.fullmatch(url) is None:
            raise ValueError("it is not an address of apprise such as 'ntfy://TOPIC'")
        return url

    @field_validator("url_env")
    @classmethod
    def _is_a_variable(cls, name: str | None) -> str | None:
        if name is not None and _VARIABLE.fullmatch(name) is None:
            raise ValueError(f"{name!r} is not the name of an environment variable")
        return name

    @field_validator("quiet")
    @classmethod
    def _is_a_time(cls, quiet: str | None) -> str | None:
        return None if quiet is None else quiet_span(quiet, "nothing would ever be sent")

    @model_validator(mode="after")
    def _is_one_target(self) -> Self:
        named = [key for key in NOTIFIED if getattr(self, key) is not None]
        if len(named) != 1:
            raise ValueError(f"it needs exactly one of {', '.join(NOTIFIED)}")
        if self.run is not None and (self.quiet or "answer_minutes" in self.model_fields_set):
            raise ValueError("quiet and answer_minutes do not work with run")
        return self


def commands_of(tables: Iterable[NotifyTable]) -> list[Notified]:
    """Return the commands to notify."""
    return [
        Notified(each.run, tuple(each.on), each.timeout_s)
        for each in tables
        if each.run is not None
    ]


def targets_of(tables: Iterable[NotifyTable]) -> list[Target]:
    """Return where a person gets notices."""
    return [
        Target(
            each.url,
            each.url_env,
            on=tuple(each.on) or PINGS,
            quiet=each.quiet,
            timeout_s=each.timeout_s,
            life_ms=int(each.answer_minutes * 60_000),
        )
        for each in tables
        if each.run is None
    ]
