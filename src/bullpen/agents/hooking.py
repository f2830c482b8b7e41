"""When the hooks of an agent run, what they are told, and what their answers do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bullpen.agents.policy.call import Call
from bullpen.protocol.policy import Mode
from bullpen.protocol.task import Task
from bullpen.team.policy_rules import Effect


@dataclass(frozen=True, slots=True)
class HookRuling:
    """What the hooks before a tool call say: nothing, or an effect and why; perhaps new input."""

    effect: Effect | None = None
    why: str = ""
    input: Mapping[str, Any] | None = None


class Hooking:
    """The hooks of one agent."""

    async def before_tool(self, call: Call, *, mode: Mode) -> HookRuling:
        """Run PreToolUse."""
        return HookRuling()

    async def after_tool(self, call: Call, text: str, *, failed: bool) -> str | None:
        """Run PostToolUse. Returns what the model is to be told beside the result."""
        return None

    async def turn_over(self, text: str, *, waiting: bool) -> str | None:
        """Run Stop, and TeammateIdle unless the agent is the lead or waits for somebody.

        Returns why the agent must go on, or None if it may rest.
        """
        return None

    async def started(self) -> None:
        """Run SubagentStart."""

    async def ended(self, cause: str | None) -> None:
        """Run SubagentStop."""

    async def task_created(self, task: Task) -> str | None:
        """Run TaskCreated. Returns why the task must not be added."""
        return None

    async def task_completed(self, task: Task) -> str | None:
        """Run TaskCompleted. Returns why the task is not done."""
        return None
