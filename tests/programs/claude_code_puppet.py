"""A real Claude Code as a teammate, with a model that does as it is told."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

from bullpen.testing.models import Call, Fault, ModelRequest, Reply

from .brain import ProgramBrain
from .puppet import ProgramPuppet

OWN = ("TaskCreate", "TaskGet", "TaskList", "TaskUpdate", "SendMessage", "ExitPlanMode")
"""The program's own tools for the team; those of our server act on the same list."""

MODEL = "claude-opus-4-6"
"""One with which every version has tools for tasks of its own."""

TRIES = 3
"""How often the newest version asks before it believes a 400 that it does not know."""

_PLAN_FILE = re.compile(r"/[^\s\"\\]+/plans/[\w-]+\.md")


class PlanningBrain(ProgramBrain):
    """A model that writes its plan where the program says, and then submits it."""

    def use_tool(self, name: str, tool_input: dict[str, Any], *, saying: str = "") -> None:
        if name != "ExitPlanMode":
            super().use_tool(name, tool_input, saying=saying)
            return
        # The program says where the plan belongs when its model has looked at something.
        super().use_tool("TaskList", {})
        super().use_tool("Write", {"file_path": "", "content": tool_input["plan"]}, saying=saying)
        super().use_tool("ExitPlanMode", {})

    def _translated(self, step: Reply | Fault, request: ModelRequest) -> Reply | Fault:
        if isinstance(step, Reply):
            step = replace(step, calls=[_placed(call, request) for call in step.calls])
        return super()._translated(step, request)


def _placed(call: Call, request: ModelRequest) -> Call:
    """The call, with the file for plans that the program has named."""
    if call.input.get("file_path") != "":
        return call
    found = _PLAN_FILE.search(json.dumps(request.body))
    assert found is not None, "the program named no file for the plan"
    return Call(call.name, {**call.input, "file_path": found[0]}, call.id)


class ClaudeCodePuppet(ProgramPuppet):
    """A Claude Code of one version. `own` are the tools that its model has of the program."""

    def __init__(self, version: str, folder: Path, *, own: Collection[str] = OWN) -> None:
        super().__init__(f"claude-code-{version}", folder, driver_name="claude-code")
        self.brain = self.mock.brain = PlanningBrain(own=own, tries=TRIES)
        self.spec = self.spec.evolve(model=MODEL)
        self.say, self.use_tool = self.brain.say, self.brain.use_tool
        self.fail, self.hang, self.then = self.brain.fail, self.brain.hang, self.brain.then
