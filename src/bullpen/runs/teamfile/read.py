"""Reads and checks a team file. Errors name the line, the table and the key."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from bullpen.agents.config.definitions import role_file
from bullpen.errors import BullpenError, Invalid, NotFound
from bullpen.protocol.agent import WorkspaceKind
from bullpen.protocol.names import LEAD
from bullpen.runs.teamfile.backlog.backlog import TASK, Item
from bullpen.runs.teamfile.forge_table import ForgeTable
from bullpen.runs.teamfile.mistakes import Mistake, mistakes_of
from bullpen.runs.teamfile.notify_table import NotifyTable
from bullpen.runs.teamfile.rules import mistakes_in, names_of
from bullpen.runs.teamfile.tables import (
    BacklogTable,
    BudgetTable,
    File,
    GuardedTable,
    MemberTable,
    MergeTable,
    ModelTable,
    RetentionTable,
    ShapeChoice,
    ShapeTable,
    TaskTable,
    TeamTable,
    UnattendedTable,
    WebTable,
    WorkspaceTable,
    as_checks,
)
from bullpen.runs.teamfile.toml_lines import line_of, lines_of

_KEYS = "https://bullpen-dev.github.io/bullpen/latest/reference/team-file.html"
_REMEDY = f"Correct the file, then try again. Every key: {_KEYS}"
_FILE_BYTES_MAX = 1_000_000
# How tomllib ends its errors, except at the end of the file.
_AT = re.compile(r"\(at line (\d+), column \d+\)$")


@dataclass(frozen=True, slots=True)
class TeamFile:
    """The contents of a valid team file."""

    path: Path
    team: TeamTable
    budget: BudgetTable
    workspace: WorkspaceTable
    merge: MergeTable | None
    shape: ShapeTable | None
    forge: ForgeTable | None
    guarded: GuardedTable
    unattended: UnattendedTable
    retention: RetentionTable
    models: Mapping[str, ModelTable]
    notify: tuple[NotifyTable, ...]
    # By name, as they are stored with an agent.
    mcp_servers: Mapping[str, Any]
    web: WebTable
    # Commands by a pattern of names.
    after_edit: Mapping[str, Sequence[str]]
    # None if the team has no goal: then tasks are assigned by code.
    lead: MemberTable | None
    teammates: tuple[MemberTable, ...]
    tasks: tuple[TaskTable, ...]
    backlog: tuple[BacklogTable, ...]

    @property
    def folder(self) -> Path:
        """Return the folder that paths in the file are relative to."""
        return self.path.parent

    @property
    def members(self) -> tuple[MemberTable, ...]:
        """Return all members, the lead first if there is one."""
        return self.teammates if self.lead is None else (self.lead, *self.teammates)

    def strict_about_models(self) -> TeamFile:
        """Return the file with members that stop if another model's name answers."""
        stricter = {"strict_model": True}
        return replace(
            self,
            lead=None if self.lead is None else self.lead.model_copy(update=stricter),
            teammates=tuple(each.model_copy(update=stricter) for each in self.teammates),
        )

    def with_shape(self, choose: ShapeChoice) -> TeamFile:
        """Return the file with another choice of how tasks are worked on."""
        table = self.shape or ShapeTable()
        return replace(self, shape=table.model_copy(update={"choose": choose}))

    def where(self, member: MemberTable) -> str:
        """Return how errors name a member's table."""
        return f"{self.path}: member {member.name!r}"

    def workspace_kind(self, member: MemberTable) -> WorkspaceKind:
        """Return the kind of a member's workspace. A lead shares the project unless it says so."""
        default = "shared" if member.name == LEAD else self.workspace.kind
        return member.workspace or default

    def kind_asked(self, member: MemberTable) -> WorkspaceKind | None:
        """Return the kind that the file sets for a member; None if it sets none."""
        of_all = "kind" in self.workspace.model_fields_set and member.name != LEAD
        return member.workspace or (self.workspace.kind if of_all else None)

    def role(self, member: MemberTable) -> str | None:
        """Return the name of a member's agent definition, or the path of its role file."""
        if member.role is None or not is_role_file(member.role):
            return member.role
        return str(self.folder / member.role)

    def items(self) -> list[Item]:
        """Return the tasks of the file, in the form of a backlog's."""
        return [
            Item(
                source=f"{TASK}{task.id}",
                subject=task.subject,
                description=task.description,
                needs=tuple(task.needs),
                effort=task.effort,
                checks=tuple(as_checks(task.checks)),
                after=tuple(f"{TASK}{each}" for each in task.blocked_by),
                budget=None if task.budget is None else task.budget.model_dump(),
                owner=task.owner,
                where=f"{self.path}: task {task.id!r}",
            )
            for task in self.tasks
        ]


