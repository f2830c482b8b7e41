"""A real agent program brings one issue through a review to a merge, on the stand-in for GitHub."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable
from pathlib import Path

import anyio

from bullpen.agents.contracts.backend import FORGE_TOKEN
from bullpen.testing.forge.github.server import GitHubStandIn
from bullpen.testing.forge.github.stage import GitHubStage
from bullpen.testing.forge.stage import LineNote
from bullpen.testing.models import MockModels, ModelRequest, Reply
from programs.brain import ProgramBrain
from programs.real_programs import Placed, placed
from programs.teams.test_mixed_team import environment
from support.offices import Place
from support.runs.unattended_team import Night, git_environment

LONGEST_S = 600.0
QUESTION = "Please say hello here."
ANSWER = "It says hello now."
TEAM = """
[team]
name = "night"
[workspace]
kind = "worktree"
[merge]
target = "main"
[forge]
url = "{origin}/{owner}/{name}"
kind = "github"
api = "{origin}"
poll_s = 1
[[member]]
name = "goose"
driver = "goose"
mode = "bypassPermissions"
env = {env}
"""
_CLAIMED = re.compile(r"You have claimed task: #(\d+)")


class Writer:
    """The model: it does the task that it claims, and once more when it hears what is asked.

    `command` is what it runs for a task, without and with that.
    """

    def __init__(self, asked: str, answer: str, command: Callable[[str, bool], str]) -> None:
        self._asked, self._told, self._command = asked, answer, command
        self.brain = ProgramBrain(self._answer)
        self.heard = ""
        self._steps: list[Reply] = []
        # What it did: the task without, and with, what is asked.
        self.rounds: list[bool] = []

    def _answer(self, request: ModelRequest) -> Reply:
        self.heard += request.given
        if not self._steps:
            self._steps = self._decided(request)
        return self._steps.pop(0)

    def _decided(self, request: ModelRequest) -> list[Reply]:
        given = request.given.rpartition("<team-digest>")[2]
        claimed = _CLAIMED.findall(given)
        if not claimed or len(self.rounds) == 2:
            return [Reply("Noted.")]
        is_asked = self._asked in request.text
        if is_asked in self.rounds:
            return [Reply("Noted.")]
        self.rounds.append(is_asked)
        report = f"[1] {self._told}" if is_asked else "The file is there."
        done = {"taskId": claimed[-1], "status": "completed", "report": report}
        return [
            Reply.call("Bash", command=self._command(claimed[-1], is_asked)),
            Reply.call("TaskUpdate", **done),
            Reply("It is done."),
        ]


def greeting(_: str, is_asked: bool) -> str:
    """Say hello if somebody asks for that."""
    return f"echo {'hello' if is_asked else 'a file'} > greeting.txt"


def night_of(folder: Path, stage: GitHubStage, goose: Placed) -> Night:
    """Return a clone with a team file of one member."""
    night = Night(folder / "here")
    night.project.mkdir(parents=True)
    night.git("clone", "--quiet", str(stage.state.git.folder), ".")
    night.git("remote", "set-url", "origin", stage.clone_url)
    text = TEAM.format(
        origin=stage.server.origin, owner=stage.owner, name=stage.name, env=sorted(goose.env)
    )
    night.file.write_text(text.replace("'", '"'), "utf-8")
    return night


async def review_once(stage: GitHubStage) -> None:
    """CI is content; a reviewer asks for one change to the first commit."""
    client = stage.client("reviewer")
    judged: list[str] = []
    while True:
        for pull in await client.open_pulls():
            if pull.head not in judged:
                judged.append(pull.head)
                await stage.verdict(pull.head, "test", "pending")
                if len(judged) == 1:
                    note = LineNote("greeting.txt", 1, QUESTION)
                    await stage.review(pull.number, "commented", notes=[note])
                await stage.verdict(pull.head, "test", "success")
        await anyio.sleep(0.3)


async def test_goose_brings_an_issue_through_a_review_to_a_merge(tmp_path: Path) -> None:
    writer = Writer(QUESTION, ANSWER, greeting)
    with GitHubStandIn(tmp_path / "github") as server, MockModels(writer.brain) as mock:
        goose = placed("goose", tmp_path / "program", mock)
        stage = GitHubStage(server, tmp_path / "people")
        number = await stage.issue("Greet", "Write greeting.txt.")
        night = night_of(tmp_path, stage, goose)
        mine = {**goose.env, **git_environment(), FORGE_TOKEN: stage.token("team")}
        with environment({**mine, "PATH": f"{goose.env['PATH']}:{os.environ['PATH']}"}):
            try:
                async with anyio.create_task_group() as group:
                    group.start_soon(review_once, stage)
                    outcome = await night.up(timeout_s=LONGEST_S)
                    group.cancel_scope.cancel()
            finally:
                async with night.opened() as (app, _):
                    place = Place(app, tmp_path, f"bullpen-test-{secrets.token_hex(6)}")
                    await place.end_everything()
                await stage.aclose()
        assert (outcome.status, outcome.cause) == ("done", None), "\n".join(
            [*night.news, writer.heard]
        )
    assert writer.rounds == [False, True]
    (pull,) = [row for row in stage.state.issues.values() if row.pull is not None]
    assert pull.pull is not None
    assert pull.pull.merged is not None
    assert stage.state.issues[number].state == "closed"
    (thread,) = stage.state.threads
    assert thread.resolved
    asked, answered = thread.comments
    assert (asked.body, ANSWER in answered.body) == (QUESTION, True)
    assert night.git("show", "main:greeting.txt") == "hello\n"
    assert stage.token("team") not in writer.heard
    assert server.violations == []
