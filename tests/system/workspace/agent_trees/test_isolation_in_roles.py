"""A teammate whose role sets `isolation` works in its own worktree, with real git."""

from __future__ import annotations

from bullpen.protocol.names import LEAD
from support.agents.tree_rights import tree_of
from support.crews import eventually
from support.git.repositories import commit
from support.offices import Place

SCRIPT = """
[[agents.team-lead.turns]]
when = "start"
steps = [{tool = "Task", input = {name = "kid", subagent_type = "fixer", prompt = "Go"}}]
[[agents.kid.turns]]
when = "start"
steps = [{tool = "Write", input = {file_path = "mine.txt", content = "x"}}]
"""


async def test_who_is_spawned_with_the_role_leaves_the_shared_checkout(place: Place) -> None:
    role = "---\nname: fixer\nisolation: worktree\ntools: Read, Write, Nmap\n---\nFix it.\n"
    commit(place.project, {".bullpen/agents/fixer.md": role})
    spec = await place.spec(SCRIPT, backend="in-process", prompt="Lead")
    await place.supervisor.spawn(LEAD, spec, by=LEAD, ready_s=60)
    mine = tree_of(place, "kid") / "mine.txt"
    await eventually(mine.exists, within_s=60)
    assert not (place.project / "mine.txt").exists()
    _, kid = await place.team.agents.get("kid")
    assert kid.spec.own_tree is not None and kid.spec.own_tree.kind == "worktree"
