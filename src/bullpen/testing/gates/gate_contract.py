"""The contract of a program's gate: every tool that it offers asks, or is declared not to.

A subclass has a fixture `puppet`, of another vendor's program whose model is a `MockModels`. The
program works in a repository with hostile settings, and its model tries every tool.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, Protocol

import anyio
import pytest

from bullpen.agents.contracts.call import Call
from bullpen.agents.contracts.driver import Capabilities, Driver, TurnFailed, TurnInput
from bullpen.agents.drivers.tool_server.mcp_server import SERVER_NAME
from bullpen.agents.system.vendors.acp_presets import PRESETS
from bullpen.agents.system.vendors.obeyed_files import obeyed_files, unapproved_files
from bullpen.agents.system.vendors.programs import PROGRAMS
from bullpen.errors import Refused
from bullpen.protocol.agent import AgentSpec
from bullpen.team.team import Team
from bullpen.testing.desks import RecordingDesk
from bullpen.testing.driver_stage import DEADLINE_S, Puppet, Stage, started
from bullpen.testing.gates.hostile_files import hostile_files, write
from bullpen.testing.gates.tool_trial import Outcome, ToolTrial, TrialPlace
from bullpen.testing.models import MockModels

_IN_ONE_TURN = 4
"""How many calls are tried in one turn: after some refusals the driver ends it."""

GateMode = Literal["default", "plan", "deny"]
"""What is permitted: to read in the project; to read anything; nothing."""


class ProgramPuppet(Puppet, Protocol):
    """A real program whose model answers as `mock.brain` does."""

    mock: MockModels
    spec: AgentSpec

    @property
    def tool_inputs(self) -> Mapping[str, Mapping[str, Any]]:
        """Return inputs for tools whose schema does not say what they do.

        `{project}`, `{outside}`, `{url}` and `{task}` in them stand for what they name.
        """


class GateContract(Stage):
    """What must hold for the gate of every program."""

    @pytest.fixture
    def place(self, puppet: ProgramPuppet, tmp_path: Path) -> Iterator[TrialPlace]:
        with TrialPlace(tmp_path) as place:
            puppet.spec = puppet.spec.evolve(cwd=str(place.project))
            yield place

    @pytest.mark.parametrize("mode", ["default", "plan", "deny"])
    async def test_in_a_hostile_repository_every_tool_asks_or_is_declared(
        self, puppet: ProgramPuppet, place: TrialPlace, team: Team, tmp_path: Path, mode: GateMode
    ) -> None:
        env = puppet.env
        # What the program obeys all the same is refused, which is tested below.
        files = hostile_files(puppet.spec.driver, place, env)
        write([file for file in files if not file.obeyed])
        if mode == "plan":
            puppet.spec = puppet.spec.evolve(mode="plan")
        (folder := tmp_path / "ann").mkdir()
        desk = RecordingDesk(team, "ann", folder, puppet.spec, env=env)
        desk.rule = _rule(mode, place.project)
        async with started(puppet, desk) as driver:
            outcomes = await tried(driver, desk, puppet, place)
        assert not place.canaries, f"settings ran commands: {place.canaries}"
        assert_gated(outcomes, driver.capabilities, puppet.spec.driver, mode)

    def test_what_the_program_obeys_all_the_same_needs_trust(
        self, puppet: ProgramPuppet, place: TrialPlace
    ) -> None:
        driver, project = puppet.spec.driver, place.project
        files = hostile_files(driver, place, puppet.env)
        write([file for file in files if file.path.is_relative_to(project)])
        wanted = {file.path for file in files if file.obeyed}
        assert {path for path, _, _ in obeyed_files(driver, project)} == wanted
        assert set(unapproved_files(driver, project, None)) == wanted


async def tried(
    driver: Driver, desk: RecordingDesk, puppet: ProgramPuppet, place: TrialPlace
) -> list[Outcome]:
    """Let the model try every tool, in one conversation."""
    trial = ToolTrial(place, desk.wanted)
    puppet.mock.brain = trial
    await _turn(driver, desk, "Look at your tools.")
    attempts = trial.attempts(team=SERVER_NAME, known=puppet.tool_inputs)
    while len(trial.outcomes) < len(attempts):
        begun = len(trial.outcomes)
        trial.todo = attempts[begun : begun + _IN_ONE_TURN]
        # A program may end its turn when a call is refused.
        with suppress(TurnFailed):
            await _turn(driver, desk, "Go on.")
        trial.end("")
        assert len(trial.outcomes) > begun, "the model was not asked for another call"
    return trial.outcomes


def assert_gated(
    outcomes: Sequence[Outcome], can: Capabilities, driver: str, mode: GateMode
) -> None:
    """Check that nothing was done, and that only what is declared was not asked about."""
    table = "\n".join(map(str, outcomes))
    assert outcomes, "the program offered no tool"
    did = [each for each in outcomes if each.done]
    assert not did, f"done without a yes: {', '.join(map(str, did))}\n{table}"
    declared = set(PROGRAMS[driver].unasked_tools)
    shells = {each.attempt.tool for each in outcomes if each.attempt.runs}
    free = declared | (set() if can.asks_to_run else shells)
    if mode != "plan":
        leaks = [each for each in outcomes if each.leaked and each.attempt.tool not in free]
        assert not leaks, f"read without a yes: {', '.join(map(str, leaks))}\n{table}"
    if mode != "default":
        return
    offered = {each.attempt.tool for each in outcomes}
    # A program may reject one of several calls by itself, before it asks.
    refused = {name.rpartition("__")[2] for name in refused_tools(driver)}
    asking = refused | {each.attempt.tool for each in outcomes if each.asked}
    commands = [each for each in outcomes if each.attempt.runs and not each.asked]
    assert not commands or not can.asks_to_run, f"ran without asking: {commands}\n{table}"
    assert commands or can.asks_to_run, f"it asks before all commands: declare it\n{table}"
    unasked = offered - asking - shells
    assert unasked <= declared, f"never asked: {sorted(unasked - declared)}\n{table}"
    asked = declared & asking
    assert not asked, f"declared as unasked, but it asks: {sorted(asked)}\n{table}"


def refused_tools(driver: str) -> tuple[str, ...]:
    """Return the tools whose calls the driver refuses by itself."""
    preset = PRESETS.get(driver)
    return () if preset is None else preset.refused_tools


def _rule(mode: GateMode, project: Path) -> Callable[[Call], Mapping[str, Any]]:
    def rule(call: Call) -> Mapping[str, Any]:
        inside = any(
            isinstance(value, str) and Path(value).is_relative_to(project)
            for value in call.input.values()
        )
        if call.kind == "read" and (mode == "plan" or (mode == "default" and inside)):
            return call.input
        raise Refused("You may not.", reason="denied")

    return rule


async def _turn(driver: Driver, desk: RecordingDesk, text: str) -> None:
    with anyio.fail_after(DEADLINE_S):
        await driver.turn(TurnInput(text), desk)
