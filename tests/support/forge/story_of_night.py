"""One story for every forge: issues go in, and one pull request a night comes out.

A team of three works on issues, our queue merges, CI fails once, a reviewer asks for something, and
a person merges the whole night. What happened is asked of the forge itself, as a reviewer sees it.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest

from bullpen.agents.contracts.backend import FORGE_TOKEN
from bullpen.runs.forge.contract import ForgeClient
from bullpen.team.forge.shown import PullRequest
from bullpen.testing.forge.stage import ForgeStage, LineNote
from support.offices import Place
from support.runs.unattended_team import Night, git_environment

LABEL = "agents"
MEMBERS = ("ann", "bob", "cid")
TITLES = ("Lay the base", "Parse the input", "Write a manual")
JOB, STEP = "ci / test", "Run pytest"
QUESTION = "Why is this here?"
LONGEST_S = 240.0
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
merge = "queue"
pull_request = "night"
poll_s = 1
"""
WORKS = """
[[agents.{name}.turns]]
when = "task"
repeat = true
steps = [
  {{tool = "Bash", input = {{command = "echo {{agent}} $(date +%s%N) > done-{{task}}.txt"}}}},
  {{usage = {{input_tokens = 1200, output_tokens = 80, cost_usd = 0.01}}}},
  {{tool = "TaskUpdate", input = {{taskId = "{{task}}", status = "completed", \
report = "[1] It is needed.\\n[2] It is needed."}}}},
  {{say = "It is done."}},
]
[[agents.{name}.turns]]
repeat = true
steps = [{{say = "Nothing."}}]
"""


@asynccontextmanager
async def night_at(
    stage: ForgeStage, folder: Path, monkeypatch: pytest.MonkeyPatch, kind: str, *, api: str = ""
) -> AsyncIterator[Night]:
    """Yield a clone of the repository with a team file, and a home."""
    for name, value in git_environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv(FORGE_TOKEN, stage.token("team"))
    found = Night(folder / "here")
    found.project.mkdir(parents=True)
    found.git("clone", "--quiet", stage.clone_url, ".")
    page = stage.clone_url.removesuffix(".git")
    heads = HEADS.format(page=page, kind=kind, api=api, label=LABEL)
    script = "".join(WORKS.format(name=name) for name in MEMBERS)
    found.write("", members=MEMBERS, heads=heads, script=script)
    yield found
    async with found.opened() as (app, _):
        place = Place(app, folder, f"bullpen-test-{secrets.token_hex(6)}")
        await place.end_everything()


@dataclass
class Watchers:
    """CI, which fails once, and a reviewer who asks one thing."""

    stage: ForgeStage
    client: ForgeClient
    heads: list[str] = field(default_factory=list)
    pulls: dict[int, PullRequest] = field(default_factory=dict)
    # The first head that all issues are in, and whether it was asked about.
    asked: bool = False

    async def watch(self) -> None:
        """Look at every new head, until cancelled."""
        while True:
            for pull in await self.client.open_pulls():
                self.pulls[pull.number] = pull
                if pull.head not in self.heads:
                    self.heads.append(pull.head)
                    await self._judge(pull)
            await anyio.sleep(0.3)

    async def _judge(self, pull: PullRequest) -> None:
        if self.asked:
            await self.stage.verdict(pull.head, JOB, "success")
            return
        self.asked = True
        await self.stage.verdict(pull.head, JOB, "pending")
        note = LineNote(self._first_file(pull), 1, QUESTION)
        await self.stage.review(pull.number, "commented", notes=[note])
        log = f"collected 3 items\n{note.path}: assert 1 == 2\n"
        await self.stage.verdict(pull.head, JOB, "failure", step=STEP, log=log)

    def _first_file(self, pull: PullRequest) -> str:
        found = [line for line in pull.body.splitlines() if line.startswith("- Task ")]
        return f"done-{found[0].split()[2].rstrip(':')}.txt"


async def played(night: Night, stage: ForgeStage) -> None:
    """Play the night, merge it as a person does, and check the end there and here."""
    issues = [await stage.issue(title, labels=[LABEL]) for title in TITLES]
    client = stage.client("reviewer")
    people = Watchers(stage, client)
    async with anyio.create_task_group() as group:
        group.start_soon(people.watch)
        outcome = await night.up(timeout_s=LONGEST_S)
        group.cancel_scope.cancel()
    try:
        assert (outcome.status, outcome.cause) == ("done", None)
        (pull,) = await client.open_pulls()
        assert list(people.pulls) == [pull.number], "one pull request in the night"
        assert pull.branch == "bullpen/night/night-1"
        assert pull.head == night.git("rev-parse", "main").strip()
        for number in issues:
            assert f"Closes #{number}" in pull.body
            issue = await client.issue(number)
            assert issue.is_open
            assert sorted(issue.labels) == [LABEL, "bullpen: in review"]
            (said,) = await client.comments(number)
            assert f"Pull request: #{pull.number}" in said.body
        assert "1280 tokens" in pull.body
        # What CI and the reviewer said became work, which is in it too.
        async with night.opened() as (_, team):
            tasks = (await team.tasks.list()).tasks
        fixes = [task for task in tasks if task.facts.source is None]
        assert fixes
        assert all(task.owner in MEMBERS for task in fixes)
        assert any(QUESTION in task.description for task in fixes)
        assert any(JOB in task.description for task in fixes)
        (thread,) = await stage.client("team").threads(pull.number)
        authors = [each.author.login for each in thread.comments]
        assert authors == [stage.login("reviewer"), stage.login("team")]
        assert "> It is needed." in thread.comments[1].body
        assert thread.resolved or not stage.abilities.resolves_threads
        await _until_mergeable(client, pull.number)
        await stage.merge(pull.number)
        again = await night.up(timeout_s=LONGEST_S)
        assert (again.status, again.cause) == ("done", None)
        for number in issues:
            issue = await client.issue(number)
            assert not issue.is_open
            assert sorted(issue.labels) == [LABEL, "bullpen: merged"]
            assert len(await client.comments(number)) == 1
        assert await client.open_pulls() == []
        assert await client.branch_head(pull.branch) is None
        assert await client.branch_head("main") == night.git("rev-parse", "main").strip()
    except AssertionError as error:
        error.add_note("\n".join([f"{outcome.status}: {outcome.cause}", *night.news]))
        raise


async def _until_mergeable(client: ForgeClient, number: int) -> None:
    for _ in range(120):
        if (await client.pull(number)).mergeable:
            return
        await anyio.sleep(0.5)


def no_token_is_left(night: Night, stage: ForgeStage) -> None:
    """No file of the home or of the project has the token."""
    token = stage.token("team").encode()
    for path in night.folder.rglob("*"):
        assert not path.is_file() or token not in path.read_bytes(), path
