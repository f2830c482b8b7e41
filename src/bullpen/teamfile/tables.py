"""The tables of a team file: which keys there are, and what each may say."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Literal, Self, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    field_validator,
    model_validator,
)

from bullpen.agents.drivers.choice import DRIVERS
from bullpen.agents.hosts.records import wanted_labels
from bullpen.errors import Invalid
from bullpen.protocol.policy import Mode, Policy
from bullpen.protocol.task import CHECK_SECONDS_MAX, Check, CheckKind, Effort
from bullpen.protocol.workspace import SETUP_S, DirtyStart, WorkspaceKind
from bullpen.unattended.quiet import span_of

Backend = Literal["subprocess", "tmux", "in-process"]
BACKENDS: tuple[Backend, ...] = get_args(Backend)


class Table(BaseModel):
    """What holds for every table: no key that is not known, no guessing of types."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class TeamTable(Table):
    """`[team]`: its name, and what the lead is told to reach. Without a goal there is no lead."""

    name: str
    goal: str | None = Field(default=None, min_length=1)


class BudgetTable(Table):
    """`[budget]`: what all agents may use together."""

    turns: int | None = Field(default=None, ge=1)
    tokens: int | None = Field(default=None, ge=1)
    usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    # Hours on the clock, at work or not.
    hours: float | None = Field(default=None, gt=0, allow_inf_nan=False)


class RulesTable(Table):
    """`[member.rules]`: what a member may do beside its mode."""

    allow: list[str] = Field(default_factory=list)
    deny: list[str] = Field(default_factory=list)
    ask: list[str] = Field(default_factory=list)
    directories: list[str] = Field(default_factory=list)


class MemberTable(Table):
    """`[[member]]`: one agent. The one named team-lead leads."""

    name: str
    driver: str = Field(default="native", json_schema_extra={"enum": [*DRIVERS]})
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
    # The tree it works in, if that is another kind than `[workspace]` says.
    workspace: WorkspaceKind | None = None
    skills: list[str] = Field(default_factory=list)
    # Only these of the tools; without it all that its role and mode give.
    tools: list[str] | None = None
    # So many of them, with numbers behind the name.
    count: int = Field(default=1, ge=1, le=100)
    rules: RulesTable = RulesTable()

    @field_validator("driver")
    @classmethod
    def _is_there(cls, driver: str) -> str:
        if driver not in DRIVERS:
            raise ValueError(f"there is no driver {driver!r}{nearest(driver, DRIVERS)}")
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


class CheckTable(Table):
    """One of the `checks` of a task. Without a name it is called after what it looks at."""

    kind: CheckKind
    name: str | None = None
    run: str | None = None
    path: str | None = None
    ref: str | None = None
    timeout_s: float | None = Field(default=None, gt=0, le=CHECK_SECONDS_MAX)

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


TAGS = ("(command)", "(table)")
"""How the two ways to say a check are told apart in what pydantic says of a mistake."""

Gate = Annotated[
    Annotated[str, Tag(TAGS[0]), Field(min_length=1)] | Annotated[CheckTable, Tag(TAGS[1])],
    Discriminator(lambda said: TAGS[isinstance(said, (dict, CheckTable))]),
]
"""A command, or a check as a task has it."""


def as_checks(given: Sequence[str | CheckTable]) -> list[Check]:
    """Checks as a task keeps them, from commands or tables."""
    return [
        CheckTable(kind="command", run=each).stated if isinstance(each, str) else each.stated
        for each in given
    ]


class TaskBudgetTable(Table):
    """What may be used for one task by all who work on it together."""

    turns: int | None = Field(default=None, ge=1)
    tokens: int | None = Field(default=None, ge=1)
    usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)


class TaskTable(Table):
    """`[[task]]`: one task. `id` is a handle inside the file, for those that wait for it."""

    id: str = Field(min_length=1)
    subject: str = Field(min_length=1)
    description: str = ""
    blocked_by: list[str] = Field(default_factory=list)
    owner: str | None = None
    checks: list[Gate] = Field(default_factory=list)
    needs: list[str] = Field(default_factory=list)
    effort: Effort | None = None
    budget: TaskBudgetTable | None = None


SOURCES = ("markdown", "directory", "command")


