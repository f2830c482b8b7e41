"""Bullpen's facts about a member that it runs, under the key `bullpen` of its entry."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Literal

from bullpen.protocol.policy import DEFAULT_MODE, MODES, Mode, Policy, Standing
from bullpen.protocol.record import OrDefault, Wire, default, field

Phase = Literal["starting", "running", "ended"]
"""`starting`: registered and perhaps started. `running`: has proved that it can receive mail."""

End = Literal["stopped", "suspended", "finished", "failed", "lost"]
"""How an agent ended: stopped by somebody; suspended, stopped with its team and resumed with it;
finished, it agreed to end; failed; or lost, it fell silent.
"""

Failure = Literal[
    "rate_limit",
    "overload",
    "network",
    "server",
    "key",
    "permission",
    "credit",
    "model",
    "rejected",
    "too_long",
    "endless",
    "repeats",
    "requests",
]
"""Why a turn failed: mostly, why a model's API failed it.

It limits the rate of requests, is overloaded, is not reachable, or has an error of its own: these
pass. The key is wrong or may not be used for this, the account has no credit, the model is unknown:
these do not pass. The API does not accept the request, the prompt is too long, the answer does not
end. The model repeated the same calls, or made more requests than a turn may make.
"""

REFUSALS: frozenset[Failure] = frozenset({"key", "permission", "credit", "model"})
"""The failures that only a person can put right."""


GUEST = "guest"
"""The option of a guest, an agent in the team of another program: when it ends, it leaves the team.
"""


WorkspaceKind = Literal["shared", "worktree", "clone"]
"""`shared`: the user's checkout. `worktree`: its own worktree and branch in the same repository.
`clone`: its own repository.
"""

DirtyStart = Literal["refuse", "leave"]
"""What to do about uncommitted changes in the user's checkout, which an agent in its own worktree
would not see: refuse to start it, or leave them out.
"""

SETUP_S = 600.0
"""The default time limit for the setup of a worktree."""


class Workspace(Wire):
    """The workspace of one agent. With `shared`, `path` is the user's checkout."""

    kind: WorkspaceKind
    # The top of the user's checkout; for a clone, its source: a path or a URL.
    repository: str
    # The top of the agent's worktree, and the folder in it where it works.
    path: str
    inside: str = ""
    # Its branch, and the branch or commit that it starts from.
    branch: str | None = None
    base: str | None = None
    dirty: DirtyStart = "refuse"
    # The command that makes a new worktree ready for work.
    setup: str | None = None
    setup_s: float = field(default=SETUP_S, gt=0)


class Budget(Wire):
    """The most that may be used. None means no limit.

    `tokens` are those that a model reads for the first time or writes. Cached tokens cost a tenth,
    are read again with every request, and count as money only.
    """

    turns: int | None = field(default=None, gt=0)
    tokens: int | None = field(default=None, gt=0)
    usd: float | None = field(default=None, gt=0, finite=True)
    # Wall-clock seconds, working or not.
    wall_s: float | None = field(default=None, gt=0, finite=True)


class AgentSpec(Wire):
    """What was asked for at spawn: everything needed to start the agent, and to start it again."""

    driver: str
    backend: str
    cwd: str
    prompt: str | None = None
    model: str | None = None
    # The agent definition it was created from, and the instructions and tools in it.
    role: str | None = None
    instructions: str | None = None
    tools: list[str] | None = None
    disallowed_tools: list[str] | None = None
    mode: str | None = None
    # What it may do besides its mode.
    policy: OrDefault[Policy] = default(Policy.new)
    # Hook commands by event, in the format of Claude Code's settings.
    hooks: dict[str, Any] | None = None
    # Commands to run after it changed a file, by a pattern of names; {file} is its path.
    after_edit: dict[str, list[str]] | None = None
    # Its skills, for tasks that need them.
    skills: list[str] | None = None
    # Its MCP servers by name, in the format of Claude Code; variables are written as ${NAME}.
    mcp_servers: dict[str, Any] | None = None
    # The workspace. Without one it works in `cwd` as it is.
    workspace: Workspace | None = None
    # Whether the runner claims ready tasks for it when it is idle.
    claims: bool = False
    script: str | None = None
    turns_max: int | None = field(default=None, gt=0)
    # Its budget, including the agents it spawned. Its turns are `turns_max`.
    budget: OrDefault[Budget] = default(lambda: Budget.parse({}))
    # The names of the environment variables it gets; values are never stored.
    env: list[str] = field(default_factory=list)
    # The variables that were asked for by name: its commands get them too.
    env_asked: list[str] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def start_mode(self) -> Mode:
        """Return the mode it starts in. An unknown mode counts as the strictest that can ask."""
        return next((mode for mode in MODES if mode == self.mode), DEFAULT_MODE)

    @property
    def is_guest(self) -> bool:
        """Return whether its team is another program's, which it leaves when it ends."""
        return bool(self.options.get(GUEST))

    @cached_property
    def budget_with_turns(self) -> Budget:
        """Return its budget, including turns."""
        return self.budget.evolve(turns=self.turns_max)

    @property
    def own_tree(self) -> Workspace | None:
        """Return its own worktree or clone, if it has one."""
        tree = self.workspace
        return None if tree is None or tree.kind == "shared" else tree

    @property
    def worktree_path(self) -> str | None:
        """Return the top of its own worktree or clone."""
        tree = self.own_tree
        return None if tree is None else tree.path


