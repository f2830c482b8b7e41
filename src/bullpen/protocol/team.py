"""`teams/{team}/config.json`: a team and its members, with Bullpen's facts in `bullpen`."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Any, Literal, Self, TypeAlias, get_args

from bullpen.errors import Invalid
from bullpen.protocol import names
from bullpen.protocol.agent import AgentFacts, Spent
from bullpen.protocol.forge import ForgeNight, ForgeSettings
from bullpen.protocol.names import LEAD
from bullpen.protocol.record import OrAbsent, OrDefault, Otherwise, StrictBool, Wire, default, field
from bullpen.protocol.request import Voice
from bullpen.protocol.task import Check

STALL_S = 900.0
"""How long a member may show no progress, by default."""

IN_PROCESS = "in-process"
"""What stands for the pane, and for the backend, of an agent inside another process."""

AgentsMay: TypeAlias = Literal[
    "member.add",
    "member.remove",
    "member.spawn",
    "member.stop",
    "task.delete",
    "task.release",
    "task.retry",
]
"""What a team may open to all its agents although it is the lead's, an owner's or a parent's."""

AGENTS_MAY: tuple[AgentsMay, ...] = get_args(AgentsMay)


class Limits(Wire):
    """Hard limits of a team, checked before each spawn, each turn and each request."""

    agents: int = 50
    depth: int = 2
    spawns_per_minute: int = 60
    turns: int = 500
    # Model requests in one turn of an agent.
    requests: int = field(default=200, gt=0)
    tokens: int | None = field(default=None, gt=0)
    usd: float | None = field(default=None, gt=0, finite=True)
    # Seconds since the first spawn, or since there was a new goal.
    wall_s: float | None = field(default=None, gt=0, finite=True)
    # What the agents of a machine may use together, checked when one more of this team is started.
    memory_mb: int | None = field(default=None, gt=0)
    processes: int | None = field(default=None, gt=0)


class LeadLease(Wire):
    """Who leads: a process, for a limited time. Another may take over when the lease expires."""

    nonce: str
    until_ms: int
    host: str | None = None
    pid: int | None = None
    start: str | None = None


class Finished(Wire):
    """The report that the goal is reached: the lead's, or that of a person who ended the run.

    `override` says why although tasks are open. A person needs no reason.
    """

    by: str
    at_ms: int
    summary: str
    override: str | None = None
    # `human` if a person ended the run.
    voice: Voice | None = None


RunStatus = Literal[
    "running", "done", "ended", "waits", "unfinished", "budget", "failed", "lost", "interrupted"
]
"""How a run ended. `ended`: a person ended it; `waits`: what is left waits for people; `lost`: its
process or that of an agent vanished.
"""


class RunEnd(Wire):
    """How the last run of a team ended, as the run itself found."""

    status: Annotated[RunStatus, Otherwise("unfinished")]
    at_ms: int
    why: str | None = None


class Origin(Wire):
    """The team file that a team was created from. A fact of the team."""

    file: str
    # The same for two files that describe the same team; tasks and budget do not count.
    digest: str
    # Whether every member and task was added; if not, the next `up` continues.
    complete: StrictBool = False
    # The budget in the file last time, to notice a change.
    budget: dict[str, Any] = field(default_factory=dict)


class Unattended(Wire):
    """What Bullpen does unattended. A fact of the team."""

    # A member without progress for this long is nudged.
    stall_s: float = field(default=STALL_S, gt=0)
    # How many times it is nudged before the task goes to another member.
    nudges: int = field(default=1, ge=0)
    # How many failed attempts a task gets before it is given up.
    attempts: int = field(default=4, ge=1)
    # Local times of day at which nobody works, as "22:00-06:30".
    quiet: list[str] = field(default_factory=list)


class Retention(Wire):
    """How much of the event log is kept. A fact of the team; without it, everything is kept."""

    # Parts of the log whose last event is older than this are removed.
    keep_days: float | None = field(default=None, gt=0, finite=True)
    # The oldest parts are removed while all parts together are larger than this.
    keep_mb: float | None = field(default=None, gt=0, finite=True)
    # The folder that a part is copied to before it is removed.
    export: str | None = field(default=None, min_length=1)


class MergeSettings(Wire):
    """How the work of a team is merged. A fact of the team."""

    # The top of the user's checkout, and the folder in it where the gate and the commands run.
    repository: str
    inside: str = ""
    target: str
    # What must pass on the target after each step, besides the tasks' own checks.
    gate: list[Check] = field(default_factory=list)
    # How many are tried together; if they fail together, the one to blame is searched for.
    batch: int = field(default=4, ge=1, le=64)
    # How many times a failure is tried again before the work goes back to its owner.
    retries: int = field(default=1, ge=0, le=10)
    # A command that runs after the target moved, to push or to open a pull request.
    after: str | None = None
    setup: str | None = None
    # The author of the commits that Bullpen makes, as `Name <address>`; None for git's own.
    author: str | None = None
    # Patterns of paths that are guarded besides the list, and of those that are not after all.
    guarded: list[str] = field(default_factory=list)
    unguarded: list[str] = field(default_factory=list)


