"""The tools of an agent that may not spawn are not shown to its model."""

from __future__ import annotations

from pathlib import Path

import pytest

from bullpen.agents.tools.toolbox import toolbox
from bullpen.app.agent_work import _at_work
from bullpen.app.app import App
from bullpen.app.effective_rights import effective_of
from bullpen.app.settings import Settings
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.names import LEAD
from bullpen.protocol.team import TeamFacts

LEADING = {"SpawnTeammate", "StopTeammate"}


@pytest.mark.parametrize("acts", [None, ["member.stop"], ["member.spawn"]])
async def test_a_teammate_has_the_tools_only_if_the_team_opened_it(
    tmp_path: Path, acts: list[str] | None
) -> None:
    script = tmp_path / "script.toml"
    script.write_text("[agents.ann]\n[agents.team-lead]\n")
    spec = AgentSpec.new(
        driver="scripted", backend="in-process", cwd=str(tmp_path), script=str(script)
    )
    async with App(Settings(tmp_path / "home", "crew", LEAD), {"HOME": str(tmp_path)}) as app:
        await app.teams.create("crew", facts=TeamFacts.new(agents_may=acts))
        team, shown = app.teams.open("crew"), {}
        for name in (LEAD, "ann"):
            await team.agents.register(name, spec, by=LEAD, nonce=name)
            async with _at_work(app, "crew", name, name, {}, in_process=True) as (runner, _):
                shown[name] = {tool.name for tool in toolbox(runner._desk)}
            effective = await effective_of(app, "crew", name)
            assert effective.may_spawn == (shown[name] >= LEADING)
    assert shown[LEAD] >= LEADING
    assert shown["ann"] & LEADING == (LEADING if acts == ["member.spawn"] else set())