class ProcessRecord(Wire):
    """Where an agent runs. `pid` and `start` together identify a process forever."""

    backend: str
    host: str
    pid: int | None = None
    start: str | None = None
    group: int | None = None
    # tmux: the server's socket and the pane.
    server: str | None = None
    pane: str | None = None
    # Where its output goes.
    log: str | None = None


class Usage(Wire):
    """What turns cost. `unpriced` counts the requests whose price is unknown.

    `estimated` counts those whose tokens were estimated, because their answer broke off before the
    API said how many it took. The last four estimate what Bullpen told the model, by kind: each
    text once, when it was told. A kind that is not known is absent.
    """

    turns: int = 0
    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost_usd: float = 0.0
    unpriced: int = 0
    estimated: int | None = None
    digest_tokens: int | None = None
    mail_tokens: int | None = None
    tool_tokens: int | None = None
    reminder_tokens: int | None = None

    @property
    def tokens(self) -> int:
        """Return the tokens that count for a budget: all except cached ones."""
        return self.input_tokens + self.output_tokens + self.cache_write_tokens

    def plus(self, other: Usage) -> Usage:
        """Return the sum of both."""
        return Usage.new(**sums(self, other))


def sums(one: Usage, other: Usage) -> dict[str, Any]:
    """Return the sum of every field of two usages, but for those that neither has."""
    found = {
        name: [value for value in (getattr(one, name), getattr(other, name)) if value is not None]
        for name in Usage.field_keys()
    }
    return {name: sum(values[1:], values[0]) for name, values in found.items() if values}


COORDINATION = "-"
"""What is used for coordination, not for a task."""

OLDER = "older tasks"
"""What older tasks used together. It cannot be the id of a task."""


REVIEWER = "+review"
"""Whose usage the cost of reviews is. No member can have this name."""


class Spent(Usage):
    """What was used for one purpose, with one model. An agent has one such row for each."""

    task: str = COORDINATION
    model: str | None = None
    # Whose usage it is and who spawned that agent, if the row is not with its agent.
    agent: str | None = None
    parent: str | None = None

    @cached_property
    def usage(self) -> Usage:
        """Return what was used, without the purpose."""
        return Usage.new(**{name: getattr(self, name) for name in Usage.field_keys()})


class AgentFacts(Wire):
    """A member that Bullpen runs: how it was created, where it runs, how it ended."""

    # What was asked for at spawn.
    spec: AgentSpec
    key: str | None = None
    parent: str | None = None
    depth: int = 1
    # The message with its prompt, until it is in its mailbox.
    prompt_id: str | None = None
    # Each start is a launch with its own nonce; only the newest may act.
    launch: int = 1
    nonce: str
    phase: Phase = "starting"
    since_ms: int
    # Where it runs or ran.
    process: ProcessRecord | None = None
    end: End | None = None
    cause: str | None = None
    # Why its last turn failed: a `Failure`, or one of a newer version.
    failure: str | None = None
    # Its usage so far, for all launches.
    usage: OrDefault[Usage] = default(Usage.new)
    # The same by task and model, and how many of its runner's reports are included.
    spent: list[Spent] = field(default_factory=list)
    reports: int = 0
    # The number of the last turn whose end is recorded.
    turn_ended: int = 0
    # The limits that it reached, and the one that ended it, if any.
    met: list[str] = field(default_factory=list)
    at_limit: str | None = None
    # When it was spawned.
    began_ms: int | None = None
    # What changed in its policy since it was spawned.
    standing: OrDefault[Standing] = default(Standing.new)

    @property
    def mode(self) -> Mode:
        """Return its current mode."""
        return self.standing.mode or self.spec.start_mode

    @cached_property
    def account(self) -> list[Spent]:
        """Return its usage by task and model. Usage without a task counts as coordination."""
        if self.spent or not self.has("usage"):
            return self.spent
        return [Spent.new(**{name: getattr(self.usage, name) for name in Usage.field_keys()})]
