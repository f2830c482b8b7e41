"""A record in a record: read once, with its own part of the JSON object."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from bullpen.protocol.agent import AgentFacts, AgentSpec
from bullpen.protocol.policy import Policy, Sandbox
from bullpen.protocol.record import Wire
from bullpen.protocol.task import Facts, Merge, Step, Task
from bullpen.protocol.team import Member, TeamConfig, TeamFacts
from support.rows import each_row

SPEC: dict[str, Any] = {
    "driver": "scripted",
    "backend": "in-process",
    "cwd": "/x",
    "policy": {"deny": ["Bash(rm:*)"], "sandbox": {"network": True, "later": 1}, "later": [2]},
    "workspace": {"kind": "worktree", "repository": "/x", "path": "/y", "later": None},
}
AGENT: dict[str, Any] = {
    "spec": SPEC,
    "nonce": "n",
    "sinceMs": 1,
    "process": {"backend": "in-process", "host": "h", "pid": 7},
    "spent": [{"turns": 1, "task": "1", "later": 3}],
    "standing": {"mode": "plan", "plan": {"requestId": "r", "digest": "d"}},
}
MERGE: dict[str, Any] = {
    "state": "queued",
    "order": 1,
    "commit": "c",
    "base": "b",
    "ref": "r",
    "by": "ann",
    "attempt": 1,
    "atMs": 1,
    "steps": [{"atMs": 1, "what": "queued", "later": 4}],
}


@pytest.fixture
def validations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The records that are parsed from now on, each with those in it."""
    for kind in (AgentFacts, AgentSpec, TeamFacts):
        # Defaults are made by the first who looks at them.
        assert [getattr(kind, name, None) for name in kind.field_keys()]
    seen: list[str] = []
    parse = Wire.parse.__func__  # type: ignore[attr-defined]

    def counted(cls: type[Wire], raw: dict[str, Any]) -> Wire:
        seen.append(cls.__name__)
        record: Wire = parse(cls, raw)
        return record

    monkeypatch.setattr(Wire, "parse", classmethod(counted))
    return seen


def member(agent: Any = AGENT) -> Member:
    return Member.parse({"name": "ann", "bullpen": copy.deepcopy(agent)})


def test_looking_twice_at_an_agent_parses_once(validations: list[str]) -> None:
    ann = member()
    assert validations == ["Member"], "what nobody looks at is not read"
    for _ in range(2):
        assert ann.agent is not None
        assert ann.agent.spec.policy.sandbox is not None
        assert ann.agent.spec.policy.sandbox.network
        assert ann.agent.standing.plan is not None
        assert (ann.agent.usage.turns, ann.agent.account[0].turns) == (0, 1)
        assert ann.agent.spec is ann.agent.spec
    assert validations == ["Member", "AgentFacts"]


def test_looking_twice_at_facts_parses_once(validations: list[str]) -> None:
    checks = [{"name": "tests", "kind": "command"}]
    metadata = {"bullpen": {"checks": checks, "merge": MERGE}}
    task = Task.parse({"id": "1", "subject": "s", "description": "", "metadata": metadata})
    config = TeamConfig.parse({"name": "t", "bullpen": {"limits": {"agents": 3}}})
    for _ in range(2):
        assert [check.name for check in task.facts.checks] == ["tests"]
        assert task.facts.merge is not None
        assert task.facts.merge.steps[0].what == "queued"
        assert (config.facts.limits.agents, config.facts.unattended.nudges) == (3, 1)
    assert validations == ["Task", "TeamConfig", "Facts", "TeamFacts"]


def test_each_record_has_its_own_part_with_what_is_unknown_in_it() -> None:
    agent = AgentFacts.parse(AGENT)
    sandbox, workspace = agent.spec.policy.sandbox, agent.spec.workspace
    assert agent.spec.raw is SPEC
    assert sandbox is not None
    assert sandbox.raw is SPEC["policy"]["sandbox"]
    assert workspace is not None
    assert workspace.raw is SPEC["workspace"]
    assert agent.spent[0].raw is AGENT["spent"][0]
    opened = agent.spec.policy.evolve(sandbox=sandbox.evolve(read=["/z"]))
    after = agent.evolve(spec=agent.spec.evolve(policy=opened))
    assert after.spec.policy.raw == {
        "deny": ["Bash(rm:*)"],
        "sandbox": {"network": True, "later": 1, "read": ["/z"]},
        "later": [2],
    }
    assert agent.raw == AGENT, "the old record must not change"


