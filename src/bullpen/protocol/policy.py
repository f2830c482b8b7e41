"""What an agent may do, as it is stored: its policy at spawn, and what changed since."""

from __future__ import annotations

from typing import Any, Literal, get_args

from pydantic import Field

from bullpen.protocol.wire import Wire

Mode = Literal["default", "acceptEdits", "bypassPermissions", "plan", "delegate", "dontAsk"]
MODES: tuple[Mode, ...] = get_args(Mode)

DEFAULT_MODE: Mode = "default"
"""The mode of an agent for which nobody chose one: what changes anything is asked for."""

Approver = Literal["human", "lead", "policy", "inbox"]
"""Who answers when a tool call needs permission: a person, the lead, or the policy file.

`inbox` is a lead that is another vendor's program: its answers come as messages only.
"""

PlanApprover = Literal["human", "lead", "rule", "auto", "inbox"]
"""Who answers a plan. `rule` is a command; `auto` approves at once, as Claude Code does."""


class Sandbox(Wire):
    """How commands are closed in. What is not named here cannot be written, nor homes be read."""

    network: bool = False
    # Directories beside the working directories, readable or also writable inside.
    read: list[str] = Field(default_factory=list)
    write: list[str] = Field(default_factory=list)


class Policy(Wire):
    """What an agent may do beside its mode. Fixed at spawn; never wider than its parent's."""

    allow: list[str] = Field(default_factory=list)
    deny: list[str] = Field(default_factory=list)
    ask: list[str] = Field(default_factory=list)
    # Directories beside its own that count as inside the project.
    directories: list[str] = Field(default_factory=list)
    approver: Approver = "human"
    # The file that answers if the approver is `policy`; without one everything asked is denied.
    answers: str | None = None
    # Without an answer after so many seconds a permission or a plan is denied.
    deadline_s: float = 600.0
    plan_approver: PlanApprover = "lead"
    # The command that answers plans if the approver of plans is `rule`.
    plan_rule: str | None = None
    # The widest mode an approved plan can lead to.
    after_plan: Mode = "acceptEdits"
    # Of a lead that only leads: the widest mode of the teammates it spawns.
    teammates: Mode | None = None
    sandbox: dict[str, Any] | None = None
    # Where each rule comes from, for people to see: a file, a definition, a member.
    sources: dict[str, str] = Field(default_factory=dict)

    @property
    def closed_in(self) -> Sandbox | None:
        """The sandbox of its commands, if there shall be one."""
        return None if self.sandbox is None else Sandbox.parse(self.sandbox)


class Plan(Wire):
    """The plan that an agent submitted last: only an approval of this one counts."""

    request_id: str
    digest: str
    path: str | None = None


class Standing(Wire):
    """What changed of an agent's policy since its spawn, by whose word is in the event log."""

    # The mode now, if it is another than at spawn.
    mode: Mode | None = None
    # Rules and directories that an answer with "always" allowed.
    allow: list[str] = Field(default_factory=list)
    directories: list[str] = Field(default_factory=list)
    plan: dict[str, Any] | None = None

    @property
    def submitted(self) -> Plan | None:
        """The plan that was submitted last and not answered yet."""
        return None if self.plan is None else Plan.parse(self.plan)
