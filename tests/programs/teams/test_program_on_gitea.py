"""A real agent program does one issue of a backlog on a real Gitea, beside three scripted members.

Its CI is Gitea's own Actions: what the failed job wrote is in the program's own prompt. The gate
plays four issues; BULLPEN_NIGHTLY=1 plays all twelve.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from bullpen.agents.contracts.backend import FORGE_TOKEN
from bullpen.testing.models import MockModels
from programs.real_programs import placed
from programs.teams.test_mixed_team import environment
from programs.teams.test_program_on_a_forge import Writer
from support.forge.gitea_runner import ACTIONS_JOB, actions_of
from support.forge.gitea_server import GiteaServer
from support.forge.gitea_stage import GiteaStage
from support.forge.story import MEMBERS, REASON, STEP, Crowd, Plot
from support.forge.story_night import PLOT, night_at, played
from support.runs.unattended_team import git_environment

BEFORE = "Parse the input"
TITLE = f"goose: {BEFORE}"
MEMBER = """
[[member]]
name = "goose"
driver = "goose"
mode = "bypassPermissions"
env = {env}
"""


def given_to_goose(plot: Plot) -> Plot:
    """Return the plot with one issue for the program: one that CI fails, and others wait for.

    The other issues are for the scripted members: the model knows only one.
    """
    entries = []
    for place, each in enumerate(plot.entries):
        body = f"{each.body}\n\nAssigned to {MEMBERS[place % len(MEMBERS)]}"
        is_its = each.title == BEFORE
        entries.append(replace(each, title=TITLE) if is_its else replace(each, body=body))
    red = tuple(TITLE if each == BEFORE else each for each in plot.red)
    assert TITLE in red
    return replace(plot, entries=tuple(entries), red=red)


async def test_a_backlog_with_one_issue_for_goose_is_merged_on_a_real_gitea(
    gitea: GiteaServer, stage: GiteaStage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plot = given_to_goose(PLOT)
    command = "echo goose $(date +%s%N) > done-{task}.txt"
    writer = Writer(REASON, "It is equal now.", lambda task, _: command.format(task=task))
    with MockModels(writer.brain) as mock:
        goose = placed("goose", tmp_path / "program", mock)
        member = MEMBER.format(env=sorted(goose.env)).replace("'", '"')
        path = f"{goose.env['PATH']}:{os.environ['PATH']}"
        mine = {**goose.env, **git_environment(), FORGE_TOKEN: stage.token("team"), "PATH": path}
        async with (
            actions_of(gitea, stage) as ci,
            night_at(stage, tmp_path, monkeypatch, "gitea", plot=plot, member=member) as night,
        ):
            crowd = Crowd(stage, plot, stage.client("reviewer"), ci=ci.verdict)
            with environment(mine):
                await played(night, crowd, job=ACTIONS_JOB)
    assert writer.rounds == [False, True], writer.heard
    assert all(words in writer.heard for words in (ACTIONS_JOB, STEP, REASON))
    assert stage.token("team") not in writer.heard
    its = crowd.file_of(crowd.pull_of(TITLE))
    # The first line of each file names who wrote it.
    first = {
        name: night.git("show", f"main:{name}").splitlines()[0].split()
        for name in night.git("ls-tree", "--name-only", "main").split()
        if name.startswith("done-")
    }
    assert "goose" in first.pop(its)
    assert all(set(words) & set(MEMBERS) for words in first.values()), first
