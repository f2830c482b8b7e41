"""The tables of a team file: their keys and the values that each key can have."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    field_validator,
    model_validator,
)

from bullpen.agents.backends.available import BACKENDS
from bullpen.agents.contracts.installed_parts import PartKind, find_part, installed_parts
from bullpen.agents.drivers.registry import DRIVERS
from bullpen.agents.supervisor.machines.host_records import wanted_labels
from bullpen.agents.tools.mcp_servers.definition import definition_of
from bullpen.agents.tools.web.search import check_search_url
from bullpen.errors import Invalid
from bullpen.protocol.agent import SETUP_S, DirtyStart, WorkspaceKind
from bullpen.protocol.guarded_paths import OBEYED, WHY, guarded
from bullpen.protocol.policy import Mode, Policy
from bullpen.protocol.task import CHECK_SECONDS_MAX, ROUNDS_MAX, Check, CheckKind, Effort
from bullpen.protocol.team import AgentsMay
from bullpen.runs.teamfile.file_table import SPAN, FileTable, quiet_span
from bullpen.runs.teamfile.forge_table import ForgeTable
from bullpen.runs.teamfile.notify_table import NotifyTable
from bullpen.workspace.git.task_commits import parse_author


class TeamTable(FileTable):
    """`[team]`: its name and its goal. Without a goal there is no lead."""

    name: str
    goal: str | None = Field(default=None, min_length=1)
    # What all its agents may do, besides what is the lead's, an owner's or a parent's.
    agents_may: list[AgentsMay] = Field(default_factory=list)


class BudgetTable(FileTable):
    """`[budget]`: the most that all agents may use together."""

    turns: int | None = Field(default=None, ge=1)
    # Model requests in one turn of an agent.
    requests: int | None = Field(default=None, ge=1)
    tokens: int | None = Field(default=None, ge=1)
    usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    # Wall-clock hours, at work or not.
    hours: float | None = Field(default=None, gt=0, allow_inf_nan=False)


ModelEffort = Literal["minimal", "low", "medium", "high", "xhigh", "max"]
"""How much a model thinks."""


class ModelTable(FileTable):
    """`[models."NAME"]`: what is known of a model, for every member that uses it."""

    # In tokens: what a request may have, and the longest answer.
    context_window: int | None = Field(default=None, ge=1)
    max_output: int | None = Field(default=None, ge=1)
    # Dollars for a million tokens.
    input_price: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    output_price: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    cache_read_price: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    cache_write_price: float | None = Field(default=None, ge=0, allow_inf_nan=False)

    @model_validator(mode="after")
    def _has_both_prices(self) -> Self:
        if (self.input_price is None) != (self.output_price is None):
            raise ValueError("it needs both input_price and output_price, or neither")
        return self


class RulesTable(FileTable):
    """`[member.rules]`: what a member may do, in addition to its mode."""

    allow: list[str] = Field(default_factory=list)
    deny: list[str] = Field(default_factory=list)
    ask: list[str] = Field(default_factory=list)
    directories: list[str] = Field(default_factory=list)


class MemberTable(FileTable):
    """`[[member]]`: one agent. The one named team-lead is the lead."""

    name: str
    driver: str = Field(default="native", json_schema_extra={"examples": [*DRIVERS]})
    backend: str = Field(default="subprocess", json_schema_extra={"examples": [*BACKENDS]})
    model: str | None = None
    # How much its model thinks, and the model that writes its summaries.
    effort: ModelEffort | None = None
    small_model: str | None = None
    # End it if the API answers with another model's name.
    strict_model: bool = False
    role: str | None = None
    prompt: str | None = None
    mode: Mode | None = None
    approver: Literal["human", "lead", "policy"] | None = None
    plan_approver: Literal["human", "lead", "auto"] | None = None
    # The command that starts its program, if it is not on the PATH under its usual name.
    command: list[str] | None = Field(default=None, min_length=1)
    env: list[str] = Field(default_factory=list)
    script: str | None = None
    # The labels of the machines that may run it; by default, the machine of `bullpen up`.
    on: str | None = None
    respawn: bool = False
    # The kind of its workspace, if it differs from `[workspace]`.
    workspace: WorkspaceKind | None = None
    skills: list[str] = Field(default_factory=list)
    # Only these tools; by default, all that its role and mode allow.
    tools: list[str] | None = None
    # How many of them; their names are numbered.
    count: int = Field(default=1, ge=1, le=100)
    rules: RulesTable = RulesTable()

    @field_validator("driver")
    @classmethod
    def _is_there(cls, driver: str) -> str:
        return _part("driver", driver, DRIVERS)

    @field_validator("backend")
    @classmethod
    def _is_a_backend(cls, backend: str) -> str:
        return _part("backend", backend, BACKENDS)

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
        """Return the labels that a machine needs to run it, or None."""
        return None if self.on is None else wanted_labels(self.on)

    def policy(self, folder: Path) -> Policy | None:
        """Return its policy besides its mode; None if the file sets nothing."""
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


OF_REVIEWS = ("by", "model", "rounds", "rubric", "same_model")
"""The keys that only a review has."""


class CheckTable(FileTable):
    """One of the `checks` of a task. By default it has the name of what it checks."""

    kind: CheckKind
    name: str | None = None
    run: str | None = None
    path: str | None = None
    ref: str | None = None
    timeout_s: float | None = Field(default=None, gt=0, le=CHECK_SECONDS_MAX)
    # Of a review: the driver and the model of the reviewer, how many times work may come back
    # before a person is asked, and what the reviewer looks for.
    by: str | None = None
    model: str | None = None
    rounds: int | None = Field(default=None, ge=1, le=ROUNDS_MAX)
    rubric: str | None = None
    same_model: bool | None = None

    @field_validator("by")
    @classmethod
    def _is_a_driver(cls, by: str | None) -> str | None:
        return by if by is None else _part("driver", by, DRIVERS)

    @model_validator(mode="after")
    def _fits_its_kind(self) -> Self:
        named = [key for key in OF_REVIEWS if getattr(self, key) is not None]
        if named and self.kind != "review":
            raise ValueError(f"{named[0]} is only for checks of the kind review")
        return self

    @property
    def stated(self) -> Check:
        """Return the check as it is stored in a task."""
        about = self.run or self.path or self.ref or self.kind
        if self.kind == "review":
            about = f"review by {self.by}"
        return Check.new(
            name=self.name or about,
            kind=self.kind,
            run=self.run,
            path=self.path,
            ref=self.ref,
            timeout_s=self.timeout_s,
            **{key: value for key in OF_REVIEWS if (value := getattr(self, key)) is not None},
        )


TAGS = ("(command)", "(table)")
"""What pydantic calls the two ways to write a check in its errors."""

Gate = Annotated[
    Annotated[str, Tag(TAGS[0]), Field(min_length=1)] | Annotated[CheckTable, Tag(TAGS[1])],
    Discriminator(lambda said: TAGS[isinstance(said, (dict, CheckTable))]),
]
"""A command, or a check."""


def as_checks(given: Sequence[str | CheckTable]) -> list[Check]:
    """Return checks as they are stored in a task, from commands or tables."""
    return [
        CheckTable(kind="command", run=each).stated if isinstance(each, str) else each.stated
        for each in given
    ]


class TaskBudgetTable(FileTable):
    """The most that all agents together may use for one task."""

    turns: int | None = Field(default=None, ge=1)
    tokens: int | None = Field(default=None, ge=1)
    usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)


class TaskTable(FileTable):
    """`[[task]]`: one task. Other tasks in the file refer to it by its `id`."""

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


class BacklogTable(FileTable):
    """`[[backlog]]`: tasks from a list, a folder or a command."""

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": [source]} for source in SOURCES]}
    )

    # A Markdown file: all open items of its lists, or only of those below a heading.
    markdown: str | None = None
    heading: str | None = None
    # A folder: each file is a task, and its first line is the subject.
    directory: str | None = None
    # A command that prints one JSON object per line.
    command: str | None = None
    timeout_s: float = Field(default=60.0, gt=0)
    # How often it is read again; by default, only once at the start.
    every_s: float | None = Field(default=None, ge=5)
    # The values for all its tasks, unless an entry has its own.
    needs: list[str] = Field(default_factory=list)
    effort: Effort | None = None
    checks: list[Gate] = Field(default_factory=list)
    budget: TaskBudgetTable | None = None

    @model_validator(mode="after")
    def _is_one_source(self) -> Self:
        named = [key for key in SOURCES if getattr(self, key) is not None]
        if len(named) != 1:
            raise ValueError(f"it needs exactly one of {', '.join(SOURCES)}")
        if self.heading is not None and self.markdown is None:
            raise ValueError("heading only works with markdown")
        return self


class WorkspaceTable(FileTable):
    """`[workspace]`: where each member works, unless the member sets another kind."""

    kind: WorkspaceKind = "shared"
    # Where worktrees are created; by default, beside the repository.
    root: str | None = None
    # The source of clones: the name of a remote, a URL or a path.
    remote: str | None = None
    setup: str | None = None
    setup_timeout_s: float = Field(default=SETUP_S, gt=0)
    dirty: DirtyStart = "refuse"


class MergeTable(FileTable):
    """`[merge]`: the branch that finished work is merged into, and its merge gate."""

    # A branch; by default, the one that is checked out.
    target: str | None = None
    # Commands or checks.
    gate: list[Gate] = Field(default_factory=list)
    batch: int = Field(default=4, ge=1, le=64)
    retries: int = Field(default=1, ge=0, le=10)
    after: str | None = None
    setup: str | None = None
    # The author of the commits that Bullpen makes: "Name <address>"; by default, git's own.
    author: str | None = None

    @field_validator("author")
    @classmethod
    def _is_an_author(cls, author: str | None) -> str | None:
        try:
            if author is not None:
                parse_author(author)
        except Invalid as error:
            raise ValueError(f"{error.message} {error.remedy}") from None
        return author


class GuardedTable(FileTable):
    """`[guarded]`: changes that are merged only after a person approved them."""

    # Patterns of paths that are guarded besides the built-in list.
    paths: list[str] = Field(default_factory=list)
    # Patterns of paths on the built-in list that are not guarded, such as ".github/workflows".
    allow: list[str] = Field(default_factory=list)

    @field_validator("allow")
    @classmethod
    def _are_optional(cls, allow: list[str]) -> list[str]:
        for each in allow:
            kind = guarded(each)
            if kind is not None and kind in OBEYED:
                raise ValueError(f"{each!r} is always guarded: {WHY[kind]}")
        return allow


ShapeChoice = Literal["auto", "solo", "solo+review", "team"]


class ShapeTable(FileTable):
    """`[shape]`: whether new tasks are done by one agent, by one and a reviewer, or by all."""

    choose: ShapeChoice = "auto"
    # Of the tasks of `auto`, the share that is worked on in the other way, to learn the difference.
    try_other: float = Field(default=0.0, ge=0, le=0.5)
    # The driver that reviews tasks of one agent and a reviewer; without it, there are none.
    reviewer: str | None = None
    # Folders with results of `bullpen eval run`, relative to the team file: they decide for `auto`.
    evals: str | list[str] | None = None

    @field_validator("reviewer")
    @classmethod
    def _is_a_driver(cls, reviewer: str | None) -> str | None:
        return reviewer if reviewer is None else _part("driver", reviewer, DRIVERS)

    @property
    def eval_folders(self) -> list[str]:
        """Return the folders with results of evals that the choice uses."""
        if self.choose != "auto" or self.evals is None:
            return []
        return [self.evals] if isinstance(self.evals, str) else self.evals

    @property
    def review(self) -> CheckTable | None:
        """Return the review that such tasks get."""
        return None if self.reviewer is None else CheckTable(kind="review", by=self.reviewer)


class UnattendedTable(FileTable):
    """`[unattended]`: what code does when no person watches."""

    # How long a member may make no progress before it is nudged.
    stall_minutes: float = Field(default=15.0, gt=0, allow_inf_nan=False)
    # How often it is nudged before the task is reassigned.
    nudges: int = Field(default=1, ge=0, le=10)
    # How often a task is attempted before it is given up.
    attempts: int = Field(default=4, ge=1, le=50)
    # Local times of day at which all agents are paused, such as "22:00-06:30".
    quiet: list[str] = Field(
        default_factory=list, json_schema_extra={"items": {"type": "string", "pattern": SPAN}}
    )
    # The most that all agents of this machine may use before the next one has to wait.
    memory_gb: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    processes: int | None = Field(default=None, ge=1)

    @field_validator("quiet")
    @classmethod
    def _are_times(cls, quiet: list[str]) -> list[str]:
        return [quiet_span(each, "no agent would ever work") for each in quiet]


class RetentionTable(FileTable):
    """`[retention]`: how much of the event log is kept. By default, everything."""

    keep_days: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    keep_mb: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    # A folder that history is copied to before it is removed.
    export: str | None = Field(default=None, min_length=1)


class McpServerTable(FileTable):
    """`[mcp_servers.NAME]`: an MCP server that native members can use."""

    command: str | None = None
    args: list[str] = Field(default_factory=list)
    env: dict[str, str] = Field(default_factory=dict)
    url: str | None = None
    headers: dict[str, str] = Field(default_factory=dict)

    @property
    def stated(self) -> dict[str, Any]:
        """Return the definition as it is stored with an agent."""
        return self.model_dump(exclude_unset=True)


class WebTable(FileTable):
    """`[web]`: how members reach the web."""

    search_url: str | None = None

    @field_validator("search_url")
    @classmethod
    def _can_be_asked(cls, url: str | None) -> str | None:
        if url is not None:
            try:
                check_search_url(url)
            except Invalid as error:
                raise ValueError(error.message.rstrip(".")) from None
        return url


class File(FileTable):
    """A whole team file."""

    team: TeamTable
    budget: BudgetTable = BudgetTable()
    workspace: WorkspaceTable = WorkspaceTable()
    shape: ShapeTable | None = None
    merge: MergeTable | None = None
    forge: ForgeTable | None = None
    guarded: GuardedTable = GuardedTable()
    models: dict[str, ModelTable] = Field(default_factory=dict)
    unattended: UnattendedTable = UnattendedTable()
    retention: RetentionTable = RetentionTable()
    notify: list[NotifyTable] = Field(default_factory=list)
    mcp_servers: dict[str, McpServerTable] = Field(default_factory=dict)
    web: WebTable = WebTable()
    after_edit: dict[str, list[str]] = Field(default_factory=dict)

    @field_validator("mcp_servers")
    @classmethod
    def _can_be_used(cls, servers: dict[str, McpServerTable]) -> dict[str, McpServerTable]:
        for name, table in servers.items():
            try:
                definition_of(name, table.stated)
            except Invalid as error:
                raise ValueError(error.message.rstrip(".")) from None
        return servers

    member: list[MemberTable] = Field(default_factory=list)
    task: list[TaskTable] = Field(default_factory=list)
    backlog: list[BacklogTable] = Field(default_factory=list)


def _part(kind: PartKind, name: str, ours: tuple[str, ...]) -> str:
    """The name of a part of Bullpen or of a package. Raises ValueError if there is none."""
    if name in ours:
        return name
    try:
        found = find_part(kind, name, ours)
    except Invalid as error:
        raise ValueError(f"{error.message} {error.remedy}".rstrip(".")) from None
    if found is None:
        known = [*ours, *(part.name for part in installed_parts(kind))]
        raise ValueError(f"there is no {kind} {name!r}{nearest(name, known)}")
    return name


def nearest(word: str, known: Sequence[str]) -> str:
    """Return a guess at what was meant, in brackets."""
    close = get_close_matches(word, known, n=1)
    if close:
        return f" (did you mean {close[0]!r}?)"
    return f" (available: {', '.join(known)})" if known else ""
