"""A machine starts nothing for an agent elsewhere that this agent could not have spawned."""

from __future__ import annotations

from typing import Any

import pytest

from bullpen.agents.config.taken_spec import check_taken
from bullpen.errors import Refused
from bullpen.protocol.agent import AgentFacts, AgentSpec
from bullpen.protocol.policy import Policy, Sandbox
from support.rows import each_row

POLICY = Policy.new(
    approver="human",
    allow=["Bash(make test)"],
    deny=["Read(.env)"],
    plan_rule="check",
    answers="/a",
    sandbox=Sandbox.new().raw,
)
HOOKS = {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]}
ABOVE = AgentSpec.new(
    driver="acp",
    backend="subprocess",
    cwd="/srv",
    mode="default",
    policy=POLICY.raw,
    script="/srv/script.toml",
    hooks=HOOKS,
    env_asked=["TOKEN"],
    options={"command": ["bin/agent", "--acp"]},
    mcp_servers={"hub": {"command": "hub"}},
)
PARENT = "alice", AgentFacts.new(spec=ABOVE.raw, nonce="n", since_ms=1)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"script": None, "env_asked": []},
        {"mcp_servers": None},
        {"options": {"command": ["/srv/bin/agent", "--acp"], "on": {"room": "2"}}},
        {"driver": "scripted", "options": {}},
    ],
)
def test_what_the_parent_has_it_passes_on(changes: dict[str, Any]) -> None:
    check_taken(ABOVE.evolve(**changes), PARENT, name="eve")


@each_row(
    "changes",
    [
        {"mode": "bypassPermissions"},
        {"options": {"command": ["sh", "-c", "id"]}},
        {"options": {"command": ["bin/agent", "--acp", "--yolo"]}},
        {"driver": "other", "options": {"command": ["bin/agent", "--acp"]}},
        {"script": "/tmp/evil.toml"},
        {"env_asked": ["TOKEN", "SECRET"]},
        {"policy": POLICY.evolve(plan_rule="id").raw},
        {"policy": POLICY.evolve(answers="/tmp/evil").raw},
        {"policy": POLICY.evolve(allow=["Bash"]).raw},
        {"policy": POLICY.evolve(deny=[]).raw},
        {"policy": POLICY.evolve(sandbox=None).raw},
        {"hooks": None},
        {"mcp_servers": {"hub": {"command": "evil"}}},
        {"mcp_servers": {"other": {"command": "hub"}}},
        {"cwd": "/"},
        {
            "workspace": {
                "kind": "worktree",
                "repository": "/srv",
                "path": "/trees/eve",
                "setup": "id",
            }
        },
    ],
)
def test_what_the_parent_has_not_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(Refused) as refused:
        check_taken(ABOVE.evolve(**changes), PARENT, name="eve")
    assert refused.value.reason == "wider_than_parent"
