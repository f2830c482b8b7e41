"""Puppets for the driver contract: a real program with a model that does as it is told."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from brain import ProgramBrain

from bullpen.agents.drivers.acp.presets import PRESETS
from bullpen.agents.drivers.base import Driver
from bullpen.agents.drivers.choice import make_driver
from bullpen.protocol.agent import AgentSpec
from bullpen.testing.desks import RecordingDesk
from bullpen.testing.models import MockModels
from programs import Placed, placed

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


class AcpPuppet(ProgramPuppet):
    """A program that is driven over ACP by the preset of its name."""

    def __init__(self, name: str, folder: Path) -> None:
        super().__init__(name, folder, driver_name=PRESETS[name].name)
