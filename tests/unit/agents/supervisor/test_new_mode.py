"""A new mode is refused where nothing could enforce it, or a settings file disables it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bullpen.agents.config.spec import SpawnFiles
from bullpen.agents.supervisor.new_mode import change_mode, mode_told
from bullpen.errors import Invalid, Refused
from bullpen.protocol.agent import AgentSpec, ProcessRecord
from bullpen.protocol.names import LEAD
from bullpen.store.memory import MemoryStore
from bullpen.team.team import Team, Teams

PLACE = ProcessRecord.new(backend="subprocess", host="here", pid=1, start="1")


@pytest.fixture
async def team() -> Team:
    teams = Teams(MemoryStore())
    await teams.create("crew")
    return teams.open("crew")


@pytest.fixture
def files(tmp_path: Path) -> SpawnFiles:
    return SpawnFiles(tmp_path / "home", {"HOME": str(tmp_path / "user")})


async def hire(team: Team, cwd: Path, *, driver: str = "native", mode: str = "default") -> None:
    spec = AgentSpec.new(driver=driver, backend="subprocess", cwd=str(cwd), mode=mode)
    await team.agents.register("ann", spec, by=LEAD, nonce="n")
    await team.agents.ready("ann", nonce="n", place=PLACE)


async def test_it_says_from_when_the_mode_counts(
    team: Team, files: SpawnFiles, tmp_path: Path
) -> None:
    await hire(team, tmp_path)
    after = await change_mode(team, files, "ann", "plan", by=LEAD, voice="human")
    assert mode_told("ann", after) == "ann is in mode plan from its next tool call on."
    await team.agents.end("ann", "stopped", by=LEAD, nonce="n")
    after = await change_mode(team, files, "ann", "default", by=LEAD, voice="human")
    assert mode_told("ann", after) == "ann is in mode default when it starts again."


async def test_a_mode_that_the_settings_disable_is_refused_to_people_too(
    team: Team, files: SpawnFiles, tmp_path: Path
) -> None:
    (tmp_path / "user" / ".claude").mkdir(parents=True)
    said = {"permissions": {"disableBypassPermissionsMode": "disable"}}
    (tmp_path / "user" / ".claude" / "settings.json").write_text(json.dumps(said))
    await hire(team, tmp_path)
    with pytest.raises(Refused) as error:
        await change_mode(team, files, "ann", "bypassPermissions", by=LEAD, voice="human")
    assert error.value.reason == "mode_disabled"
    await change_mode(team, files, "ann", "acceptEdits", by=LEAD, voice="human")


@pytest.mark.parametrize(
    ("before", "mode"),
    [("bypassPermissions", "default"), ("default", "bypassPermissions"), ("default", "plan")],
)
async def test_another_vendors_program_takes_some_modes_only_when_it_starts(
    team: Team, files: SpawnFiles, tmp_path: Path, before: str, mode: str
) -> None:
    await hire(team, tmp_path, driver="claude", mode=before)
    with pytest.raises(Refused) as error:
        await change_mode(team, files, "ann", mode, by=LEAD, voice="human")
    assert error.value.reason == "fixed_mode"
    assert (await team.agents.get("ann"))[1].mode == before
    await team.agents.end("ann", "stopped", by=LEAD, nonce="n")
    assert (await change_mode(team, files, "ann", mode, by=LEAD, voice="human")).mode == mode


async def test_modes_that_only_the_gate_keeps_change_while_such_a_program_runs(
    team: Team, files: SpawnFiles, tmp_path: Path
) -> None:
    await hire(team, tmp_path, driver="claude")
    after = await change_mode(team, files, "ann", "acceptEdits", by=LEAD, voice="human")
    assert after.mode == "acceptEdits"


async def test_a_mode_that_its_driver_cannot_enforce_is_refused(
    team: Team, files: SpawnFiles, tmp_path: Path
) -> None:
    await hire(team, tmp_path, driver="acp")
    with pytest.raises(Invalid):
        await change_mode(team, files, "ann", "plan", by=LEAD, voice="human")
