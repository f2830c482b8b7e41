"""The agent types that need no file: general-purpose, Explore, Plan and Bash."""

from __future__ import annotations

from pathlib import Path

import pytest

from bullpen.agents.config.definitions import find, list_definitions
from bullpen.agents.config.role_fields import COORDINATION
from bullpen.agents.config.spec import SpawnFiles, SpawnRequest, resolve
from bullpen.agents.contracts.desk import Wanted
from bullpen.agents.supervisor.colleagues import teammate
from bullpen.agents.tools.toolbox import TOOLS, lacking
from bullpen.errors import NotFound, Refused, Unreadable
from bullpen.protocol.agent import AgentFacts, AgentSpec
from bullpen.protocol.names import LEAD

READING = {"Read", "Glob", "Grep"}
# Without an endpoint and without a model whose API searches, there is no search.
WORKING = {tool.name for tool in TOOLS if tool.kind != "team"} - {"WebSearch"}
TYPES = {
    "general-purpose": WORKING,
    "Explore": READING,
    "Plan": READING,
    "Bash": {"Bash", "BashOutput", "KillShell"},
}


@pytest.fixture
def user(tmp_path: Path) -> Path:
    (tmp_path / "repo/.git").mkdir(parents=True)
    return tmp_path


def files(user: Path) -> SpawnFiles:
    return SpawnFiles(user / ".bullpen", {"HOME": str(user)})


async def spawned(user: Path, role: str) -> AgentSpec:
    request = SpawnRequest(cwd=str(user / "repo"), driver="scripted", script="x", role=role)
    return await resolve(request, files(user))


def working_tools(spec: AgentSpec) -> set[str]:
    lacks = lacking(spec, mode="acceptEdits", is_lead=False, may_spawn=False)
    return WORKING - set(lacks)


@pytest.mark.parametrize(("name", "tools"), TYPES.items())
async def test_a_type_has_its_tools_and_those_of_the_team(
    user: Path, name: str, tools: set[str]
) -> None:
    spec = await spawned(user, name)
    assert spec.role == name
    assert working_tools(spec) == tools
    lacks = lacking(spec, mode="acceptEdits", is_lead=False, may_spawn=False)
    assert {"SendMessage", "TaskUpdate"} <= set(COORDINATION) - set(lacks)


async def test_an_agent_asks_for_a_type_as_for_any_definition(user: Path) -> None:
    repo = str(user / "repo")
    facts = AgentFacts.new(
        spec=AgentSpec.new(driver="scripted", backend="in-process", cwd=repo, script="x").raw,
        parent=LEAD,
        nonce="n",
        phase="running",
        since_ms=0,
        began_ms=0,
    )
    wanted = Wanted(name="eve", prompt="Look.", role="Explore")
    spec = await teammate(wanted, files(user), (LEAD, facts), team="crew")
    assert working_tools(spec) == READING
    narrow = facts.evolve(spec=facts.spec.evolve(tools=["Bash", "SendMessage"]).raw)
    with pytest.raises(Refused, match="the tool Read"):
        await teammate(wanted, files(user), (LEAD, narrow), team="crew")


def test_a_definition_of_the_user_or_the_project_wins(user: Path) -> None:
    folder = user / ".claude/agents"
    folder.mkdir(parents=True)
    (folder / "mine.md").write_text("---\nname: Explore\n---\nLook twice.\n")
    assert find("Explore", user / "repo", user).instructions == "Look twice."
    (folder / "Plan.md").write_text("no fields")
    with pytest.raises(Unreadable, match=r"Plan\.md"):
        find("Plan", user / "repo", user)


def test_the_refusal_of_an_unknown_name_lists_every_type(user: Path) -> None:
    assert set(list_definitions(user / "repo", user).found) == set(TYPES)
    with pytest.raises(NotFound, match="'Explorer'") as caught:
        find("Explorer", user / "repo", user)
    assert "Known names: Bash, Explore, Plan, general-purpose." in caught.value.remedy
