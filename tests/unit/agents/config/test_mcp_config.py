"""Which MCP servers an agent gets: from the project, the user, a team file and its role."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bullpen.agents.config.mcp_config import known_server
from bullpen.agents.config.spec import SpawnFiles, SpawnRequest, resolve
from bullpen.agents.config.trust import trust
from bullpen.agents.contracts.desk import Wanted
from bullpen.agents.supervisor.colleagues import teammate
from bullpen.errors import Invalid, NotFound, Refused, Unreadable
from bullpen.protocol.agent import AgentFacts, AgentSpec

HUB = {"command": "hub-server", "env": {"HUB_TOKEN": "${HUB_TOKEN}"}}
SKY = {"type": "http", "url": "https://sky.example/mcp"}
SECRET = "hub-secret-value-81"


class Places:
    """A user's home, and a project of theirs."""

    def __init__(self, folder: Path) -> None:
        self.user, self.project = folder / "user", folder / "project"
        self.home = self.user / ".bullpen"
        self.home.mkdir(parents=True)
        (self.project / ".git").mkdir(parents=True)

    def define(self, path: Path, **servers: Any) -> None:
        path.write_text(json.dumps({"mcpServers": servers}), "utf-8")

    def role(self, front: str) -> None:
        path = self.project / ".bullpen/agents/expert.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"---\nname: expert\n{front}\n---\nWork.\n", "utf-8")

    async def spec(self, parent: AgentSpec | None = None, **asked: Any) -> AgentSpec:
        request = SpawnRequest(**{"cwd": str(self.project), "driver": "native", **asked})
        environ = {"HOME": str(self.user), "ANTHROPIC_API_KEY": "k", "HUB_TOKEN": SECRET}
        above = None
        if parent is not None:
            above = "lead", AgentFacts.new(spec=parent.raw, nonce="n", since_ms=1)
        return await resolve(request, SpawnFiles(self.home, environ), above)


@pytest.fixture
def places(tmp_path: Path) -> Places:
    made = Places(tmp_path)
    made.define(made.home / "mcp.json", hub=HUB)
    return made


async def test_every_native_agent_has_the_users_servers_and_no_secret_is_stored(
    places: Places,
) -> None:
    spec = await places.spec()
    assert spec.mcp_servers == {"hub": HUB}
    assert "HUB_TOKEN" in spec.env and "HUB_TOKEN" not in spec.env_asked
    assert SECRET not in json.dumps(spec.raw)


async def test_servers_of_a_project_need_trust_as_they_are(places: Places) -> None:
    path = places.project / ".mcp.json"
    places.define(path, sky=SKY)
    with pytest.raises(Refused, match=r"\.mcp\.json") as refused:
        await places.spec()
    assert refused.value.reason == "not_trusted"
    assert (await places.spec(project_settings=False)).mcp_servers == {"hub": HUB}
    trust(places.home, places.project)
    assert (await places.spec()).mcp_servers == {"hub": HUB, "sky": SKY}
    places.define(path, sky={**SKY, "url": "https://evil.example/mcp"})
    with pytest.raises(Refused, match="changed"):
        await places.spec()


async def test_our_own_server_in_a_projects_file_is_nothing_to_trust(places: Places) -> None:
    """`bullpen mcp install` puts it there, for other programs."""
    places.define(places.project / ".mcp.json", bullpen={"command": "bullpen", "args": ["mcp"]})
    assert (await places.spec()).mcp_servers == {"hub": HUB}


async def test_the_nearest_definition_of_a_name_wins(places: Places) -> None:
    places.define(places.project / ".mcp.json", hub=SKY)
    trust(places.home, places.project)
    assert (await places.spec()).mcp_servers == {"hub": SKY}
    team = {"command": "of-the-team"}
    assert (await places.spec(mcp_servers={"hub": team})).mcp_servers == {"hub": team}


async def test_a_role_has_the_servers_that_it_lists(places: Places) -> None:
    places.role("mcpServers: [sky]")
    made = await places.spec(role="expert", mcp_servers={"sky": SKY})
    assert made.mcp_servers == {"sky": SKY}
    places.role("mcpServers: []")
    assert (await places.spec(role="expert")).mcp_servers is None
    places.role("mcpServers: hub, gone")
    with pytest.raises(Invalid, match="no MCP server 'gone'") as refused:
        await places.spec(role="expert")
    assert "Known are: hub" in refused.value.remedy


