"""What an agent in a tree of its own may change: that tree, and not its user's without asking."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from bullpen.agents.work import tree_at_spawn
from bullpen.errors import Invalid, Refused
from bullpen.protocol.policy import Policy
from support.agents.tree_rights import effect, facts, planned_without_git, spec_of, tree_of, wish
from support.offices import Place, opened


@pytest.fixture
async def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Place]:
    """A home with one team, whose project is taken for a repository."""
    monkeypatch.setattr(tree_at_spawn, "plan", planned_without_git)
    (tmp_path / "user").mkdir()
    async with opened(tmp_path, HOME=str(tmp_path / "user")) as found:
        yield found


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
    rights = spec.policy
    assert rights.directories == [str(tree / "sub"), str(tree / "sub"), str(other)]
    assert rights.sandbox is not None
    assert rights.sandbox.write == [str(tree / "sub")]
    assert rights.sandbox.read == [str(other)]


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


async def test_of_its_tools_it_has_those_that_were_named_and_the_teams(place: Place) -> None:
    spec = await spec_of(place, tools=["Read", "Bash(git:*)"], skills=["paint", "paint"])
    assert spec.tools is not None
    assert {"Read", "Bash(git:*)", "TaskUpdate", "SendMessage"} <= set(spec.tools)
    assert "Write" not in spec.tools
    assert "SpawnTeammate" not in spec.tools
    assert spec.skills == ["paint"]
    with pytest.raises(Invalid, match="Rread"):
        await spec_of(place, tools=["Rread"])
