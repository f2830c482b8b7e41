"""The whole loop on a real Gitea, and the same story on the stand-in for GitHub.

The gate plays four issues; BULLPEN_NIGHTLY=1 plays all twelve. With BULLPEN_FORGE_PICTURES=FOLDER,
pictures of Gitea's own pages are kept there, if its front end is built.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from bullpen.agents.contracts.backend import FORGE_TOKEN
from bullpen.testing.forge.github.server import GitHubStandIn
from bullpen.testing.forge.github.stage import GitHubStage
from bullpen.testing.forge.stage import ForgeStage
from support.forge.gitea_build import has_pages
from support.forge.gitea_pictures import take_pictures
from support.forge.gitea_server import GiteaServer
from support.forge.gitea_stage import GiteaStage
from support.forge.story import LABEL, MEMBERS, REASON, SHORT, WHOLE, Crowd, script
from support.offices import Place
from support.runs.unattended_team import Night, git_environment

PLOT = WHOLE if os.environ.get("BULLPEN_NIGHTLY") else SHORT
PICTURES = os.environ.get("BULLPEN_FORGE_PICTURES")
LONGEST_S = 900.0
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
{more}
labels = ["{label}"]
poll_s = 1
"""


@pytest.fixture
def github(tmp_path: Path) -> Iterator[GitHubStandIn]:
    with GitHubStandIn(tmp_path / "github") as server:
        yield server


@asynccontextmanager
async def night_at(
    stage: ForgeStage, folder: Path, monkeypatch: pytest.MonkeyPatch, kind: str, more: str = ""
) -> AsyncIterator[Night]:
    """Yield a clone of the repository with a team file, and a home."""
    for name, value in git_environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv(FORGE_TOKEN, stage.token("team"))
    found = Night(folder / "here")
    found.project.mkdir(parents=True)
    found.git("clone", "--quiet", stage.clone_url, ".")
    page = stage.clone_url.removesuffix(".git")
    heads = HEADS.format(page=page, kind=kind, more=more, label=LABEL)
    found.write("", members=MEMBERS, heads=heads, script=script(PLOT))
    yield found
    async with found.opened() as (app, _):
        place = Place(app, folder, f"bullpen-test-{secrets.token_hex(6)}")
        await place.end_everything()


async def played(night: Night, crowd: Crowd) -> None:
    """Play the story, and check its end there and here."""
    await crowd.open_issues()
    async with anyio.create_task_group() as group:
        group.start_soon(crowd.watch)
        outcome = await night.up(timeout_s=LONGEST_S)
        group.cancel_scope.cancel()
    told = "\n".join([f"{outcome.status}: {outcome.cause}", *night.news])
    try:
        assert (outcome.status, outcome.cause) == ("done", None)
        assert outcome.tasks.get("completed") == len(PLOT.entries) - 1
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
    assert len([each for each in files if each.startswith("done-")]) == len(PLOT.entries) - 1
    await no_token_is_left(night, crowd.stage)


async def no_token_is_left(night: Night, stage: ForgeStage) -> None:
    """No agent had the token, and no file of the home or of the project has it."""
    token = stage.token("team").encode()
    for path in night.folder.rglob("*"):
        assert not path.is_file() or token not in path.read_bytes(), path
    async with night.opened() as (_, team):
        said = "".join(str(event) for event in await team.events())
    assert "evil.example" not in said, "the stranger's words came in"
    assert "ignore all others" not in said
    assert REASON in said, "nobody was told why CI failed"


async def test_a_backlog_is_merged_on_a_real_gitea(
    gitea: GiteaServer, stage: GiteaStage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at, to = f"/{stage.owner}/{stage.name}", Path(PICTURES or tmp_path)

    async def shown(name: str, number: int) -> None:
        page = {f"{name}-{number}": f"{at}/pulls/{number}"}
        assert await take_pictures(gitea, page, to, login=stage.login("reviewer")) == []

    wanted = PICTURES is not None and has_pages()
    async with night_at(stage, tmp_path, monkeypatch, "gitea") as night:
        crowd = Crowd(stage, PLOT, stage.client("reviewer"), shown if wanted else None)
        await played(night, crowd)
    if wanted:
        pages = {
            "issues": f"{at}/issues?state=closed",
            "issue": f"{at}/issues/{crowd.issue_of(PLOT.red[0])}",
            "given-up": f"{at}/issues/{crowd.issue_of(str(PLOT.closed))}",
            "hostile": f"{at}/issues/{crowd.hostile}",
            "answered": f"{at}/pulls/{crowd.pull_of(PLOT.long).number}",
            "was-red": f"{at}/pulls/{crowd.pull_of(PLOT.red[0]).number}",
            "merged": f"{at}/pulls?state=closed",
            "commits": f"{at}/commits/branch/main",
        }
        assert await take_pictures(gitea, pages, to, login=stage.login("reviewer")) == []


async def test_the_same_backlog_is_merged_on_the_stand_in_for_github(
    github: GitHubStandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = GitHubStage(github, tmp_path / "people")
    more = f'api = "{github.origin}"'
    try:
        async with night_at(stage, tmp_path, monkeypatch, "github", more) as night:
            await played(night, Crowd(stage, PLOT, stage.client("reviewer")))
    finally:
        await stage.aclose()
    assert github.violations == []