async def test_a_role_that_defines_a_server_itself_needs_trust(places: Places) -> None:
    places.role("mcpServers: [hub, {own: {command: own-server}}]")
    with pytest.raises(Refused, match=r"expert\.md") as refused:
        await places.spec(role="expert")
    assert refused.value.reason == "not_trusted"
    trust(places.home, places.project)
    made = await places.spec(role="expert")
    assert made.mcp_servers == {"hub": HUB, "own": {"command": "own-server"}}
    path = str(places.project / ".bullpen/agents/expert.md")
    with pytest.raises(Refused, match="named by its path"):
        await places.spec(role=path)


async def test_what_a_team_file_says_of_edits_and_searches_is_added_and_inherited(
    places: Places,
) -> None:
    (places.home / "settings.toml").write_text(
        '[web]\nsearch_url = "https://mine.org/{query}"\n[after_edit]\n"*.py" = ["mine"]\n'
    )
    url = "https://team.org/{query}"
    lead = await places.spec(after_edit={"*.py": ["mine", "ours"], "*": ["all"]}, search_url=url)
    assert lead.after_edit == {"*.py": ["mine", "ours"], "*": ["all"]}
    assert lead.options["search_url"] == url
    parent = "lead", AgentFacts.new(spec=lead.raw, nonce="n", since_ms=1)
    environ = {"HOME": str(places.user), "ANTHROPIC_API_KEY": "k", "HUB_TOKEN": SECRET}
    wanted = Wanted(name="ann", prompt="Go")
    child = await teammate(wanted, SpawnFiles(places.home, environ), parent, team="crew")
    assert (child.after_edit, child.options["search_url"]) == (lead.after_edit, url)
    assert (await places.spec()).after_edit == {"*.py": ["mine"]}


async def test_a_teammate_can_have_the_servers_of_its_parent(places: Places) -> None:
    lead = await places.spec(mcp_servers={"sky": SKY})
    assert (await places.spec(lead)).mcp_servers == {"hub": HUB, "sky": SKY}
    places.role("mcpServers: [sky]\ntools: Read, mcp__sky__*")
    child = await places.spec(lead, role="expert")
    assert child.mcp_servers == {"sky": SKY}
    assert child.tools is not None and {"mcp__sky__*", "ToolSearch"} <= set(child.tools)


async def test_only_native_agents_have_servers(places: Places) -> None:
    assert (await places.spec(driver="scripted", script="x")).mcp_servers is None
    places.role("mcpServers: [hub]")
    with pytest.raises(Invalid, match="driver is 'scripted'"):
        await places.spec(driver="scripted", script="x", role="expert")


async def test_files_that_cannot_be_used_are_said_with_their_names(places: Places) -> None:
    path = places.home / "mcp.json"
    path.write_text("{")
    with pytest.raises(Unreadable, match=r"mcp\.json"):
        await places.spec()
    path.write_text('{"mcpServers": []}')
    with pytest.raises(Unreadable, match="no object mcpServers"):
        await places.spec()
    places.define(path, hub={"command": "x", "env": {"HUB_TOKEN": SECRET}})
    with pytest.raises(Invalid, match=r"mcp\.json: The MCP server 'hub'") as refused:
        await places.spec()
    assert SECRET not in str(refused.value)


def test_only_known_servers_of_trusted_files_can_be_logged_in_to(places: Places) -> None:
    home, project = places.home, places.project
    places.define(project / ".mcp.json", sky=SKY)
    assert known_server("hub", project, home=home).command == ("hub-server",)
    with pytest.raises(NotFound, match="no MCP server 'gone'"):
        known_server("gone", project, home=home)
    with pytest.raises(Refused, match="not trusted") as refused:
        known_server("sky", project, home=home)
    assert refused.value.reason == "not_trusted"
    trust(home, project)
    assert known_server("sky", project, home=home).url == SKY["url"]
