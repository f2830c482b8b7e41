"""Reading a team file: all of it is checked, and what is wrong is named by line, table and key."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from bullpen.agents.definitions import role_file
from bullpen.errors import BullpenError, Invalid, NotFound
from bullpen.protocol.names import LEAD
from bullpen.team.drafts import Draft
from bullpen.teamfile.backlog import TASK, Item, new_drafts
from bullpen.teamfile.lines import line_of, lines_of
from bullpen.teamfile.mistakes import Mistake, mistakes_of
from bullpen.teamfile.rules import mistakes_in, names_of
from bullpen.teamfile.tables import (
    BacklogTable,
    BudgetTable,
    File,
    MemberTable,
    MergeTable,
    NotifyTable,
    TaskTable,
    TeamTable,
    UnattendedTable,
    WorkspaceTable,
    as_checks,
)

_REMEDY = "Correct the file, then try again: docs/reference/team-file.md lists every key."
_FILE_BYTES_MAX = 1_000_000
# How the reader of TOML ends what it says, unless it is the end of the file that surprised it.
_AT = re.compile(r"\(at line (\d+), column \d+\)$")


@dataclass(frozen=True, slots=True)
class TeamFile:
    """A team as its file describes it, with nothing left to correct in the file itself."""

    path: Path
    team: TeamTable
    budget: BudgetTable
    workspace: WorkspaceTable
    merge: MergeTable | None
    unattended: UnattendedTable
    notify: tuple[NotifyTable, ...]
    # None if the team has no goal: then code leads it through its tasks.
    lead: MemberTable | None
    teammates: tuple[MemberTable, ...]
    tasks: tuple[TaskTable, ...]
    backlog: tuple[BacklogTable, ...]

    @property
    def folder(self) -> Path:
        """What the paths in the file are relative to."""
        return self.path.parent

    @property
    def members(self) -> tuple[MemberTable, ...]:
        """Everybody, the lead first if there is one."""
        return self.teammates if self.lead is None else (self.lead, *self.teammates)

    def where(self, member: MemberTable) -> str:
        """How messages name a member's table."""
        return f"{self.path}: member {member.name!r}"

    def role(self, member: MemberTable) -> str | None:
        """The name of a member's agent definition, or the path of its role file."""
        if member.role is None or not is_role_file(member.role):
            return member.role
        return str(self.folder / member.role)

    def drafts(self) -> list[Draft]:
        """The tasks of the file alone, in one go: each names those before it that it waits for."""
        return new_drafts(self.items(), ())

    def items(self) -> list[Item]:
        """The tasks of the file, as those of a backlog are."""
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
    """Whether a role is the path of a file, and not the name of an agent definition."""
    return role.endswith(".md")


def read_team_file(path: Path) -> TeamFile:
    """What a team file says.

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
        unattended=file.unattended,
        notify=tuple(file.notify),
        lead=None if file.team.goal is None else lead,
        teammates=tuple(_each_alone(file.member)),
        tasks=tuple(file.task),
        backlog=tuple(file.backlog),
    )


def _each_alone(members: Sequence[MemberTable]) -> Iterator[MemberTable]:
    """Every teammate on its own, also of those that one table stands for."""
    for member in members:
        if member.name != LEAD:
            for name in names_of(member):
                yield member.model_copy(update={"name": name, "count": 1})


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()
    except (FileNotFoundError, ValueError):
        # No file has a name that the system cannot take.
        raise NotFound(
            f"There is no file {str(path)!r}.",
            remedy="Name a team file that exists: bullpen up TEAM.toml",
        ) from None
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise Invalid(f"{path} cannot be read: {why}.", remedy="Name a team file.") from None
    if len(data) > _FILE_BYTES_MAX:
        raise Invalid(f"{path} is longer than {_FILE_BYTES_MAX} bytes.", remedy=_REMEDY)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Invalid(f"{path}:{line}: it is not UTF-8: {error.reason}.", remedy=_REMEDY) from None


def _no_toml(path: Path, text: str, why: str) -> Invalid:
    found = _AT.search(why)
    line = int(found[1]) if found is not None else len(text.rstrip("\n").split("\n"))
    return Invalid(f"{path}:{line}: it is not TOML: {why}.", remedy=_REMEDY)


def _of_role_files(file: File, folder: Path) -> Iterator[Mistake]:
    """The role files that are not there, or are none."""
    for number, member in enumerate(file.member):
        if member.role is not None and is_role_file(member.role):
            try:
                role_file(folder / member.role)
            except BullpenError as error:
                yield Mistake(("member", number, "role"), error.message.rstrip("."), error.remedy)


def _first(
    path: Path, text: str, tables: Mapping[str, Any], mistakes: Sequence[Mistake]
) -> Invalid:
    """What is told of the mistake that comes first in the file.

    What is missing comes last: it may only be misspelled.
    """
    lines = lines_of(text)
    mistake = min(mistakes, key=lambda each: (each.path not in lines, line_of(lines, each.path)))
    return Invalid(
        f"{path}:{line_of(lines, mistake.path)}: {mistake.words(tables)}.",
        remedy=mistake.remedy or _REMEDY,
    )
