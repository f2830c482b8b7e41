"""`isolation: worktree` in a role sets the workspace, unless the spawn asks for another."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from bullpen.agents.config.spec import SpawnFiles
from bullpen.agents.contracts.desk import Wanted
from bullpen.agents.supervisor.colleagues import TeamColleagues, teammate
from bullpen.agents.supervisor.spawned_by_agent import check_asked
from bullpen.agents.work import tree_at_spawn
from bullpen.agents.work.tree_at_spawn import inherited, isolated
from bullpen.errors import Refused
from bullpen.protocol.agent import AgentSpec, WorkspaceKind
from bullpen.protocol.names import LEAD
from bullpen.runs.teamfile.read import read_team_file
from bullpen.runs.up import StartRequest, TeamStart
from support.agents.tree_rights import facts, planned_without_git, spec_of, wish
from support.offices import TEAM, Place, opened

ROLE = "---\nname: fixer\nisolation: worktree\n---\nFix it.\n"


@pytest.fixture
async def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Place]:
    """A home with one team, whose project is taken for a repository and has the role."""
    monkeypatch.setattr(tree_at_spawn, "plan", planned_without_git)
    (tmp_path / "user").mkdir()
    async with opened(tmp_path, HOME=str(tmp_path / "user")) as found:
        (found.project / ".bullpen/agents").mkdir(parents=True)
        (found.project / ".bullpen/agents/fixer.md").write_text(ROLE)
        yield found


def files(place: Place) -> SpawnFiles:
    return SpawnFiles(place.home, {"HOME": str(place.folder / "user")})


async def child(place: Place, parent: AgentSpec, kind: WorkspaceKind | None = None) -> AgentSpec:
    wanted = Wanted(name="kid", prompt="Go", role="fixer", workspace=kind)
    return await teammate(wanted, files(place), (LEAD, facts(parent)), team=TEAM)


async def test_a_role_with_isolation_gets_a_worktree(place: Place) -> None:
    apart = isolated(None, None, team=TEAM, agent="ann")
    spec = await spec_of(place, role="fixer", workspace=None, isolated=apart)
    assert spec.own_tree is not None and spec.own_tree.kind == "worktree"
    assert spec.cwd == spec.own_tree.path


@pytest.mark.parametrize("kind", ["shared", "clone"])
async def test_the_workspace_that_was_asked_for_wins(place: Place, kind: WorkspaceKind) -> None:
    asked = wish("ann", kind)
    assert isolated(asked, kind, team=TEAM, agent="ann") is None
    spec = await spec_of(place, role="fixer", workspace=asked)
    assert spec.workspace is not None and spec.workspace.kind == kind


async def test_a_teammate_of_the_role_leaves_the_checkout_that_its_parent_shares(
    place: Place,
) -> None:
    parent = await spec_of(place, workspace=wish(LEAD, "shared"))
    asked = inherited(parent, None, team=TEAM, agent="kid")
    assert asked is not None and asked.kind == "shared"
    made = await child(place, parent)
    assert made.own_tree is not None
    # The host of an agent resolves the same wish itself and finds nothing odd.
    await check_asked(made, files(place), (LEAD, facts(parent)), team=TEAM, name="kid")
    kept = await child(place, parent, "shared")
    assert kept.own_tree is None


async def test_a_subagent_cannot_have_a_worktree(place: Place) -> None:
    parent = await spec_of(place, workspace=None)
    await place.team.agents.register(LEAD, parent, by=LEAD, nonce="n")
    async with anyio.create_task_group() as starts:
        colleagues = TeamColleagues(
            place.supervisor, place.team, agent=LEAD, files=files(place), starts=starts
        )
        with pytest.raises(Refused, match="worktree of its own") as caught:
            await colleagues.subagent(Wanted(name="", prompt="Go", role="fixer"))
    assert caught.value.reason == "own_limits"


@pytest.mark.parametrize(
    ("written", "kind"),
    [
        ("", "worktree"),
        ("[workspace]\nsetup = 'make'\n", "worktree"),
        ("[workspace]\nkind = 'shared'\n", None),
        ("[workspace]\nkind = 'clone'\n", "clone"),
    ],
)
async def test_a_team_file_may_leave_the_workspace_to_the_role(
    place: Place, written: str, kind: str | None
) -> None:
    path = place.project / "TEAM.toml"
    path.write_text(
        f'[team]\nname = "{TEAM}"\ngoal = "g"\n{written}'
        '[[member]]\nname = "ann"\nrole = "fixer"\ndriver = "scripted"\nscript = "s.toml"\n'
    )
    file = read_team_file(path)
    start = TeamStart(place.app, StartRequest(file, str(place.project)))
    spec = await start.spec(next(each for each in file.members if each.name == "ann"))
    assert (spec.own_tree.kind if spec.own_tree else None) == kind
    if "setup" in written:
        assert spec.own_tree is not None and spec.own_tree.setup == "make"


async def test_members_of_a_team_file_have_its_commands_after_an_edit_and_its_search(
    place: Place,
) -> None:
    path = place.project / "TEAM.toml"
    path.write_text(
        f'[team]\nname = "{TEAM}"\ngoal = "g"\n[web]\nsearch_url = "https://x.org/{{query}}"\n'
        '[after_edit]\n"*.py" = ["fmt {file}"]\n'
        '[[member]]\nname = "ann"\ndriver = "scripted"\nscript = "s.toml"\n'
    )
    file = read_team_file(path)
    start = TeamStart(place.app, StartRequest(file, str(place.project)))
    spec = await start.spec(next(each for each in file.members if each.name == "ann"))
    assert spec.after_edit == {"*.py": ["fmt {file}"]}
    assert spec.options["search_url"] == "https://x.org/{query}"
