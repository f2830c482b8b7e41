"""The worker on the stand-in for GitHub, whose writes fail before or after they are carried out."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

import pytest

from bullpen.agents.contracts.backend import FORGE_TOKEN
from bullpen.protocol.forge import ForgeSettings
from bullpen.protocol.names import LEAD
from bullpen.protocol.team import MergeSettings
from bullpen.runs.forge.connect import connect
from bullpen.runs.forge.worker import ForgeWorker
from bullpen.store.memory import MemoryStore
from bullpen.team.tasks.merge_rules import HandIn
from bullpen.team.team import Team, Teams
from bullpen.testing.forge.github.server import GitHubStandIn
from bullpen.testing.forge.github.stage import GitHubStage
from bullpen.workspace.git.ref_names import task_ref
from support.git.repositories import commit, git

WRITES = 9
"""More than there are below: a fault that never comes changes nothing."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GitHubStandIn]:
    with GitHubStandIn(tmp_path_factory.mktemp("github")) as server:
        yield server


@pytest.fixture
async def stage(server: GitHubStandIn, tmp_path: Path) -> AsyncIterator[GitHubStage]:
    stage = GitHubStage(server, tmp_path / "people")
    server.faults.clear()
    server.seen.clear()
    server.violations.clear()
    yield stage
    await stage.aclose()
    assert server.violations == []


@dataclass
class Site:
    """A team with a clone, and its worker on a clock of ours."""

    team: Team
    worker: ForgeWorker
    clone: Path
    told: list[str]
    now: list[float] = field(default_factory=lambda: [0.0])

    async def step(self, times: int = 1) -> None:
        for _ in range(times):
            self.now[0] += 400.0
            await self.worker.step()

    async def hand_in(self, task_id: str) -> str:
        task = await self.team.tasks.claim(task_id, by="ann")
        base = git(self.clone, "rev-parse", "main")
        git(self.clone, "checkout", "--quiet", "--detach", "main")
        made = commit(self.clone, {f"done-{task_id}.txt": f"{time.time_ns()}\n"})
        git(self.clone, "checkout", "--quiet", "main")
        ref = task_ref("alpha", task_id, task.facts.attempt)
        git(self.clone, "update-ref", ref, made)
        await self.team.tasks.done(
            task_id, by="ann", attempt=task.facts.attempt, report="Done.",
            work=HandIn(made, base, ref),
        )  # fmt: skip
        return made


async def site_of(stage: GitHubStage, tmp_path: Path, **more: object) -> Site:
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", str(stage.state.git.folder), str(clone))
    git(clone, "config", "user.name", "u")
    git(clone, "config", "user.email", "u@example.invalid")
    teams = Teams(MemoryStore())
    await teams.create("alpha")
    team = teams.open("alpha")
    await team.roster.join("ann", by=LEAD)
    gate = MergeSettings.new(repository=str(clone), target="main")
    await team.merges.configure(gate, by=LEAD, voice="human")
    page = f"{stage.server.origin}/{stage.owner}/{stage.name}"
    said = {"repository": page, "kind": "github", "api": stage.server.origin, **more}
    await team.forge.configure(ForgeSettings.new(**said), by=LEAD, voice="human")
    environ = {FORGE_TOKEN: stage.token("team")}
    connected = partial(connect, team=team, home=tmp_path / "home", environ=environ)
    now, told = [0.0], list[str]()
    worker = ForgeWorker(team, connected, clock=lambda: now[0])
    worker._tell = told.append
    return Site(team, worker, clone, told, now)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", range(1, WRITES + 1))
async def test_a_write_that_fails_is_neither_lost_nor_repeated(
    stage: GitHubStage, tmp_path: Path, at: int, after: bool
) -> None:
    number = await stage.issue("Add a cart")
    site = await site_of(stage, tmp_path)
    # The connection is cut off: the worker cannot know whether it happened.
    stage.server.fail_write(at, after=after, status=0)
    await site.step(3)
    head = await site.hand_in("1")
    await site.step(3)
    await stage.verdict(head, "test", "success")
    await site.step(8)
    pulls = [row for row in stage.state.issues.values() if row.pull is not None]
    assert [row.pull.merged is not None for row in pulls if row.pull] == [True], site.told
    issue = stage.state.issues[number]
    assert issue.state == "closed"
    assert len(issue.comments) == 1
    assert issue.labels == ["bullpen: merged"]
    assert stage.state.git.head("bullpen/alpha/task-1") is None
    assert (await site.team.tasks.get("1")).status == "completed"
    assert (site.clone / "done-1.txt").exists(), "the target here moved along"


async def test_our_own_merge_queue_merges_and_the_forge_shows_it_as_merged(
    stage: GitHubStage, tmp_path: Path
) -> None:
    number = await stage.issue("Add a cart")
    site = await site_of(stage, tmp_path, merge="queue")
    await site.step(2)
    head = await site.hand_in("1")
    await site.step(2)
    (row,) = [row for row in stage.state.issues.values() if row.pull is not None]
    assert row.closed is None
    # The queue rebases and merges: here, a commit on top of the target.
    git(site.clone, "merge", "--quiet", "--no-ff", "-m", "merge", head)
    landed = git(site.clone, "rev-parse", "main")
    task = await site.team.tasks.get("1")
    record = task.facts.merge
    assert record is not None
    attempts = {"1": record.attempt}
    await site.team.merges.about_to_land({"1": landed}, attempts, {})
    await site.team.merges.landed(attempts, [], tell=False)
    await site.step(4)
    assert stage.state.git.head("main") == landed, site.told
    assert stage.state.issues[number].state == "closed"
    assert row.closed is not None
    assert row.pull is not None
    assert row.pull.merged is not None
    assert stage.state.git.head(row.pull.branch) is None


@pytest.mark.parametrize("kind", ["primary", "secondary"])
async def test_limits_are_waited_for_and_cost_no_requests(
    stage: GitHubStage, tmp_path: Path, kind: Literal["primary", "secondary"]
) -> None:
    await stage.issue("Add a cart")
    site = await site_of(stage, tmp_path)
    await site.step()
    stage.server.limit(kind, 3_000)
    await site.step()
    before = stage.server.count()
    await site.step(3)
    assert stage.server.count() == before
    assert site.worker.state().trouble is not None
    stage.server.limit("")
    site.now[0] += 4_000.0
    # The client's own clock did not move: a new one knows nothing of the limit.
    await site.worker._disconnect()
    await site.step()
    assert site.worker.state().trouble is None
    assert stage.server.count() > before
