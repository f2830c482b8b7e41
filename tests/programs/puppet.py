"""Puppets for the driver contract: a real program with a model that does as it is told."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from bullpen.agents.contracts.driver import Driver
from bullpen.agents.drivers.make_driver import make_driver
from bullpen.agents.system.vendors.acp_presets import PRESETS
from bullpen.protocol.agent import AgentSpec
from bullpen.testing.desks import RecordingDesk
from bullpen.testing.models import MockModels

from .brain import ProgramBrain
from .real_programs import Placed, placed

_NEW_CELL = {
    "notebook_path": "{project}/a.ipynb",
    "new_source": "made",
    "edit_mode": "insert",
    "cell_type": "code",
}

_INPUTS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "codex": {
        "apply_patch": {
            "input": "*** Begin Patch\n*** Add File: {outside}/by-patch\n+made\n*** End Patch\n"
        },
        "create_goal": {"objective": "{task}"},
    },
    "claude": {"Skill": {"skill": "init"}, "NotebookEdit": _NEW_CELL},
    "claude-code": {"Skill": {"skill": "evil"}, "NotebookEdit": _NEW_CELL},
    "gemini": {
        "invoke_agent": {"agent_name": "generalist", "prompt": "{task}"},
        "web_fetch": {"prompt": "Summarize {url}/by-web_fetch"},
    },
    "opencode": {"skill": {"name": "customize-opencode"}},
    "qwen": {
        "notebook_edit": _NEW_CELL,
        "agent": {
            "description": "Do it.",
            "prompt": "{task}",
            "subagent_type": "general-purpose",
        },
    },
}
"""What to try of tools whose schema does not say it."""

_TRIES = {"claude": 3, "goose": 4}
"""How often a program repeats a request that was answered with 400, if it does."""


class ProgramPuppet:
    """A program whose model plays steps. Use its `mock` in a with block around the test.

    `driver_name` is the driver that drives it, `options` are those of the spec.
    """

    def __init__(
        self,
        program: str,
        folder: Path,
        *,
        driver_name: str,
        options: Mapping[str, Any] | None = None,
        own: Collection[str] = (),
        aside: Collection[str] = (),
    ) -> None:
        self._program = program
        self._folder = folder
        self.brain = ProgramBrain(own=own, aside=aside, tries=_TRIES.get(program, 1))
        self.mock = MockModels(self.brain)
        self.spec = AgentSpec.new(
            driver=driver_name, backend="in-process", cwd=str(folder), options=dict(options or {})
        )
        self.say = self.brain.say
        self.use_tool = self.brain.use_tool
        self.fail = self.brain.fail
        self.hang = self.brain.hang
        self.then = self.brain.then

    @property
    def tool_inputs(self) -> Mapping[str, Mapping[str, Any]]:
        """Inputs for tools whose schema does not say what they do."""
        return _INPUTS.get(self.spec.driver, {})

    @property
    def placed(self) -> Placed:
        """The program in the folder of the test."""
        return placed(self._program, self._folder, self.mock)

    @property
    def env(self) -> Mapping[str, str]:
        """The environment of the desk: the program's own, whole."""
        return self.placed.env

    def driver(self) -> Driver:
        """A new driver, as a new process would make one."""
        return make_driver(self.spec, self.env, limits=self._folder / "limits")

    def requests(self, desk: RecordingDesk) -> list[str]:
        """What was new in each request to work."""
        return self.brain.requests()

    def tokens(self, desk: RecordingDesk) -> int:
        """What the requests to work took: programs do not report what they ask beside them."""
        return self.mock.tokens(self.brain.is_work)


class AcpPuppet(ProgramPuppet):
    """A program that is driven over ACP by the preset of its name."""

    def __init__(self, name: str, folder: Path) -> None:
        super().__init__(name, folder, driver_name=PRESETS[name].name)
