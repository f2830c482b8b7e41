"""What Bullpen knows of a member that it runs, and of a team that it runs: our own facts.

They live under the key `bullpen` of a member's row and of the team itself, where other programs
keep what they do not know.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from bullpen.protocol.budget import Budget
from bullpen.protocol.policy import DEFAULT_MODE, MODES, Mode, Policy, Standing
from bullpen.protocol.unattended import Origin, Unattended
from bullpen.protocol.wire import Wire
from bullpen.protocol.workspace import Workspace

Phase = Literal["starting", "running", "ended"]
"""`starting` is registered and perhaps started; `running` has proved that it can receive."""

End = Literal["stopped", "suspended", "finished", "failed", "lost"]
"""How an agent ended: somebody stopped it, it was stopped with its team and goes on with it, it
agreed to end, it broke, or it fell silent."""


GUEST = "guest"
"""The option of an agent in the team of another program: when it ends, it leaves the team."""


class AgentSpec(Wire):
    """What was asked for at spawn: all that is needed to start the agent, and to start it again."""

    driver: str
    backend: str
    cwd: str
    prompt: str | None = None
    model: str | None = None
    # The agent definition it was made from, and the instructions and tools that this gave.
    role: str | None = None
    instructions: str | None = None
    tools: list[str] | None = None
    disallowed_tools: list[str] | None = None
    mode: str | None = None
    policy: dict[str, Any] | None = None
    # Hook commands by event, in the format of Claude Code's settings.
    hooks: dict[str, Any] | None = None
    # What it can do, for tasks that need it.
    skills: list[str] | None = None
    # The tree it works in: see `protocol.workspace`. Without one it works in `cwd` as it is.
    workspace: dict[str, Any] | None = None
    # Whether the runner takes ready tasks for it when it is idle.
    claims: bool = False
    script: str | None = None
    turns_max: int | None = None
    # What it may use, those that it spawned included. Its turns are `turns_max`.
    budget: dict[str, Any] | None = None
    # The names of the environment variables it gets; values are never stored.
    env: list[str] = Field(default_factory=list)
    # Those of them that somebody asked for by name: they are for its commands too.
    env_asked: list[str] = Field(default_factory=list)
    options: dict[str, Any] = Field(default_factory=dict)

    @property
    def start_mode(self) -> Mode:
        """The mode it starts in. One that is not known is the strictest that can ask."""
        return next((mode for mode in MODES if mode == self.mode), DEFAULT_MODE)

    @property
    def is_guest(self) -> bool:
        """Whether its team is another program's, which it leaves when it ends."""
        return bool(self.options.get(GUEST))

    @property
    def cap(self) -> Budget:
        """What it may use at most."""
        return Budget.parse(self.budget or {}).evolve(turns=self.turns_max)

    @property
    def tree(self) -> Workspace | None:
        """The tree it works in, if it was given one."""
        return None if self.workspace is None else Workspace.parse(self.workspace)

    @property
    def own_tree(self) -> Workspace | None:
        """The tree that is its alone, if it has one."""
        tree = self.tree
        return None if tree is None or tree.kind == "shared" else tree

    @property
    def worktree_path(self) -> str | None:
        """The top of the tree that is its alone."""
        tree = self.own_tree
        return None if tree is None else tree.path

    @property
    def rights(self) -> Policy:
        """What it may do beside its mode."""
        return Policy.new() if self.policy is None else Policy.parse(self.policy)


class ProcessRecord(Wire):
    """A place where an agent runs. `pid` and `start` together name a process for good."""

    backend: str
    host: str
    pid: int | None = None
    start: str | None = None
    group: int | None = None
    # tmux: the server's socket and the pane.
    server: str | None = None
    pane: str | None = None
    # Where what it prints goes.
    log: str | None = None


class Usage(Wire):
    """What turns cost. `unpriced` counts the requests whose price is not known."""

    turns: int = 0
    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost_usd: float = 0.0
    unpriced: int = 0

    @property
    def tokens(self) -> int:
        """The tokens that count for a budget: all but those that came from a cache."""
        return self.input_tokens + self.output_tokens + self.cache_write_tokens

    def plus(self, other: Usage) -> Usage:
        """Both together."""
        return Usage.new(
            **{name: getattr(self, name) + getattr(other, name) for name in Usage.model_fields}
        )


COORDINATION = "-"
"""What is used for no task, but to work together."""


class Spent(Usage):
    """What was used for one thing, with one model. An agent has one such row for each."""

    task: str = COORDINATION
    model: str | None = None
    # Whose it was and who had spawned that one, where the row does not stand with its agent.
    agent: str | None = None
    parent: str | None = None

    @property
    def usage(self) -> Usage:
        """What was used, without what for."""
        return Usage.new(**{name: getattr(self, name) for name in Usage.model_fields})


