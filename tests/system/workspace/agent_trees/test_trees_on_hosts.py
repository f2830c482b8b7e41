"""Trees on other machines: made there by whoever takes the agent, or the spawn has failed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bullpen.agents.work.tree_at_spawn import WorkspaceRequest
from bullpen.errors import StartFailed
from bullpen.fleet.servers.server_process import Cluster
from bullpen.protocol.names import LEAD
from support.crews import eventually
from support.fleet.host_parts import Stage, cell_of, staged
from support.git.repositories import git, make_repository

from .groves import names_of


@pytest.fixture(scope="module")
def cell() -> Iterator[Cluster]:
    with cell_of(12) as cluster:
        yield cluster


@pytest.fixture
async def stage(cell: Cluster, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    async with staged(cell, monkeypatch) as made:
        yield made


LOOKS = """
[[agents.{name}.turns]]
when = "start"
steps = [{tool = "Bash", input = {command = "git rev-parse --show-toplevel > top"}}]
"""


async def test_a_clone_is_made_on_the_machine_that_takes_the_agent_or_the_spawn_fails(
    stage: Stage, tmp_path: Path
) -> None:
    project = make_repository(tmp_path / "project")
    team = await stage.team()
    await stage.host("far")
    wish = WorkspaceRequest(kind="clone", team="crew", agent="ann", remote=str(project))
    await stage.spawn(
        "ann", LOOKS, cwd=str(project), workspace=wish, prompt="Go", mode="bypassPermissions"
    )
    tree = tmp_path / "project.bullpen" / "crew" / "ann"
    top = tree / "top"
    await eventually(lambda: top.exists() and top.read_text() == f"{tree}\n", within_s=60)
    assert git(tree, "config", "remote.origin.url") == str(project)
    assert await stage.where("ann") == "far"
    broken = replace(wish, agent="bob", setup="echo no such tool; exit 1")
    with pytest.raises(StartFailed, match="no such tool"):
        await stage.spawn("bob", cwd=str(project), workspace=broken)
    assert await names_of(team) == [LEAD, "ann"]
