"""The team file: who is in a team, what it shall reach and which tasks there are, in TOML.

    [team]
    name = "docs"
    goal = "Write the manual, then check every link."

    [[member]]
    name = "ann"
    driver = "codex"

    [[task]]
    id = "manual"
    subject = "Write the manual"
    owner = "ann"

What a file says is checked as a whole before anything is started.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from bullpen.agents.drivers.choice import DRIVERS
from bullpen.agents.hosts.records import wanted_labels
from bullpen.errors import BullpenError, Invalid, NotFound
from bullpen.protocol.names import LEAD, check_new_name
from bullpen.protocol.policy import Mode, Policy
from bullpen.protocol.task import Check, CheckKind
from bullpen.team.drafts import Draft

Backend = Literal["subprocess", "tmux", "in-process"]
BACKENDS: tuple[Backend, ...] = get_args(Backend)

_REMEDY = "Correct the file, then try again: docs/reference/team-file.md lists every key."
_FILE_BYTES_MAX = 1_000_000


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class TeamTable(_Table):
    """`[team]`: its name, and what the lead is told to reach."""

    name: str
    goal: str = Field(min_length=1)


class BudgetTable(_Table):
    """`[budget]`: what all agents may use together."""

    turns: int | None = Field(default=None, ge=1)
    tokens: int | None = Field(default=None, ge=1)
    usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)


class RulesTable(_Table):
    """`[member.rules]`: what a member may do beside its mode."""

    allow: list[str] = Field(default_factory=list)
    deny: list[str] = Field(default_factory=list)
    ask: list[str] = Field(default_factory=list)
    directories: list[str] = Field(default_factory=list)


class MemberTable(_Table):
    """`[[member]]`: one agent. The one named team-lead leads."""

    name: str
    driver: str = "native"
    backend: Backend = "subprocess"
    model: str | None = None
    role: str | None = None
    prompt: str | None = None
    mode: Mode | None = None
    approver: Literal["human", "lead", "policy"] | None = None
    plan_approver: Literal["human", "lead", "auto"] | None = None
    # The words that start its program, where that is not on the PATH by its usual name.
    command: list[str] | None = Field(default=None, min_length=1)
    env: list[str] = Field(default_factory=list)
    script: str | None = None
    # The labels of the machines that may run it; without them it runs where the team is brought up.
    on: str | None = None
    respawn: bool = False
    rules: RulesTable = RulesTable()

    @field_validator("driver")
    @classmethod
    def _is_there(cls, driver: str) -> str:
        if driver not in DRIVERS:
            raise ValueError(f"there is no driver {driver!r}{_nearest(driver, DRIVERS)}")
        return driver

    @field_validator("on")
    @classmethod
    def _is_a_list_of_labels(cls, on: str | None) -> str | None:
        try:
            if on is not None:
                wanted_labels(on)
        except Invalid as error:
            raise ValueError(f"{error.message} {error.remedy}".rstrip(".")) from None
        return on

    @property
    def labels(self) -> dict[str, str] | None:
        """What a machine must have to run it; None if it runs where the team is brought up."""
        return None if self.on is None else wanted_labels(self.on)

    def policy(self, folder: Path) -> Policy | None:
        """What it may do beside its mode, as it is stored; None if the file says nothing of it."""
        rules = self.rules
        said = {
            "allow": rules.allow,
            "deny": rules.deny,
            "ask": rules.ask,
            "directories": [str(folder / path) for path in rules.directories],
            "approver": self.approver,
            "planApprover": self.plan_approver,
            "sources": dict.fromkeys([*rules.allow, *rules.deny, *rules.ask], "the team file"),
        }
        stated = {key: value for key, value in said.items() if value}
        return Policy.parse(stated) if stated else None


class CheckTable(_Table):
    """One of the `checks` of a task. Without a name it is called after what it looks at."""

    kind: CheckKind
    name: str | None = None
    run: str | None = None
    path: str | None = None
    ref: str | None = None
    timeout_s: float | None = Field(default=None, gt=0)

    @property
    def stated(self) -> Check:
        """The check as a task keeps it."""
        about = self.run or self.path or self.ref or self.kind
        return Check.new(
            name=self.name or about,
            kind=self.kind,
            run=self.run,
            path=self.path,
            ref=self.ref,
            timeout_s=self.timeout_s,
        )


class TaskTable(_Table):
    """`[[task]]`: one task. `id` is a handle inside the file, for those that wait for it."""

    id: str = Field(min_length=1)
    subject: str = Field(min_length=1)
    description: str = ""
    blocked_by: list[str] = Field(default_factory=list)
    owner: str | None = None
    checks: list[CheckTable] = Field(default_factory=list)


class _File(_Table):
    team: TeamTable
    budget: BudgetTable = BudgetTable()
    member: list[MemberTable] = Field(default_factory=list)
    task: list[TaskTable] = Field(default_factory=list)


@dataclass(frozen=True, slots=True)
class TeamFile:
    """A team as its file describes it, with nothing left to correct in the file itself."""

    path: Path
    team: TeamTable
    budget: BudgetTable
    lead: MemberTable
    teammates: tuple[MemberTable, ...]
    tasks: tuple[TaskTable, ...]
    # The same for two files that say the same: comments and order of keys do not count.
    digest: str

    @property
    def folder(self) -> Path:
        """What the paths in the file are relative to."""
        return self.path.parent

    @property
    def members(self) -> tuple[MemberTable, ...]:
        """Everybody, the lead first."""
        return (self.lead, *self.teammates)

    def where(self, member: MemberTable) -> str:
        """How messages name a member's table."""
        return f"{self.path}: member {member.name!r}"

    def drafts(self) -> list[Draft]:
        """The tasks to add, in one go: each names those before it that it waits for."""
        places = {task.id: f"@{index}" for index, task in enumerate(self.tasks)}
        return [
            Draft(
                task.subject,
                task.description,
                blocked_by=[places[each] for each in task.blocked_by],
                owner=task.owner,
                checks=[check.stated for check in task.checks],
            )
            for task in self.tasks
        ]