class TeamFacts(Wire):
    """Bullpen's facts about the team itself."""

    limits: OrDefault[Limits] = default(lambda: Limits.parse({}))
    # The lead lease, if anybody ever took it.
    lead: LeadLease | None = None
    # How the lead or a person finished, if one did.
    finished: Finished | None = None
    # How the last run ended; None while one is under way, or if it vanished.
    run_end: OrAbsent[RunEnd | None] = None
    # Whether a person talks with the lead: it waits for words and is not reminded to finish.
    conversation: OrAbsent[StrictBool | None] = None
    # When agents were recently spawned, for the limit on spawns per minute.
    spawned_ms: list[int] = field(default_factory=list)
    # When the time limit started, and the usage of members that have left.
    began_ms: int | None = None
    spent: list[Spent] = field(default_factory=list)
    # How its work is merged.
    merge: OrAbsent[MergeSettings | None] = None
    # The forge whose issues it takes, and where its work goes.
    forge: OrAbsent[ForgeSettings | None] = None
    # The nights whose work goes there in one pull request each.
    nights: OrAbsent[list[ForgeNight] | None] = None
    # The file it was created from, and what Bullpen does unattended.
    origin: Origin | None = None
    unattended: OrDefault[Unattended] = default(lambda: Unattended.parse({}))
    # How much of its log is kept. Damaged settings remove nothing.
    retention: OrAbsent[Retention | None] = None
    # Since when everybody is paused for quiet hours.
    quiet_ms: int | None = None
    # What its agents may do besides what is theirs. If it is damaged, nothing.
    agents_may: OrAbsent[list[AgentsMay] | None] = None


class Member(Wire):
    """One entry of `members`. The lead's has no prompt, colour or plan flag."""

    agent_id: str = ""
    name: str = field(min_length=1)
    agent_type: str | None = None
    model: str | None = None
    prompt: str | None = None
    color: str | None = None
    plan_mode_required: bool | None = None
    joined_at: int | float | None = None
    tmux_pane_id: str | None = None
    cwd: str | None = None
    subscriptions: list[Any] | None = None
    backend_type: str | None = None
    is_active: bool | None = None
    mode: str | None = None
    worktree_path: str | None = None
    allowed_tools: list[str] | None = None
    disallowed_tools: list[str] | None = None
    bullpen: Any = None

    @cached_property
    def agent(self) -> AgentFacts | None:
        """Return Bullpen's facts about it. Damaged facts count as none: it may not be ours."""
        try:
            return AgentFacts.parse(self.bullpen)
        except ValueError:
            return None

    @property
    def is_lead(self) -> bool:
        """Return whether this is the lead."""
        return LEAD in (self.name, self.agent_type)


class TeamConfig(Wire):
    """A team. A simplified variant has `teamName` instead of `name`."""

    name: str = field(other_key="teamName", min_length=1)
    description: str | None = None
    created_at: int | float | None = None
    lead_agent_id: str | None = None
    lead_session_id: str | None = None
    lead_process: dict[str, Any] | None = None
    bullpen: Any = None
    members: list[Any] = field(default_factory=list)

    @cached_property
    def _rows(self) -> tuple[tuple[Member, ...], tuple[tuple[int, str], ...]]:
        good: list[Member] = []
        bad: list[tuple[int, str]] = []
        taken: set[str] = set()
        for index, row in enumerate(self.members):
            try:
                member = Member.parse(row)
                names.check_component(member.name, kind="member name")
            except (ValueError, Invalid) as error:
                bad.append((index, str(error)))
                continue
            if member.name in taken:
                bad.append((index, f"another entry has the same name {member.name!r}"))
                continue
            taken.add(member.name)
            good.append(member)
        return tuple(good), tuple(bad)

    @property
    def roster(self) -> tuple[Member, ...]:
        """Return the members whose entries can be read, in join order."""
        return self._rows[0]

    @property
    def bad_rows(self) -> tuple[tuple[int, str], ...]:
        """Return position and reason of every entry that is not a valid member."""
        return self._rows[1]

    def member(self, name: str) -> Member | None:
        """Return the member with that name."""
        return next((member for member in self.roster if member.name == name), None)

    def with_member(self, member: Member) -> Self:
        """Return the team with this member added, or its entry replaced."""
        rows = list(self.members)
        for index, row in enumerate(rows):
            if isinstance(row, dict) and row.get("name") == member.name:
                rows[index] = member.raw
                break
        else:
            rows.append(member.raw)
        team = self.with_rows(rows)
        good, bad = self._rows
        if not bad and any(each.name == member.name for each in good):
            # Nobody else changed, so nobody else is parsed again.
            roster = tuple(member if each.name == member.name else each for each in good)
            team.__dict__["_rows"] = roster, ()
        return team

    def without_member(self, name: str) -> Self:
        """Return the team without the member of that name."""
        rows = [
            row for row in self.members if not (isinstance(row, dict) and row.get("name") == name)
        ]
        return self.with_rows(rows)

    def with_rows(self, rows: list[Any]) -> Self:
        """Return the team with exactly these member entries."""
        return self._evolved(members=rows)

    @cached_property
    def facts(self) -> TeamFacts:
        """Return Bullpen's facts about the team; all defaults if another program created it."""
        try:
            return TeamFacts.parse(self.bullpen or {})
        except ValueError:
            return TeamFacts.new()

    @property
    def header(self) -> dict[str, Any]:
        """Return everything except the members."""
        return {key: value for key, value in self.raw.items() if key != "members"}