class BacklogTable(Table):
    """`[[backlog]]`: tasks from elsewhere, of one kind: a list, a folder, or a command."""

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": [source]} for source in SOURCES]}
    )

    # A Markdown file: every open item of its lists, or of those below one heading.
    markdown: str | None = None
    heading: str | None = None
    # A folder: every file in it, whose first line is the subject.
    directory: str | None = None
    # A command that prints one JSON object a line.
    command: str | None = None
    timeout_s: float = Field(default=60.0, gt=0)
    # Looked at again so often; without it only when the team is brought up.
    every_s: float | None = Field(default=None, ge=5)
    # What holds for all its tasks, unless an entry says otherwise.
    needs: list[str] = Field(default_factory=list)
    effort: Effort | None = None
    checks: list[Gate] = Field(default_factory=list)
    budget: TaskBudgetTable | None = None

    @model_validator(mode="after")
    def _is_one_source(self) -> Self:
        named = [key for key in SOURCES if getattr(self, key) is not None]
        if len(named) != 1:
            raise ValueError(f"it needs one of {', '.join(SOURCES)}, and only one")
        if self.heading is not None and self.markdown is None:
            raise ValueError("heading is for markdown")
        return self


class WorkspaceTable(Table):
    """`[workspace]`: the tree that each member works in, unless the member says another kind."""

    kind: WorkspaceKind = "shared"
    # Where trees are made; without it beside the repository.
    root: str | None = None
    # What a clone comes from: the name of a remote, a URL or a path.
    remote: str | None = None
    setup: str | None = None
    setup_timeout_s: float = Field(default=SETUP_S, gt=0)
    dirty: DirtyStart = "refuse"


class MergeTable(Table):
    """`[merge]`: where the work of finished tasks goes, and what must hold there."""

    # A branch; without it the one that is checked out.
    target: str | None = None
    # Commands, or checks as a task has them.
    gate: list[Gate] = Field(default_factory=list)
    batch: int = Field(default=4, ge=1, le=64)
    retries: int = Field(default=1, ge=0, le=10)
    after: str | None = None
    setup: str | None = None


_SPAN = r"^(?:[01]?\d|2[0-3]):[0-5]\d-(?:[01]?\d|2[0-3]):[0-5]\d$"


class UnattendedTable(Table):
    """`[unattended]`: what code does when nobody looks."""

    # Without anything that counts as progress for so long, a member is reminded of its task.
    stall_minutes: float = Field(default=15.0, gt=0, allow_inf_nan=False)
    # So often it is reminded before the task goes to somebody else.
    nudges: int = Field(default=1, ge=0, le=10)
    # So many times a task is begun before it is given up.
    attempts: int = Field(default=4, ge=1, le=50)
    # Times of day, local, at which nobody works, as "22:00-06:30".
    quiet: list[str] = Field(
        default_factory=list, json_schema_extra={"items": {"type": "string", "pattern": _SPAN}}
    )
    # What all agents of this machine may take together before the next one has to wait.
    memory_gb: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    processes: int | None = Field(default=None, ge=1)

    @field_validator("quiet")
    @classmethod
    def _are_times(cls, quiet: list[str]) -> list[str]:
        for each in quiet:
            try:
                begin, end = span_of(each)
            except Invalid:
                raise ValueError(f"{each!r} is no time of day such as '22:00-06:30'") from None
            if begin == end:
                raise ValueError(f"{each!r} is the whole day: nobody would ever work")
        return quiet


Happening = Literal[
    "started", "merged", "returned", "stalled", "reassigned", "given_up", "limit", "asked", "ended"
]


class NotifyTable(Table):
    """`[[notify]]`: a command that is told what happens, for chat or CI: JSON on its input."""

    run: str = Field(min_length=1)
    on: list[Happening] = Field(default_factory=list)
    timeout_s: float = Field(default=30.0, gt=0)


class File(Table):
    """A whole team file."""

    team: TeamTable
    budget: BudgetTable = BudgetTable()
    workspace: WorkspaceTable = WorkspaceTable()
    merge: MergeTable | None = None
    unattended: UnattendedTable = UnattendedTable()
    notify: list[NotifyTable] = Field(default_factory=list)
    member: list[MemberTable] = Field(default_factory=list)
    task: list[TaskTable] = Field(default_factory=list)
    backlog: list[BacklogTable] = Field(default_factory=list)


def nearest(word: str, known: Sequence[str]) -> str:
    """A guess at what was meant, in brackets."""
    close = get_close_matches(word, known, n=1)
    if close:
        return f" (did you mean {close[0]!r}?)"
    return f" (there are these: {', '.join(known)})" if known else ""