def is_role_file(role: str) -> bool:
    """Return whether a role is the path of a file, not the name of an agent definition."""
    return role.endswith(".md")


def read_team_file(path: Path) -> TeamFile:
    """Read a team file.

    Raises:
        NotFound: there is no such file.
        Invalid: something in it is wrong; the text names the line, the table and the key.
    """
    text = _text(path)
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _no_toml(path, text, str(error)) from None
    except RecursionError:
        raise Invalid(f"{path} is nested too deeply.", remedy=_REMEDY) from None
    try:
        file = File.model_validate(tables)
    except ValidationError as error:
        raise _first(path, text, tables, mistakes_of(error, tables, File)) from None
    found = [*mistakes_in(file), *_of_role_files(file, path.parent)]
    if found:
        raise _first(path, text, tables, found)
    lead = next((each for each in file.member if each.name == LEAD), MemberTable(name=LEAD))
    return TeamFile(
        path=path,
        team=file.team,
        budget=file.budget,
        workspace=file.workspace,
        merge=file.merge,
        shape=file.shape,
        forge=file.forge,
        guarded=file.guarded,
        unattended=file.unattended,
        retention=file.retention,
        models=file.models,
        notify=tuple(file.notify),
        mcp_servers={name: each.stated for name, each in file.mcp_servers.items()},
        web=file.web,
        after_edit=file.after_edit,
        lead=None if file.team.goal is None else lead,
        teammates=tuple(_each_alone(file.member)),
        tasks=tuple(file.task),
        backlog=tuple(file.backlog),
    )


def _each_alone(members: Sequence[MemberTable]) -> Iterator[MemberTable]:
    """Yield one table for each teammate, also where a table has a count."""
    for member in members:
        if member.name != LEAD:
            for name in names_of(member):
                yield member.model_copy(update={"name": name, "count": 1})


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()
    except (FileNotFoundError, ValueError):
        # ValueError: the system does not accept the name.
        remedy = "Create one: bullpen init. Or name another file: bullpen up FILE"
        raise NotFound(f"There is no file {str(path)!r}.", remedy=remedy) from None
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise Invalid(f"{path} cannot be read: {why}.", remedy="Name a team file.") from None
    if len(data) > _FILE_BYTES_MAX:
        raise Invalid(f"{path} is longer than {_FILE_BYTES_MAX} bytes.", remedy=_REMEDY)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Invalid(
            f"{path}:{line}: it is not valid UTF-8: {error.reason}.", remedy=_REMEDY
        ) from None


def _no_toml(path: Path, text: str, why: str) -> Invalid:
    found = _AT.search(why)
    line = int(found[1]) if found is not None else len(text.rstrip("\n").split("\n"))
    return Invalid(f"{path}:{line}: this is not valid TOML: {why}.", remedy=_REMEDY)


def _of_role_files(file: File, folder: Path) -> Iterator[Mistake]:
    """Yield the role files that are missing or not valid."""
    for number, member in enumerate(file.member):
        if member.role is not None and is_role_file(member.role):
            try:
                role_file(folder / member.role)
            except BullpenError as error:
                yield Mistake(("member", number, "role"), error.message.rstrip("."), error.remedy)


def _first(
    path: Path, text: str, tables: Mapping[str, Any], mistakes: Sequence[Mistake]
) -> Invalid:
    """Return the error for the first mistake in the file.

    Missing keys come last: a key may only be misspelled.
    """
    lines = lines_of(text)
    mistake = min(mistakes, key=lambda each: (each.path not in lines, line_of(lines, each.path)))
    return Invalid(
        f"{path}:{line_of(lines, mistake.path)}: {mistake.words(tables)}.",
        remedy=mistake.remedy or _REMEDY,
    )
