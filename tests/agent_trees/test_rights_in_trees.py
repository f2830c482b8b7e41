"""What an agent in a tree of its own may change: that tree, and not its user's without asking."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from crews import eventually
from offices import TEAM, Place
from repositories import commit, git, write

from bullpen.agents.policy.call import Call
from bullpen.agents.policy.decide import decide, rights_of
from bullpen.agents.trees import inherited
from bullpen.errors import Invalid, NotFound, Refused
from bullpen.protocol.agent import AgentFacts, AgentSpec
from bullpen.protocol.names import LEAD
from bullpen.protocol.policy import Policy
from bullpen.team.policy_rules import Effect, Kind

from .groves import plant, tree_of, wish


async def spec_of(place: Place, name: str = "ann", **fields: Any) -> AgentSpec:
    return await place.spec("[agents.ann]\n", **{"workspace": wish(name), **fields})


async def child_of(place: Place, ann: AgentFacts, **fields: Any) -> AgentSpec:
    """What ann spawns from where it works, with a tree like its own."""
    return await place.office.spec(
        driver="scripted", backend="in-process", cwd=ann.asked.cwd, script="s.toml",
        workspace=inherited(ann.asked, None, team=TEAM, agent="kid"), parent=("ann", ann), **fields,
    )  # fmt: skip


def facts(spec: AgentSpec) -> AgentFacts:
    return AgentFacts.new(spec=spec.raw, nonce="n", since_ms=1)


def effect(spec: AgentSpec, path: Path | str, tool: str = "Write") -> Effect:
    rights = rights_of(facts(spec), user_home=os.path.expanduser("~"))
    given = {"command": path} if tool == "Bash" else {"file_path": str(path)}
    kind: Kind = "run" if tool == "Bash" else "write"
    return decide(Call(tool, given, kind), rights).effect


@pytest.mark.parametrize("mode", ["acceptEdits", "bypassPermissions", "default", "dontAsk"])
@pytest.mark.parametrize("allow", [[], ["Edit"], ["Write", "Bash"], ["Edit(//**)"]])
async def test_the_users_tree_is_never_changed_unasked(
    place: Place, mode: str, allow: list[str]
) -> None:
    spec = await spec_of(place, mode=mode, policy=Policy.new(allow=allow))
    assert effect(spec, place.project / "a.txt") != "allow"
    assert effect(spec, place.project / "new" / "file") != "allow"
    assert effect(spec, "../../../project/a.txt") != "allow"
    assert effect(spec, f"echo x > {place.project}/a.txt", "Bash") != "allow"
    if mode in ("acceptEdits", "bypassPermissions"):
        assert effect(spec, "a.txt") == "allow"
        assert effect(spec, tree_of(place, "ann") / "a.txt") == "allow"


async def test_rules_and_directories_of_the_project_move_along(place: Place) -> None:
    top, tree = place.project, tree_of(place, "ann")
    other = place.folder / "other"
    other.mkdir()
    policy = Policy.new(
        allow=[f"Edit(/{top}/sub/**)", "Edit(here/**)", f"Edit(/{other}/**)"],
        deny=[f"Edit(/{top}/sub/secret)"],
        directories=["sub", str(top / "sub"), str(other)],
        sandbox={"write": [str(top / "sub")], "read": [str(other)]},
    )
    spec = await spec_of(place, mode="default", policy=policy)
    assert effect(spec, tree / "sub" / "b.txt") == "allow"
    assert effect(spec, tree / "here" / "b.txt") == "allow"
    assert effect(spec, other / "b.txt") == "allow"
    assert effect(spec, top / "sub" / "b.txt") == "ask"
    assert effect(spec, tree / "sub" / "secret") == "deny"
    assert effect(spec, top / "sub" / "secret") == "deny"
    rights = spec.rights
    assert rights.directories == [str(tree / "sub"), str(tree / "sub"), str(other)]
    assert rights.closed_in is not None
    assert rights.closed_in.write == [str(tree / "sub")]
    assert rights.closed_in.read == [str(other)]


async def test_a_rule_about_the_directory_above_does_not_reach_the_trees_of_others(
    place: Place,
) -> None:
    policy = Policy.new(allow=["Edit(../bob/**)", "Edit(../project/sub/**)"])
    spec = await spec_of(place, mode="default", policy=policy)
    assert effect(spec, place.folder / "bob" / "a.txt") == "allow"
    assert effect(spec, tree_of(place, "bob") / "a.txt") == "ask"
    assert effect(spec, tree_of(place, "ann") / "sub" / "a.txt") == "allow"
    assert effect(spec, place.project / "sub" / "a.txt") == "ask"


@pytest.mark.parametrize("policy", [{"directories": [".."]}, {"sandbox": {"write": ["/"]}}])
async def test_a_directory_that_holds_the_users_tree_is_refused_by_name(
    place: Place, policy: dict[str, Any]
) -> None:
    with pytest.raises(Refused, match="holds") as refused:
        await spec_of(place, policy=Policy.new(**policy))
    assert refused.value.reason == "holds_project"


async def test_the_settings_of_the_project_count_as_they_were_at_spawn(place: Place) -> None:
    """What an agent writes in its own tree governs neither it nor whom it spawns."""
    await place.office.trust(str(place.project))
    commit(place.project, {".bullpen/settings.toml": '[permissions]\ndeny = ["Edit(a.txt)"]\n'})
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
    assert effect(ann.asked, "a.txt") == "deny"
    assert effect(ann.asked, "touch x", "Bash") == "ask"
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
    await plant(place, "ann", script, backend="in-process", prompt="Go",
                workspace=wish("ann", setup=setup))  # fmt: skip
    top = tree_of(place, "kid") / "top"
    await eventually(top.exists, within_s=60)
    member, kid = await place.team.agents.get("kid")
    tree = kid.asked.tree
    assert tree is not None
    assert member.worktree_path == str(tree_of(place, "kid"))
    assert (tree.base, tree.repository) == ("main", str(place.project))
    assert kid.asked.skills == ["paint"]
    assert (tree_of(place, "kid") / "setup.log").read_text() == "set up\n"
    assert not (tree_of(place, "kid") / "mine.txt").exists()
    # Its own tree it changes freely; that of its parent and its user's are asked for.
    assert effect(kid.asked, "a.txt") == "allow"
    assert effect(kid.asked, place.project / "a.txt") == "ask"


async def test_whom_an_agent_spawns_may_not_work_in_the_users_tree(place: Place) -> None:
    ann = facts(await spec_of(place, mode="acceptEdits"))
    with pytest.raises(Refused) as refused:
        await spec_of(place, "kid", mode=None, parent=("ann", ann), workspace=wish("kid", "shared"))
    assert refused.value.reason == "wider_than_parent"


async def test_whom_an_agent_spawns_has_no_wider_rights_in_its_tree(place: Place) -> None:
    inside = Policy.new(allow=["Edit(sub/**)"])
    ann = facts(await spec_of(place, mode="default", policy=inside))
    more = Policy.new(allow=["Edit(a.txt)"])
    with pytest.raises(Refused) as refused:
        await spec_of(place, "kid", mode=None, parent=("ann", ann), policy=more)
    assert refused.value.reason == "wider_than_parent"
    kid = await spec_of(place, "kid", mode=None, parent=("ann", ann))
    assert effect(kid, tree_of(place, "kid") / "sub" / "x") == "allow"
    assert effect(kid, tree_of(place, "ann") / "sub" / "x") == "ask"
    assert effect(kid, place.project / "sub" / "x") == "ask"


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
        spec = await place.office.spec(
            driver="scripted", backend="subprocess", cwd="/srv/web", script="/srv/s.toml",
            workspace=wish("ann", "clone", remote=url, base="main"), on={},
        )  # fmt: skip
        tree = spec.tree
        assert tree is not None
        assert (tree.repository, tree.base) == (url, "main")
        assert spec.cwd == tree.path == f"/srv/web.bullpen/{TEAM}/ann"

    async def test_a_worktree_needs_the_repository_at_that_path(self, place: Place) -> None:
        with pytest.raises(Refused) as refused:
            await place.office.spec(
                driver="scripted", backend="subprocess", cwd="/srv/web", script="/srv/s.toml",
                workspace=wish("ann"), on={},
            )  # fmt: skip
        assert refused.value.reason == "no_repository_here"


async def test_of_its_tools_it_has_those_that_were_named_and_the_teams(place: Place) -> None:
    spec = await spec_of(place, tools=["Read", "Bash(git:*)"], skills=["paint", "paint"])
    assert spec.tools is not None
    assert {"Read", "Bash(git:*)", "TaskUpdate", "SendMessage"} <= set(spec.tools)
    assert "Write" not in spec.tools
    assert "SpawnTeammate" not in spec.tools
    assert spec.skills == ["paint"]
    with pytest.raises(Invalid, match="Rread"):
        await spec_of(place, tools=["Rread"])
