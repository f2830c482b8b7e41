"""R-4.2: no agent gives to another what it does not have, and nothing changes silently."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from bullpen.agents.config.inherit import under
from bullpen.agents.contracts.call import Call
from bullpen.agents.permissions.agent_rights import rights_of
from bullpen.agents.permissions.decide import decide
from bullpen.agents.tools.toolbox import TOOLS, lacking
from bullpen.errors import Refused
from bullpen.protocol.agent import AgentFacts, AgentSpec
from bullpen.protocol.policy import Policy, Standing

ASKED = ("-", "default", "acceptEdits", "bypassPermissions", "plan", "delegate", "dontAsk")

# What becomes of the mode that is asked for (columns as above; - is none) under a lead in the mode
# at the left; in brackets what a lead that only leads may give. x: it is refused.
MODES_UNDER = """
default                      default     default x           x                 plan x        dontAsk
acceptEdits                  acceptEdits default acceptEdits x                 plan delegate dontAsk
bypassPermissions            bypassPermissions default acceptEdits bypassPermissions plan delegate dontAsk
plan                         x           x       x           x                 x    x        x
delegate                     default     default x           x                 plan x        dontAsk
delegate(acceptEdits)        acceptEdits default acceptEdits x                 plan delegate dontAsk
delegate(bypassPermissions)  bypassPermissions default acceptEdits bypassPermissions plan delegate dontAsk
delegate(plan)               plan        x       x           x                 plan x        dontAsk
dontAsk                      dontAsk     x       x           x                 x    x        dontAsk
"""  # noqa: E501 - a table

WORKING = ["Read", "Write", "Edit", "MultiEdit", "apply_patch", "Glob", "Grep", "Bash"]
WORKING += ["NotebookEdit", "BashOutput", "KillShell", "Skill", "WebFetch"]
TEAM = ["TaskCreate", "TaskGet", "TaskList", "TaskUpdate", "NotesRead", "NotesWrite"]
TEAM += ["Promise", "SendMessage", "TeamStatus"]
TEAM += ["ScheduleWakeup", "SpawnTeammate", "Task", "StopTeammate", "EnterPlanMode"]
TEAM += ["ToolSearch", "TodoWrite", "AskUserQuestion"]
LOOKING = ["Read", "Glob", "Grep", "BashOutput", "KillShell", "Skill", "WebFetch"]
PLANNING = [name for name in TEAM if name not in ("SpawnTeammate", "Task", "EnterPlanMode")]

# What a teammate has in each mode: its tools, and what happens when it reads inside, reads outside,
# writes inside, writes outside, runs a command.
IN_MODE: dict[str, tuple[list[str], str]] = {
    "default": (WORKING + TEAM, "+????"),
    "acceptEdits": (WORKING + TEAM, "+?+??"),
    "bypassPermissions": (WORKING + TEAM, "+++++"),
    "plan": ([*LOOKING, *PLANNING, "ExitPlanMode"], "+?---"),
    "delegate": (WORKING + TEAM, "+?+??"),
    "dontAsk": (WORKING + TEAM, "+----"),
}
SIGNS = {"allow": "+", "ask": "?", "deny": "-"}
BACKENDS = ("in-process", "subprocess", "tmux")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name in ("project/src", "project/sub", "outside", "more"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path


def spec_of(place: Path, **fields: Any) -> AgentSpec:
    policy = fields.pop("policy", None)
    base = {"driver": "scripted", "backend": "subprocess", "cwd": str(place / "project")}
    return AgentSpec.new(**{**base, **fields}, policy=None if policy is None else policy.raw)


def facts_of(spec: AgentSpec, standing: Standing | None = None) -> AgentFacts:
    return AgentFacts.new(
        spec=spec.raw,
        nonce="n",
        since_ms=1,
        standing=None if standing is None else standing.raw,
    )


def parent_of(place: Path, mode: str = "default", **fields: Any) -> AgentFacts:
    return facts_of(spec_of(place, mode=mode, **fields))


def child(spec: AgentSpec, parent: AgentFacts, *, leads: bool = True) -> AgentSpec:
    return under(spec, parent, of="anna", parent_leads=leads)


def refusal(spec: AgentSpec, parent: AgentFacts, *, leads: bool = True) -> str:
    with pytest.raises(Refused) as refused:
        child(spec, parent, leads=leads)
    assert refused.value.reason == "wider_than_parent"
    assert "'anna'" in refused.value.message
    return refused.value.message


def matrix() -> list[tuple[str, str, str]]:
    rows = [line.split() for line in MODES_UNDER.strip().splitlines()]
    return [(row[0], *pair) for row in rows for pair in zip(ASKED, row[1:], strict=True)]


def test_the_matrix_is_whole() -> None:
    assert len(matrix()) == 9 * 7


@pytest.mark.parametrize(("lead", "asked", "expected"), matrix())
def test_a_teammate_has_what_the_table_says(
    lead: str, asked: str, expected: str, place: Path
) -> None:
    """R-4.2: lead mode x teammate policy x backend: tools and rights equal the table.

    No silent widening or narrowing; delegate changes the lead's own tools only.
    """
    mode, _, teammates = lead.rstrip(")").partition("(")
    policy = Policy.new(teammates=teammates or None)
    parent = parent_of(place, mode, policy=policy)
    for backend in BACKENDS:
        wanted = spec_of(place, mode=None if asked == "-" else asked, backend=backend)
        if expected == "x":
            with pytest.raises(Refused) as refused:
                child(wanted, parent)
            reason = "plan_mode" if lead == "plan" else "wider_than_parent"
            assert refused.value.reason == reason
            continue
        made = child(wanted, parent)
        assert made.backend == backend
        assert made.mode == expected
        tools, effects = IN_MODE[expected]
        lacks = lacking(made, mode=made.start_mode, is_lead=False, may_spawn=True)
        assert {tool.name for tool in TOOLS} - set(lacks) == set(tools)
        assert effects_of(made, place) == effects


def effects_of(spec: AgentSpec, place: Path) -> str:
    rights = rights_of(facts_of(spec), user_home=str(place / "home"))
    calls = (
        Call("Read", {"file_path": "src/a"}, "read"),
        Call("Read", {"file_path": str(place / "outside/a")}, "read"),
        Call("Write", {"file_path": "src/a"}, "write"),
        Call("Write", {"file_path": str(place / "outside/a")}, "write"),
        Call("Bash", {"command": "ls"}, "run"),
    )
    return "".join(SIGNS[decide(call, rights).effect] for call in calls)


@pytest.mark.parametrize("mode", ["default", "acceptEdits", "dontAsk"])
def test_all_that_is_wider_is_named_at_once(mode: str, place: Path) -> None:
    parent = parent_of(
        place, mode, tools=["Read", "SpawnTeammate"], policy=Policy.new(sandbox={"network": False})
    )
    policy = Policy.new(
        allow=["Bash(git:*)"],
        directories=[str(place / "more")],
        after_plan="bypassPermissions",
        approver="lead",
        plan_approver="auto",
        answers="/a.toml",
        sandbox={"network": True, "write": [str(place / "outside")]},
    )
    wanted = spec_of(
        place,
        mode="bypassPermissions",
        tools=["Read", "Bash", "SendMessage"],
        cwd=str(place / "outside"),
        policy=policy,
    )
    text = refusal(wanted, parent)
    for part in (
        "the mode bypassPermissions",
        "the mode bypassPermissions after its plan",
        "the rule Bash(git:*)",
        f"the directory {place}/outside",
        f"the directory {place}/more",
        "the tool Bash",
        "the network",
        f"{place}/outside, to be written",
        "permission given by lead",
        "the policy file /a.toml",
        "plans approved by auto",
    ):
        assert part in text
    assert "Read" not in text
    assert "SendMessage" not in text


@pytest.mark.parametrize(
    ("rule", "of_parent", "fits"),
    [
        ("Bash(git log:*)", "Bash(git log:*)", True),
        ("Bash(git log:*)", "Bash(git:*)", True),
        ("Bash(git log -3)", "Bash(git log *)", True),
        ("Bash(git log:*)", "Bash", True),
        ("Bash(git:*)", "Bash(git log:*)", False),
        ("Bash(git log:*)", "Bash(git log)", False),
        ("Bash(gitx:*)", "Bash(git:*)", False),
        ("Bash(*)", "Bash(git:*)", False),
        ("Bash(git * x)", "Bash(git:*)", False),
        ("Bash", "Bash(git:*)", False),
        ("Edit(/src/a/**)", "Edit(/src/**)", True),
        ("Edit(src/a/**)", "Edit(/src/**)", True),
        ("Edit(./src/a.py)", "Edit(/src/**)", True),
        ("Edit(/src/../**)", "Edit(/src/**)", False),
        ("Edit(/src/**)", "Edit(/src/a/**)", False),
        ("Edit(/srcs/**)", "Edit(/src/**)", False),
        ("Edit(src)", "Edit(/src/**)", False),
        ("Edit(/src/**)", "Read(/src/**)", False),
        ("Edit", "Edit(/src/**)", False),
        ("Grep", "Read", True),
        ("Read", "Grep", False),
        ("mcp__a__b", "mcp__a", True),
        ("mcp__a", "mcp__a__b", False),
        ("WebFetch", "WebSearch", False),
    ],
)
def test_an_allow_rule_must_be_covered_by_the_parents(
    rule: str, of_parent: str, fits: bool, place: Path
) -> None:
    parent = parent_of(place, policy=Policy.new(allow=[of_parent]))
    wanted = spec_of(place, policy=Policy.new(allow=[rule]))
    if fits:
        assert child(wanted, parent).policy.allow == [rule]
    else:
        assert f"the rule {rule}" in refusal(wanted, parent)
    free = parent_of(place, "bypassPermissions")
    assert child(wanted, free).policy.allow == [rule]


def test_a_rule_from_elsewhere_is_measured_where_it_holds(place: Path) -> None:
    """The same words in another directory are another rule."""
    parent = parent_of(place, policy=Policy.new(allow=["Edit(/src/**)"], deny=["Read(/src/key)"]))
    below = str(place / "project/sub")
    assert "the rule" in refusal(
        spec_of(place, cwd=below, policy=Policy.new(allow=["Edit(/src/**)"])), parent
    )
    made = child(spec_of(place, cwd=below), parent)
    rights = rights_of(facts_of(made), user_home="/nowhere")
    project = place / "project"
    read = Call("Read", {"file_path": str(project / "src/key")}, "read")
    assert decide(read, rights).effect == "deny"
    write = Call("Write", {"file_path": str(project / "src/a")}, "write")
    assert decide(write, rights).effect == "allow"
    other = Call("Write", {"file_path": str(project / "sub/src/a")}, "write")
    assert decide(other, rights).effect == "ask"


def test_what_was_granted_to_the_parent_since_counts(place: Path) -> None:
    standing = Standing.new(mode="acceptEdits", allow=["Bash(make:*)"], directories=[str(place)])
    parent = facts_of(spec_of(place, mode="plan"), standing)
    wanted = spec_of(place, cwd=str(place / "more"), policy=Policy.new(allow=["Bash(make all)"]))
    made = child(wanted, parent)
    assert made.mode == "acceptEdits"
    plans_again = facts_of(spec_of(place), Standing.new(mode="plan"))
    with pytest.raises(Refused) as refused:
        child(spec_of(place), plans_again)
    assert refused.value.reason == "plan_mode"


def test_links_do_not_hide_where_a_child_works(place: Path) -> None:
    (place / "project/link").symlink_to(place / "outside")
    wanted = spec_of(place, cwd=str(place / "project/link"))
    assert "the directory" in refusal(wanted, parent_of(place))
    assert "the directory" in refusal(
        spec_of(place, policy=Policy.new(directories=["../outside"])), parent_of(place)
    )
    assert child(wanted, parent_of(place, "bypassPermissions")).cwd == wanted.cwd


def test_a_child_inherits_what_it_does_not_say(place: Path) -> None:
    hooks = {"PreToolUse": [{"matcher": "Bash", "hooks": []}]}
    policy = Policy.new(
        allow=["Bash(make:*)"],
        deny=["Bash(rm:*)"],
        ask=["Bash(git push:*)"],
        directories=[str(place / "more")],
        approver="policy",
        answers="/answers.toml",
        deadline_s=30.0,
        plan_approver="rule",
        plan_rule="check-plan",
        sandbox={"network": False},
    )
    made = child(spec_of(place), parent_of(place, policy=policy, hooks=hooks))
    rights = made.policy
    assert (rights.allow, rights.deny, rights.ask) == (policy.allow, policy.deny, policy.ask)
    assert rights.directories == policy.directories
    assert (rights.approver, rights.answers) == ("policy", "/answers.toml")
    assert rights.deadline_s == 30.0
    assert (rights.plan_approver, rights.plan_rule) == ("rule", "check-plan")
    assert rights.raw["sandbox"] == {"network": False}
    assert made.hooks == hooks
    for key in ("Bash(make:*)", "Bash(rm:*)", "Bash(git push:*)", "approver", "sandbox"):
        assert rights.sources[key] == "from anna"


def test_deny_ask_and_hooks_are_added_to_those_of_the_child(place: Path) -> None:
    parent = parent_of(
        place,
        policy=Policy.new(deny=["Bash(rm:*)"], ask=["WebFetch"]),
        hooks={"PreToolUse": [1], "Stop": [{"hooks": []}, {"hooks": [], "role": "tester"}]},
        disallowed_tools=["Write", "SendMessage"],
    )
    own = Policy.new(deny=["Read(.env)"], sources={"Read(.env)": "a file"})
    made = child(spec_of(place, policy=own, hooks={"PreToolUse": [1, 3]}), parent)
    assert made.policy.deny == ["Read(.env)", "Bash(rm:*)"]
    assert made.policy.ask == ["WebFetch"]
    assert made.policy.sources["Read(.env)"] == "a file"
    # The end of its parent's turns, in its parent's role, is not its own.
    assert made.hooks == {"PreToolUse": [1, 3], "Stop": [{"hooks": []}]}
    assert made.disallowed_tools == ["Write"]


def test_a_child_has_no_working_tool_that_its_parent_lacks(place: Path) -> None:
    parent = parent_of(place, tools=["Read", "Bash(git:*)", "SpawnTeammate"])
    made = child(spec_of(place), parent)
    lacks = lacking(made, mode="default", is_lead=False, may_spawn=True)
    assert {"Write", "Edit", "Grep", "Glob"} < set(lacks)
    assert not {"Read", "Bash", "SendMessage", "TaskUpdate"} & set(lacks)
    assert "Bash(git:*)" in (made.tools or [])
    assert "the tool Bash" in refusal(spec_of(place, tools=["Bash"]), parent)
    assert "the tool Grep" in refusal(spec_of(place, tools=["Grep"]), parent)
    narrower = ["Bash(git log:*)", "SendMessage"]
    assert child(spec_of(place, tools=narrower), parent).tools == narrower


@pytest.mark.parametrize("tools", [None, [], ["SendMessage", "SpawnTeammate"]])
def test_a_lead_that_only_leads_takes_no_tool_from_others(
    tools: list[str] | None, place: Path
) -> None:
    """R-4.2: the lead's coordination-only mode changes the lead's tool list only."""
    parent = parent_of(place, "delegate", tools=tools)
    made = child(spec_of(place), parent)
    assert made.tools is None
    assert made.mode == "default"
    lacks = lacking(made, mode=made.start_mode, is_lead=False, may_spawn=True)
    assert not set(WORKING) & set(lacks)


def test_delegate_of_a_teammate_goes_no_further(place: Path) -> None:
    made = child(spec_of(place), parent_of(place, "delegate"), leads=False)
    assert made.mode == "acceptEdits"


def test_a_sandbox_cannot_be_left(place: Path) -> None:
    closed = Policy.new(sandbox={"network": False, "read": [str(place / "more")], "write": []})
    parent = parent_of(place, "bypassPermissions", policy=closed)
    assert child(spec_of(place), parent).policy.sandbox == closed.sandbox
    for box, part in (
        ({"network": True}, "the network"),
        ({"write": [str(place / "more")]}, "to be written"),
        ({"read": [str(place / "outside")]}, "to be read"),
        ({"read": [str(place / "more/../outside")]}, "to be read"),
    ):
        assert part in refusal(spec_of(place, policy=Policy.new(sandbox=box)), parent)
    inner = {"network": False, "read": [str(place / "more/x")], "write": [str(place / "project")]}
    below = child(spec_of(place, policy=Policy.new(sandbox=inner)), parent).policy
    assert below.sandbox is not None
    assert below.sandbox.raw == inner


@pytest.mark.parametrize(
    ("above", "own"), list(itertools.product(["human", "lead", "policy"], repeat=2))
)
def test_nobody_laxer_answers_for_a_child(above: str, own: str, place: Path) -> None:
    parent = parent_of(place, policy=Policy.new(approver=above))
    wanted = spec_of(place, policy=Policy.new(approver=own))
    if own in (above, "human"):
        # A person is who answers where nothing is said: then the parent's approver does.
        assert child(wanted, parent).policy.approver == above
    else:
        assert f"permission given by {own}" in refusal(wanted, parent)


def test_plans_are_not_approved_more_easily(place: Path) -> None:
    by_rule = parent_of(place, policy=Policy.new(plan_approver="rule", plan_rule="check"))
    assert "the rule 'true'" in refusal(
        spec_of(place, policy=Policy.new(plan_approver="rule", plan_rule="true")), by_rule
    )
    assert "by auto" in refusal(spec_of(place, policy=Policy.new(plan_approver="auto")), by_rule)
    by_person = spec_of(place, policy=Policy.new(plan_approver="human"))
    assert child(by_person, by_rule).policy.plan_approver == "human"
    auto = parent_of(place, policy=Policy.new(plan_approver="auto"))
    assert child(spec_of(place), auto).policy.plan_approver == "auto"


def test_an_approved_plan_leads_no_further_than_the_parent(place: Path) -> None:
    planning = spec_of(place, mode="plan")
    assert child(planning, parent_of(place)).policy.after_plan == "default"
    assert child(planning, parent_of(place, "acceptEdits")).policy.after_plan == "acceptEdits"
    assert child(planning, parent_of(place, "bypassPermissions")).policy.after_plan == "acceptEdits"
    all_plan = parent_of(place, "delegate", policy=Policy.new(teammates="plan"))
    assert child(planning, all_plan).policy.after_plan == "acceptEdits"
    wide = spec_of(place, mode="plan", policy=Policy.new(after_plan="bypassPermissions"))
    assert "after its plan" in refusal(wide, parent_of(place, "acceptEdits"))
