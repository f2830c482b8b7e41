"""Role files of the kind that public collections have: they load, and say what is missing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from bullpen.agents.config.definitions import apply, find, list_definitions, read
from bullpen.agents.config.spec import SpawnFiles, SpawnRequest, resolve
from bullpen.agents.contracts.desk import Wanted
from bullpen.agents.drivers.registry import DRIVERS, check_spec
from bullpen.agents.permissions.rule_language.known_tools import missing_tools, unknown_tools
from bullpen.agents.permissions.rule_language.tool_names import missing_tools_note
from bullpen.agents.supervisor.colleagues import spawned
from bullpen.agents.supervisor.start import Spawned
from bullpen.agents.tools.toolbox import TOOLS
from bullpen.errors import Invalid
from bullpen.protocol.agent import AgentSpec
from support.crews import Crew, eventually
from support.rows import each_row

ROLES = sorted((Path(__file__).parent / "public_roles").glob("*.md"), key=lambda path: path.name)
KNOWN = {tool.name for tool in TOOLS}
# Fields that only native agents have.
NATIVE_ONLY = {"plain-reviewer": "effort"}


def spec(driver: str = "native") -> AgentSpec:
    return AgentSpec.new(driver=driver, backend="subprocess", cwd="/")


def test_there_are_a_dozen_of_them() -> None:
    assert len(ROLES) >= 12


@each_row("path", ROLES, ids=lambda path: path.stem)
async def test_a_public_role_loads_for_a_native_agent(tmp_path: Path, path: Path) -> None:
    folder = tmp_path / ".claude/agents"
    folder.mkdir(parents=True)
    shutil.copy(path, folder)
    known = list_definitions(tmp_path, tmp_path / "user")
    assert not known.unreadable
    role = find(read(path).name, tmp_path, tmp_path / "user")
    assert role.instructions and role.fields["description"]
    made = apply(role, spec())
    assert made.instructions == role.instructions
    listed = role.fields.get("tools")
    # Whatever the file lists is there, or it is named.
    for name in listed if isinstance(listed, list) else str(listed or "").split(", "):
        tool = name.split("(")[0].rstrip(")")
        assert tool in KNOWN or tool in ("*", "", "pg_dump:*") or tool in missing_tools(made)


@each_row("driver", ["claude-code", "acp", "codex"])
@each_row("path", ROLES, ids=lambda path: path.stem)
def test_a_public_role_loads_for_programs_of_others(path: Path, driver: str) -> None:
    if path.stem in NATIVE_ONLY:
        with pytest.raises(Invalid, match=NATIVE_ONLY[path.stem]):
            apply(read(path), spec(driver))
        return
    made = apply(read(path), spec(driver))
    assert made.role == read(path).name
    # Those of Claude Code and of servers are the program's own.
    assert not {name for name in missing_tools(made) if name.startswith(("mcp__", "Web", "Todo"))}


def test_a_native_agent_is_told_which_tools_of_its_role_it_does_not_have(tmp_path: Path) -> None:
    role = read(next(path for path in ROLES if path.stem == "database-tuner"))
    made = apply(role, spec())
    assert missing_tools(made) == ["postgresql", "mongosh"]
    assert missing_tools_note(missing_tools(made)).endswith("of its role: postgresql, mongosh.")
    check_spec(made.evolve(cwd=str(tmp_path), model="anthropic:claude-opus-5-5"))


def test_an_unquoted_description_with_examples_ends_before_the_next_field() -> None:
    role = read(next(path for path in ROLES if path.stem == "trend-researcher"))
    assert role.fields["color"] == "purple"
    assert "Is anybody asking" in role.fields["description"]
    assert role.fields["description"].endswith("</example>")


@each_row("driver", DRIVERS)
def test_a_role_that_would_have_no_tool_is_refused(tmp_path: Path, driver: str) -> None:
    path = tmp_path / "role.md"
    path.write_text("---\nname: r\ntools: Browser, Nmap\n---\nx\n")
    with pytest.raises(Invalid, match="has none of these: Browser, Nmap"):
        apply(read(path), spec(driver))


def test_programs_have_tools_that_native_agents_may_not_have() -> None:
    assert unknown_tools(["Read", "SlashCommand", "Nmap"], "native") == ["SlashCommand", "Nmap"]
    assert unknown_tools(["mcp__x__y", "SlashCommand", "Nmap"], "claude-code") == ["Nmap"]


async def test_a_tool_that_a_person_misspells_is_still_refused(tmp_path: Path) -> None:
    asked = SpawnRequest(cwd=str(tmp_path), driver="scripted", script="x", tools=["Raed"])
    with pytest.raises(Invalid, match="Raed"):
        await resolve(asked, SpawnFiles(tmp_path / ".bullpen", {"HOME": str(tmp_path)}))


async def test_the_transcript_and_the_answer_to_a_spawn_name_the_missing_tools(
    crew: Crew,
) -> None:
    alice = await crew.hire("alice", prompt="Go", tools=["Read", "Nmap"])
    await eventually(lambda: bool(alice.told("end")))
    assert [row["text"] for row in alice.told("note")] == [missing_tools_note(["Nmap"])]
    made = Spawned("alice", True, "in-process", "native", None, None, ("Nmap",))
    said = await spawned(made, Wanted(name="alice", prompt="Go"), crew.team)
    assert said.endswith("It does not have these tools of its role: Nmap.")
