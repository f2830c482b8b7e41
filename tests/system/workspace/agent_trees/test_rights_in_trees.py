"""What an agent in a tree of its own may change: that tree, and not its user's without asking."""

from __future__ import annotations

from typing import Any

import pytest

from bullpen.agents.config.spec import SpawnRequest
from bullpen.agents.work.tree_at_spawn import inherited
from bullpen.errors import NotFound, Refused
from bullpen.protocol.agent import SETUP_S, AgentFacts, AgentSpec, WorkspaceKind
from bullpen.protocol.names import LEAD
from bullpen.workspace.trees.choose_tree import plan
from support.agents.tree_rights import (
    effect,
    planned_without_git,
    spec_of,
    tree_of,
    wish,
)
from support.crews import eventually
from support.git.repositories import commit, git, write
from support.offices import TEAM, Place
from support.open_acts import open_to_agents

from .groves import plant


async def child_of(place: Place, ann: AgentFacts, **fields: Any) -> AgentSpec:
    """What ann spawns from where it works, with a tree like its own."""
    return await place.app.resolve(
        SpawnRequest(
            driver="scripted",
            backend="in-process",
            cwd=ann.spec.cwd,
            script="s.toml",
            workspace=inherited(ann.spec, None, team=TEAM, agent="kid"),
            **fields,
        ),
        parent=("ann", ann),
    )


@pytest.mark.parametrize("kind", ["worktree", "clone", "shared"])
async def test_a_plan_is_what_tests_without_git_take_it_for(
    place: Place, kind: WorkspaceKind
) -> None:
    wanted: dict[str, Any] = {"team": TEAM, "agent": "ann", "base": None}
    wanted |= {"setup": None, "setup_s": SETUP_S, "dirty": "refuse"}
    assert plan(kind, place.project, **wanted) == planned_without_git(kind, place.project, **wanted)


async def test_the_settings_of_the_project_count_as_they_were_at_spawn(place: Place) -> None:
    """What an agent writes in its own tree governs neither it nor whom it spawns."""
    commit(place.project, {".bullpen/settings.toml": '[permissions]\ndeny = ["Edit(a.txt)"]\n'})
    await place.app.trust(str(place.project))
    spec = await spec_of(place, mode="acceptEdits", backend="in-process")
    await place.supervisor.spawn("ann", spec, by=LEAD, ready_s=60)
    tree = tree_of(place, "ann")
    mine = "---\nname: mine\n---\n"
    loose = '[permissions]\nallow = ["Bash"]\nmode = "bypassPermissions"\n'
    write(tree, {".bullpen/settings.toml": loose, ".bullpen/agents/mine.md": mine})
    await place.supervisor.stop("ann", by=LEAD)
    await place.supervisor.resume(by=LEAD, names=["ann"])
    _, ann = await place.team.agents.get("ann")
    assert ann.mode == "acceptEdits"
    assert effect(ann.spec, "a.txt") == "deny"
    assert effect(ann.spec, "touch x", "Bash") == "ask"
    child = await child_of(place, ann)
    assert child.mode == "acceptEdits"
    assert effect(child, "touch x", "Bash") == "ask"
    assert effect(child, "a.txt") == "deny"
    with pytest.raises(NotFound, match="mine"):
        await child_of(place, ann, role="mine")


async def test_whom_an_agent_spawns_gets_another_tree_of_the_same_repository(
    place: Place,
) -> None:
    script = """
[[agents.ann.turns]]
when = "start"
steps = [
  {tool = "Bash", input = {command = "echo mine > mine.txt"}},
  {tool = "SpawnTeammate", input = {name = "kid", prompt = "Go", skills = ["paint"]}},
]
[[agents.kid.turns]]
when = "start"
steps = [{tool = "Bash", input = {command = "git rev-parse --show-toplevel > top"}}]
"""
    setup = "echo set up > setup.log"
    await open_to_agents(place.app.teams.open(TEAM), "member.spawn")
    await plant(place, "ann", script, backend="in-process", prompt="Go",
                workspace=wish("ann", setup=setup))  # fmt: skip
    top = tree_of(place, "kid") / "top"
    await eventually(top.exists, within_s=60)
    member, kid = await place.team.agents.get("kid")
    tree = kid.spec.workspace
    assert tree is not None
    assert member.worktree_path == str(tree_of(place, "kid"))
    assert (tree.base, tree.repository) == ("main", str(place.project))
    assert kid.spec.skills == ["paint"]
    assert (tree_of(place, "kid") / "setup.log").read_text() == "set up\n"
    assert not (tree_of(place, "kid") / "mine.txt").exists()
    # Its own tree it changes freely; that of its parent and its user's are asked for.
    assert effect(kid.spec, "a.txt") == "allow"
    assert effect(kid.spec, place.project / "a.txt") == "ask"


async def test_a_program_named_by_a_path_is_the_users_and_not_the_agents_copy(
    place: Place,
) -> None:
    commit(place.project, {"tools/agent": "#!/bin/sh\n"})
    spec = await spec_of(place, driver="acp", script=None, command=("tools/agent", "-x"))
    assert spec.options["command"] == [str(place.project / "tools" / "agent"), "-x"]


async def test_a_clone_comes_from_the_users_repository(place: Place) -> None:
    await plant(place, "ann", workspace=wish("ann", "clone"), backend="in-process")
    tree = tree_of(place, "ann")
    assert git(tree, "rev-parse", "--show-toplevel") == str(tree)
    assert git(tree, "config", "remote.origin.url") == str(place.project)
    assert (tree / ".git").is_dir()


class TestElsewhere:
    """A tree on another machine is decided on here and made there."""

    async def test_a_clone_of_a_url_is_planned_without_a_repository_here(
        self, place: Place
    ) -> None:
        url = "ssh://git.example.org/web.git"
        spec = await place.app.resolve(
            SpawnRequest(
                driver="scripted",
                backend="subprocess",
                cwd="/srv/web",
                script="/srv/s.toml",
                workspace=wish("ann", "clone", remote=url, base="main"),
                on={},
            )
        )
        tree = spec.workspace
        assert tree is not None
        assert (tree.repository, tree.base) == (url, "main")
        assert spec.cwd == tree.path == f"/srv/web.bullpen/{TEAM}/ann"

    async def test_a_worktree_needs_the_repository_at_that_path(self, place: Place) -> None:
        with pytest.raises(Refused) as refused:
            await place.app.resolve(
                SpawnRequest(
                    driver="scripted",
                    backend="subprocess",
                    cwd="/srv/web",
                    script="/srv/s.toml",
                    workspace=wish("ann"),
                    on={},
                )
            )
        assert refused.value.reason == "no_repository_here"