def read_team_file(path: Path) -> TeamFile:
    """What a team file says.

    Raises:
        NotFound: there is no such file.
        Invalid: something in it is wrong; the text names the table and the key.
    """
    tables = _tables(path)
    try:
        file = _File.model_validate(tables)
    except ValidationError as error:
        raise Invalid(f"{path}: {_why(error, tables)}.", remedy=_REMEDY) from None
    try:
        _check_names(file)
        ordered = _in_order(file.task)
    except BullpenError as error:
        raise Invalid(f"{path}: {error.message}", remedy=error.remedy or _REMEDY) from None
    lead = next((each for each in file.member if each.name == LEAD), MemberTable(name=LEAD))
    return TeamFile(
        path=path,
        team=file.team,
        budget=file.budget,
        lead=lead,
        teammates=tuple(each for each in file.member if each.name != LEAD),
        tasks=tuple(ordered),
        digest=_digest(tables),
    )


def _tables(path: Path) -> dict[str, Any]:
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
        return tomllib.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise Invalid(f"{path} is not UTF-8: {error.reason}.", remedy=_REMEDY) from None
    except tomllib.TOMLDecodeError as error:
        raise Invalid(f"{path} is not TOML: {error}.", remedy=_REMEDY) from None


def _digest(tables: Mapping[str, Any]) -> str:
    # Dates and times are the only values of TOML that JSON lacks; no key of ours takes one.
    text = json.dumps(tables, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _check_names(file: _File) -> None:
    """Refuse names that cannot be, that are given twice, or that nobody has."""
    check_new_name(file.team.name, kind="team")
    for number, member in enumerate(file.member, 1):
        here = f"member {number} ({member.name})"
        check_new_name(member.name, kind="member")
        if any(member.name == before.name for before in file.member[: number - 1]):
            raise Invalid(f"{here}: name: another member has it.")
        if member.name == LEAD and member.prompt is not None:
            raise Invalid(
                f"{here}: prompt: the lead is told the goal of the team and nothing else."
            )
        if member.driver == "scripted" and member.script is None:
            raise Invalid(f"{here}: script: a scripted member needs one.")
        if member.driver == "acp" and member.command is None:
            raise Invalid(f"{here}: command: the driver 'acp' needs the words of the program.")
        if member.respawn and member.on is None:
            raise Invalid(f"{here}: respawn: say with `on` which machines may run it.")
        if member.on is not None and member.backend == "in-process":
            raise Invalid(
                f"{here}: on: an agent inside this process cannot run on another machine."
            )
    members = [LEAD, *(member.name for member in file.member)]
    ids = [task.id for task in file.task]
    for number, task in enumerate(file.task, 1):
        here = f"task {number} ({task.id})"
        if task.id in ids[: number - 1]:
            raise Invalid(f"{here}: id: another task has it.")
        if task.owner is not None and task.owner not in members:
            nearest = _nearest(task.owner, members)
            raise Invalid(f"{here}: owner: there is no member {task.owner!r}{nearest}.")
        for blocker in task.blocked_by:
            if blocker not in ids:
                nearest = _nearest(blocker, ids)
                raise Invalid(f"{here}: blocked_by: there is no task {blocker!r}{nearest}.")


def _in_order(tasks: Sequence[TaskTable]) -> list[TaskTable]:
    """The tasks so that each comes after those it waits for, else as they stand in the file."""
    ordered: list[TaskTable] = []
    left = list(tasks)
    while left:
        known = {task.id for task in ordered}
        free = next((task for task in left if known.issuperset(task.blocked_by)), None)
        if free is None:
            circle = ", ".join(repr(task.id) for task in left)
            raise Invalid(f"task: blocked_by: these wait for each other in a circle: {circle}.")
        ordered.append(free)
        left.remove(free)
    return ordered


def _why(error: ValidationError, tables: Mapping[str, Any]) -> str:
    """The first thing that is wrong, after the table and the key that it is in."""
    first = error.errors(include_url=False)[0]
    *above, key = first["loc"] or ("file",)
    if first["type"] == "extra_forbidden":
        above, message = [*above], f"there is no key {str(key)!r}{_nearest(str(key), _keys(above))}"
    elif first["type"] == "missing":
        above, message = [*above, key], "it is missing"
    else:
        above, message = [*above, key], first["msg"].removeprefix("Value error, ")
        given = first["input"]
        if first["type"] == "literal_error" and isinstance(given, str):
            known = first["ctx"]["expected"]
            message = f"{given!r} is none of {known.replace(' or ', ', ')}"
    return ": ".join([*_places(above, tables), message])


def _places(parts: Sequence[str | int], tables: Any) -> Iterator[str]:
    """The words for a place in the file: lists count from 1, and name whom they are about."""
    at = tables
    for index, part in enumerate(parts):
        at = _below(at, part)
        if isinstance(part, int):
            about = at.get("name") or at.get("id") if isinstance(at, dict) else None
            called = f" ({about})" if isinstance(about, str) and about else ""
            yield f"{str(parts[index - 1]).removesuffix('s')} {part + 1}{called}"
        elif not (index + 1 < len(parts) and isinstance(parts[index + 1], int)):
            yield part


def _below(at: Any, part: str | int) -> Any:
    if isinstance(at, dict):
        return at.get(part)
    return at[part] if isinstance(at, list) and isinstance(part, int) and part < len(at) else None


_TABLES: dict[str, type[_Table]] = {
    "team": TeamTable,
    "budget": BudgetTable,
    "member": MemberTable,
    "rules": RulesTable,
    "task": TaskTable,
    "checks": CheckTable,
}


def _keys(parts: Sequence[str | int]) -> list[str]:
    """The keys that the table at this place may have."""
    names = [part for part in parts if isinstance(part, str)]
    return list((_TABLES[names[-1]] if names else _File).model_fields)


def _nearest(word: str, known: Sequence[str]) -> str:
    close = get_close_matches(word, known, n=1)
    if close:
        return f" (did you mean {close[0]!r}?)"
    return f" (there are these: {', '.join(known)})" if known else ""