def test_a_new_record_keeps_what_is_unknown_in_those_it_is_made_of() -> None:
    spec = AgentSpec.parse(SPEC)
    agent = AgentFacts.new(spec=spec, nonce="n", since_ms=1)
    assert agent.spec.raw == SPEC
    assert AgentFacts.new(spec=SPEC, nonce="n", since_ms=1) == agent
    merge = Merge.parse(MERGE)
    assert merge.evolve(steps=[*merge.steps, Step.new(at_ms=2, what="merged")]).raw["steps"] == [
        *MERGE["steps"],
        {"atMs": 2, "what": "merged", "batch": []},
    ]


def test_a_default_is_never_written() -> None:
    assert Facts.new().raw == {"attempt": 0}
    assert TeamFacts.new().raw == {"spawnedMs": [], "spent": []}
    spec = AgentSpec.new(driver="d", backend="b", cwd="/")
    assert spec.policy == Policy.new()
    assert {"policy", "workspace", "budget"}.isdisjoint(spec.raw)
    agent = AgentFacts.new(spec=spec, nonce="n", since_ms=1)
    assert {"usage", "standing", "process"}.isdisjoint(agent.evolve(depth=2).raw)
    assert not agent.has("usage")
    assert agent.evolve(usage=agent.usage).has("usage")


@pytest.mark.parametrize("name", ["usage", "standing", "process"])
def test_a_null_reads_as_absent_and_stays(name: str) -> None:
    agent = AgentFacts.parse({**AGENT, name: None})
    without = {key: value for key, value in AGENT.items() if key != name}
    assert getattr(agent, name) == getattr(AgentFacts.parse(without), name)
    assert not agent.has(name)
    assert agent.raw[name] is None


@each_row(
    "damage",
    [
        {"spec": {"driver": "d"}},
        {"spec": {**SPEC, "policy": {"sandbox": {"network": "perhaps"}}}},
        {"spec": {**SPEC, "workspace": {"kind": "moon"}}},
        {"spec": {**SPEC, "budget": {"usd": -1}}},
        {"spec": {**SPEC, "turnsMax": 0}},
        {"process": []},
        {"usage": {"turns": "many"}},
        {"spent": [3]},
        {"standing": {"plan": {}}},
    ],
    ids=str,
)
def test_an_agent_that_is_damaged_anywhere_is_none(damage: dict[str, Any]) -> None:
    ann = member({**AGENT, **damage})
    assert ann.agent is None
    assert ann.evolve(color="red").raw["bullpen"] == {**AGENT, **damage}


def test_a_damaged_merge_reads_as_absent_and_takes_nothing_with_it() -> None:
    facts = Facts.parse({"attempt": 2, "merge": {"state": "lost"}})
    assert (facts.attempt, facts.merge, facts.has("merge")) == (2, None, True)
    assert facts.evolve(attempt=3).raw["merge"] == {"state": "lost"}
    team = TeamFacts.parse({"limits": {"agents": 3}, "merge": {"target": 1}})
    assert (team.limits.agents, team.merge, team.has("merge")) == (3, None, True)
    merge = Merge.parse({**MERGE, "steps": [{"what": "?"}]})
    assert (merge.state, merge.steps) == ("queued", [])


def test_names_of_python_are_unknown_in_a_part_too() -> None:
    raw = {**SPEC, "policy": {"plan_approver": "auto"}}
    assert AgentSpec.parse(raw).policy.plan_approver == "lead"
    assert AgentSpec.new(**raw).policy.plan_approver == "lead"
    assert Policy.new(sandbox=Sandbox.new(network=True)).raw["sandbox"]["network"] is True
