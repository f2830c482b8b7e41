"""A team whose member is a team: the outer gate decides what the inner team may do."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import pytest

from bullpen.app.app import App
from bullpen.app.settings import Settings
from bullpen.protocol.names import LEAD
from bullpen.runs.up import bring_up
from bullpen.testing.models import MockModels, Playbook, Reply
from support.agents.team_puppet import BULLPEN, MODEL, OUTER

FILE = f"""
[team]
name = "outer"
[[member]]
name = "builders"
driver = "acp"
backend = "subprocess"
command = ["{BULLPEN}", "acp", "--model", "{MODEL}"]
env = ["ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "BULLPEN_CONFIG"]
rules.allow = ["Bash(touch made)"]
[[task]]
id = "build"
subject = "Build it"
description = "Both files."
"""

DEADLINE_S = 300.0


async def test_a_member_that_is_a_team_does_a_task_and_obeys_the_outer_gate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = [
        Reply.call("Bash", command="touch made"),
        Reply.call("Bash", command="touch other"),
        # The words with which the turn ends; the outer team then says why the call was denied.
        Reply("Only one could be made."),
        Reply.call(f"{OUTER}TaskUpdate", taskId="1", status="completed", report="One was made."),
        Reply("I told the team."),
        *(Reply("Nothing to do.") for _ in range(9)),
    ]
    inner_user, project = tmp_path / "user", tmp_path / "project"
    for folder in (inner_user, project):
        folder.mkdir()
    (project / "TEAM.toml").write_text(FILE, encoding="utf-8")
    settings = Settings(home=tmp_path / "home", team=None, agent=LEAD)
    with MockModels(lambda request: Playbook({LEAD: [steps.pop(0)]})(request)) as mock:
        for name, value in {**mock.env, "HOME": str(inner_user)}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("BULLPEN_CONFIG", str(tmp_path / "config.toml"))
        with anyio.fail_after(DEADLINE_S):
            outcome = await bring_up(project / "TEAM.toml", settings=settings, attended=False)
    assert outcome.status == "done", outcome.cause
    assert (project / "made").exists()
    assert not (project / "other").exists(), "the outer team has nobody who allows it"
    async with App(settings, os.environ) as app:
        (task,) = (await app.teams.open("outer").tasks.list()).tasks
        assert (task.status, task.facts.report) == ("completed", "One was made.")
        # The inner team is in the same home, with a record of what its client answered.
        (name,) = [each for each in await app.teams.names() if each != "outer"]
        asked = (await app.teams.open(name).approvals.all()).values()
        answers = {each.subject["input"].get("command", "-"): each.state for each in asked}
        assert (answers["touch made"], answers["touch other"]) == ("approved", "denied")
        _, lead = await app.teams.open(name).agents.get(LEAD)
        assert lead.phase == "ended", "it ended with the member that it is"
