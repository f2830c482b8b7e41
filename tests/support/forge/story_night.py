"""The night in which a team plays the story of a forge, and what must be so here then."""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from bullpen.agents.contracts.backend import FORGE_TOKEN
from bullpen.testing.forge.stage import ForgeStage
from support.offices import Place
from support.runs.unattended_team import Night, git_environment

from .story import JOB, LABEL, MEMBERS, REASON, SHORT, STEP, WHOLE, Crowd, Plot, script

PLOT = WHOLE if os.environ.get("BULLPEN_NIGHTLY") else SHORT
LONGEST_S = 1800.0
HEADS = """
[team]
name = "night"
[workspace]
kind = "worktree"
[merge]
target = "main"
[forge]
url = "{page}"
kind = "{kind}"
{api}
labels = ["{label}"]
poll_s = 1
"""


@asynccontextmanager
async def night_at(
    stage: ForgeStage,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    *,
    plot: Plot = PLOT,
    api: str = "",
    member: str = "",
) -> AsyncIterator[Night]:
    """Yield a clone of the repository with a team file, and a home.

    `member` is the table of one more member.
    """
    for name, value in git_environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv(FORGE_TOKEN, stage.token("team"))
    found = Night(folder / "here")
    found.project.mkdir(parents=True)
    found.git("clone", "--quiet", stage.clone_url, ".")
    page = stage.clone_url.removesuffix(".git")
    heads = HEADS.format(page=page, kind=kind, api=api, label=LABEL)
    found.write("", members=MEMBERS, heads=heads, more=member, script=script(plot))
    yield found
    async with found.opened() as (app, _):
        place = Place(app, folder, f"bullpen-test-{secrets.token_hex(6)}")
        await place.end_everything()


async def played(night: Night, crowd: Crowd, *, job: str = JOB) -> None:
    """Play the story, and check its end there and here. `job` is the name of the CI job there."""
    await crowd.open_issues()
    async with anyio.create_task_group() as group:
        group.start_soon(crowd.watch)
        outcome = await night.up(timeout_s=LONGEST_S)
        group.cancel_scope.cancel()
    told, done = "\n".join([f"{outcome.status}: {outcome.cause}", *night.news]), crowd.plot.entries
    try:
        assert (outcome.status, outcome.cause) == ("done", None)
        assert outcome.tasks.get("completed") == len(done) - 1
        await crowd.check_all()
        early = [
            f"{what}: {merge} is not in {head}"
            for what, head, merge in crowd.order()
            if night.git("merge-base", head, merge).strip() != merge
        ]
        assert early == [], "work began before what it waits for was here"
    except AssertionError as error:
        error.add_note(told)
        raise
    files = night.git("ls-tree", "--name-only", "main").split()
    assert len([each for each in files if each.startswith("done-")]) == len(done) - 1
    await no_token_is_left(night, crowd.stage)
    await red_is_explained(night, job)


async def no_token_is_left(night: Night, stage: ForgeStage) -> None:
    """No agent had the token, and no file of the home or of the project has it."""
    token = stage.token("team").encode()
    for path in night.folder.rglob("*"):
        assert not path.is_file() or token not in path.read_bytes(), path
    async with night.opened() as (_, team):
        said = "".join(str(event) for event in await team.events())
    assert "evil.example" not in said, "the stranger's words came in"
    assert "ignore all others" not in said


async def red_is_explained(night: Night, job: str) -> None:
    """The owner was told which job failed, in which step, and how its log ends."""
    async with night.opened() as (_, team):
        said = [str(event) for event in await team.events()]
    told = [each for each in said if REASON in each]
    assert told, "nobody was told why CI failed"
    assert any(job in each and STEP in each for each in told), told[0]
