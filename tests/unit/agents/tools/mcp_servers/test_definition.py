"""The definition of a server: what is accepted, and what would put a secret into records."""

from __future__ import annotations

from typing import Any

import pytest

from bullpen.agents.system.environment import for_commands, variables_in
from bullpen.agents.tools.mcp_servers.definition import definition_of
from bullpen.agents.tools.mcp_servers.stdio_transport import server_environment
from bullpen.errors import Invalid
from bullpen.protocol.agent import AgentSpec
from support.rows import each_row

GITHUB = {
    "command": "npx",
    "args": ["-y", "server-github", "${DIR:-/tmp}"],
    "env": {"GITHUB_TOKEN": "${GITHUB_TOKEN}", "LOG": "debug"},
}
WEB = {
    "type": "http",
    "url": "https://example.com/mcp",
    "headers": {"Authorization": "Bearer ${KEY}"},
}


def test_both_kinds_of_servers_are_read_and_filled_only_when_asked() -> None:
    made = definition_of("github", GITHUB)
    assert made.command == ("npx", "-y", "server-github", "${DIR:-/tmp}")
    given = made.expanded({"GITHUB_TOKEN": "t-1"})
    assert given.command[-1] == "/tmp" and given.env == {"GITHUB_TOKEN": "t-1", "LOG": "debug"}
    web = definition_of("web", WEB)
    assert web.expanded({"KEY": "k"}).headers == {"Authorization": "Bearer k"}
    with pytest.raises(Invalid, match="KEY is not set"):
        web.expanded({})


WRONG: dict[str, tuple[str, Any, str]] = {
    "name with two _": ("a__b", GITHUB, "a name has"),
    "name with a dot": ("a.b", GITHUB, "a name has"),
    "our name": ("bullpen", GITHUB, "Bullpen's own"),
    "no object": ("a", "npx", "not an object"),
    "old transport": ("a", {"type": "sse", "url": "https://x.y"}, "'sse' is not supported"),
    "unknown field": ("a", {**GITHUB, "autoApprove": []}, "autoApprove is not supported"),
    "no command": ("a", {"args": []}, "text in command"),
    "args": ("a", {"command": "x", "args": "y"}, "args is not a list"),
    "no web": ("a", {"url": "file:///etc/passwd"}, "its url"),
    "password": ("a", {"url": "https://u:p@x.y"}, "user or a password"),
    "secret in env": ("a", {"command": "x", "env": {"API_TOKEN": "abc123"}}, "API_TOKEN"),
    "secret in a header": ("a", {**WEB, "headers": {"Authorization": "Bearer x"}}, "Authorization"),
    "token in args": ("a", {"command": "x", "args": ["ghp_" + "a1" * 18]}, "contains a secret"),
    "our variable": ("a", {"command": "x", "env": {"A": "${BULLPEN_HOME}"}}, "Bullpen's own"),
}


@each_row("what", WRONG)
def test_a_definition_that_cannot_be_used_is_refused_by_name(what: str) -> None:
    name, raw, why = WRONG[what]
    with pytest.raises(Invalid, match="cannot be used") as refused:
        definition_of(name, raw)
    assert why in str(refused.value)


def test_a_server_gets_what_every_program_needs_and_its_own_variables_only() -> None:
    env = {
        "PATH": "/bin",
        "HOME": "/home/ann",
        "ANTHROPIC_API_KEY": "k",
        "SSH_AUTH_SOCK": "/s",
        "OTHER": "x",
        "BULLPEN_HOME": "/b",
    }
    assert server_environment(env, {"LOG": "debug"}) == {
        "PATH": "/bin",
        "HOME": "/home/ann",
        "LOG": "debug",
    }


def test_commands_of_the_agent_do_not_get_the_variables_of_its_servers() -> None:
    spec = AgentSpec.new(
        driver="native", backend="in-process", cwd="/", mcp_servers={"github": GITHUB}
    )
    assert variables_in(spec.mcp_servers) == {"GITHUB_TOKEN", "DIR"}
    env = {"GITHUB_TOKEN": "t-1", "PATH": "/bin"}
    assert "GITHUB_TOKEN" not in for_commands(env, spec)
    assert for_commands(env, spec.evolve(env_asked=["GITHUB_TOKEN"]))["GITHUB_TOKEN"] == "t-1"