class AgentFacts(Wire):
    """A member that is an agent of ours: how it was made, where it runs, how it ended."""

    spec: dict[str, Any]
    key: str | None = None
    parent: str | None = None
    depth: int = 1
    # The message with its prompt, until that is in its mailbox.
    prompt_id: str | None = None
    # Each start is a launch with a nonce of its own; only the newest may act.
    launch: int = 1
    nonce: str
    phase: Phase = "starting"
    since_ms: int
    process: dict[str, Any] | None = None
    end: End | None = None
    cause: str | None = None
    usage: dict[str, Any] | None = None
    # The same by task and model; how many reports of its runner are in it.
    spent: list[dict[str, Any]] = Field(default_factory=list)
    reports: int = 0
    # The limits that it met, and the one that ended it, if one did.
    met: list[str] = Field(default_factory=list)
    at_limit: str | None = None
    # When it was spawned.
    began_ms: int | None = None
    standing: dict[str, Any] | None = None

    @property
    def stands(self) -> Standing:
        """What changed of its policy since its spawn."""
        return Standing.new() if self.standing is None else Standing.parse(self.standing)

    @property
    def mode(self) -> Mode:
        """The mode it is in now."""
        return self.stands.mode or self.asked.start_mode

    @property
    def asked(self) -> AgentSpec:
        """What was asked for."""
        return AgentSpec.parse(self.spec)

    @property
    def place(self) -> ProcessRecord | None:
        """Where it runs or ran."""
        return None if self.process is None else ProcessRecord.parse(self.process)

    @property
    def used(self) -> Usage:
        """What it has used so far, all launches together."""
        return Usage.new() if self.usage is None else Usage.parse(self.usage)

    @property
    def account(self) -> list[Spent]:
        """What it has used so far by task and model. What was not told apart is coordination."""
        if self.spent or self.usage is None:
            return [Spent.parse(row) for row in self.spent]
        return [Spent.new(**{name: getattr(self.used, name) for name in Usage.model_fields})]


class Limits(Wire):
    """Hard limits of a team, checked before each spawn, each turn and each request."""

    agents: int = 50
    depth: int = 2
    spawns_per_minute: int = 60
    turns: int = 500
    tokens: int | None = Field(default=None, gt=0)
    usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    # Seconds since the first spawn, or since there was a new goal.
    wall_s: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    # What the agents of a machine may use of it together, when one more of this team is started.
    memory_mb: int | None = Field(default=None, gt=0)
    processes: int | None = Field(default=None, gt=0)


class LeadLease(Wire):
    """Who leads at the moment: a process, for a time. Another may take over when it is over."""

    nonce: str
    until_ms: int
    host: str | None = None
    pid: int | None = None
    start: str | None = None


class Finished(Wire):
    """The lead's word that the goal is reached. `override` says why in spite of open tasks."""

    by: str
    at_ms: int
    summary: str
    override: str | None = None


class TeamFacts(Wire):
    """Our facts about the team itself."""

    limits: dict[str, Any] | None = None
    lead: dict[str, Any] | None = None
    finished: dict[str, Any] | None = None
    # When agents were spawned of late, for the limit on their rate.
    spawned_ms: list[int] = Field(default_factory=list)
    # Since when the limit on time counts, and what members used that have left.
    began_ms: int | None = None
    spent: list[dict[str, Any]] = Field(default_factory=list)
    # How its work is brought together: see `protocol.merge`.
    merge: dict[str, Any] | None = None
    # The file it was made from, and what code does when nobody looks: see `protocol.unattended`.
    origin: dict[str, Any] | None = None
    unattended: dict[str, Any] | None = None
    # Since when everybody is paused because these are quiet hours.
    quiet_ms: int | None = None

    @property
    def made_from(self) -> Origin | None:
        """The file it was made from, if it was."""
        return None if self.origin is None else Origin.parse(self.origin)

    @property
    def habits(self) -> Unattended:
        """What code does when nobody looks, each at its default unless set."""
        return Unattended.parse(self.unattended or {})

    @property
    def account(self) -> list[Spent]:
        """What members used that have left, by task and model."""
        return [Spent.parse(row) for row in self.spent]

    @property
    def bounds(self) -> Limits:
        """The limits, each at its default unless set."""
        return Limits.parse(self.limits or {})

    @property
    def lead_lease(self) -> LeadLease | None:
        """The lease of the lead, if anybody ever took it."""
        return None if self.lead is None else LeadLease.parse(self.lead)

    @property
    def result(self) -> Finished | None:
        """How the lead finished, if it did."""
        return None if self.finished is None else Finished.parse(self.finished)
