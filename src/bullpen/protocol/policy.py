"""What an agent may do, as it is stored: its policy at spawn, and what changed since."""

from __future__ import annotations

from typing import Literal, get_args

from bullpen.protocol.record import Wire, field

Mode = Literal["default", "acceptEdits", "bypassPermissions", "plan", "delegate", "dontAsk"]
MODES: tuple[Mode, ...] = get_args(Mode)

DEFAULT_MODE: Mode = "default"
"""The default mode of an agent: everything that changes something needs approval."""

Approver = Literal["human", "lead", "policy", "inbox"]
"""Who answers when a tool call needs permission: a person, the lead, or the policy file.

`inbox` is a lead that is another vendor's program: its answers come as messages only.
"""

PlanApprover = Literal["human", "lead", "rule", "auto", "inbox"]
"""Who answers a plan. `rule` is a command; `auto` approves at once, as Claude Code does."""


class Sandbox(Wire):
    """The sandbox of an agent. Nothing else can be written, and home folders cannot be read."""

    # Every public host can be reached; the machine's own and private addresses never.
    network: bool = False
    # Hosts that can be reached: NAME, NAME:PORT or *.NAME.
    hosts: list[str] = field(default_factory=list)
    # Directories besides the working directories that are readable, or also writable, inside.
    read: list[str] = field(default_factory=list)
    write: list[str] = field(default_factory=list)


class Policy(Wire):
    """What an agent may do besides its mode. Fixed at spawn; never wider than its parent's."""

    allow: list[str] = field(default_factory=list)
    deny: list[str] = field(default_factory=list)
    ask: list[str] = field(default_factory=list)
    # Directories besides its own that count as inside the project.
    directories: list[str] = field(default_factory=list)
    approver: Approver = "human"
    # The file that answers if the approver is `policy`; without one, all requests are denied.
    answers: str | None = None
    # Without an answer after this many seconds, a permission or a plan is denied.
    deadline_s: float = 600.0
    plan_approver: PlanApprover = "lead"
    # The command that answers plans if the plan approver is `rule`.
    plan_rule: str | None = None
    # The widest mode an approved plan can lead to.
    after_plan: Mode = "acceptEdits"
    # For a lead that only leads: the widest mode of the teammates it spawns.
    teammates: Mode | None = None
    # The sandbox of its commands, if there is one.
    sandbox: Sandbox | None = None
    # Where each rule comes from, for people to see: a file, a definition, a member.
    sources: dict[str, str] = field(default_factory=dict)


class Plan(Wire):
    """The plan that an agent submitted last. Only an approval of this one counts."""

    request_id: str
    digest: str
    path: str | None = None


class Standing(Wire):
    """What changed in an agent's policy since its spawn. The event log says who changed it."""

    # The current mode, if it differs from the mode at spawn.
    mode: Mode | None = None
    # The lead that gave it this mode, or "a person"; without it, the agent's plan did.
    mode_by: str | None = None
    # Rules and directories that "always" answers allowed.
    allow: list[str] = field(default_factory=list)
    directories: list[str] = field(default_factory=list)
    # For a lead that was told to only lead: the widest mode of the teammates it spawns.
    teammates: Mode | None = None
    # The plan that was submitted last and not answered yet.
    plan: Plan | None = None
