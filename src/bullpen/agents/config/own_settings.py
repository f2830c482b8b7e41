"""Our own settings files, in TOML. An unknown field is an error."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bullpen.agents.config.settings import RULE_LISTS, SettingsFile, SettingsPlace
from bullpen.agents.config.settings_checks import check_file_rules, meant_rule, naming, read_hooks
from bullpen.agents.hooks.hook_set import own_hooks
from bullpen.agents.system.project_files import unreadable
from bullpen.agents.tools.web.search import SEARCH_URL, check_search_url
from bullpen.errors import Invalid
from bullpen.protocol.policy import Mode, Sandbox
from bullpen.sandbox.network.host_rules import host_rule


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Permissions(_Table):
    allow: list[str] = Field(default_factory=list)
    deny: list[str] = Field(default_factory=list)
    ask: list[str] = Field(default_factory=list)
    directories: list[str] = Field(default_factory=list)
    mode: Mode | None = None
    approver: Literal["human", "lead", "policy"] | None = None
    deadline_s: float | None = Field(None, gt=0)


class _Answers(_Table):
    allow: list[str] = Field(default_factory=list)
    deny: list[str] = Field(default_factory=list)


class _Plans(_Table):
    approver: Literal["human", "lead", "rule", "auto"] | None = None
    rule: str | None = None
    after: Mode | None = None


class _Sandbox(_Table):
    network: bool = False
    hosts: list[str] = Field(default_factory=list)
    read: list[str] = Field(default_factory=list)
    write: list[str] = Field(default_factory=list)


class _Web(_Table):
    search_url: str | None = None


class _Own(_Table):
    permissions: _Permissions = Field(default_factory=_Permissions)
    answers: _Answers | None = None
    plans: _Plans = Field(default_factory=_Plans)
    sandbox: _Sandbox | None = None
    web: _Web = Field(default_factory=_Web)
    hooks: dict[str, Any] = Field(default_factory=dict)
    after_edit: dict[str, list[str]] = Field(default_factory=dict)


def read_own(path: Path, data: bytes, place: SettingsPlace) -> SettingsFile:
    """A file of ours. An unknown field is an error."""
    try:
        raw = tomllib.loads(data.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise unreadable(path, f"it is not TOML ({error})") from None
    try:
        told = _Own.model_validate(raw)
    except ValidationError as error:
        raise _unknown(path, error) from None
    permissions, answers = told.permissions, told.answers or _Answers()
    rules = {name: list(getattr(permissions, name)) for name in RULE_LISTS}
    check_file_rules(path, [text for texts in rules.values() for text in texts])
    check_file_rules(path, [*answers.allow, *answers.deny])
    return SettingsFile(
        path,
        place.folder,
        {name: [meant_rule(place, text) for text in texts] for name, texts in rules.items()},
        [place.directory(each) for each in permissions.directories],
        permissions.mode,
        values=_values(path, told, place),
        hooks=read_hooks(path, told.hooks, place, own_hooks),
        after_edit=told.after_edit,
        options=_options(path, told.web),
    )


def _options(path: Path, web: _Web) -> dict[str, Any]:
    if web.search_url is None:
        return {}
    with naming(path):
        check_search_url(web.search_url)
    return {SEARCH_URL: web.search_url}


def _values(path: Path, told: _Own, place: SettingsPlace) -> dict[str, Any]:
    permissions, answers, plans, sandbox = told.permissions, told.answers, told.plans, told.sandbox
    closed = None
    if sandbox is not None:
        for host in sandbox.hosts:
            host_rule(host)
        closed = Sandbox.new(
            network=sandbox.network,
            hosts=sandbox.hosts,
            read=[place.directory(each) for each in sandbox.read],
            write=[place.directory(each) for each in sandbox.write],
        ).raw
    said = {
        "approver": permissions.approver or ("policy" if answers is not None else None),
        "deadline_s": permissions.deadline_s,
        "answers": None if answers is None else str(path),
        "plan_approver": plans.approver or ("rule" if plans.rule else None),
        "plan_rule": plans.rule,
        "after_plan": plans.after,
        "sandbox": closed,
    }
    return {name: value for name, value in said.items() if value is not None}


def _unknown(path: Path, error: ValidationError) -> Invalid:
    rows = []
    for found in error.errors(include_url=False, include_context=False, include_input=False):
        where = ".".join(str(part) for part in found["loc"])
        unknown = found["type"] == "extra_forbidden"
        rows.append(f"{where} is unknown" if unknown else f"{where}: {found['msg']}")
    return Invalid(f"{path} is invalid: {'; '.join(rows)}.", remedy="Fix the file or remove it.")
