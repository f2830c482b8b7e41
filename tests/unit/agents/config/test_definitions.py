"""Agent definitions: every field is applied or refused by name (R-9.7)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bullpen.agents.config.definitions import (
    MODELS,
    Definition,
    apply,
    find,
    list_definitions,
    read,
)
from bullpen.agents.config.role_fields import COORDINATION
from bullpen.agents.hooks.hook_set import HookSet
from bullpen.errors import Invalid, NotFound, Unreadable
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.policy import MODES
from support.rows import each_row

BUILT_IN = {"general-purpose", "Explore", "Plan", "Bash"}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A git tree in a home."""
    (tmp_path / "home/repo/.git").mkdir(parents=True)
    (tmp_path / "home/repo/src").mkdir()
    return tmp_path / "home/repo"


def write(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.md"
    path.write_text(text, encoding="utf-8")
    return path


def role(name: str, body: str, **fields: str) -> str:
    rows = "".join(f"{key}: {value}\n" for key, value in fields.items())
    return f"---\nname: {name}\ndescription: A role.\n{rows}---\n{body}\n"


def spec(**fields: Any) -> AgentSpec:
    return AgentSpec.new(driver="native", backend="in-process", cwd="/", **fields)


def made(tmp_path: Path, front: str, body: str = "Do it well.") -> Definition:
    return read(write(tmp_path, "role", f"---\nname: role\n{front}---\n\n{body}\n"))


def with_team_tools(*names: str) -> list[str]:
    """The tools of a role that lists these: a member of a team can always speak to it."""
    return list(dict.fromkeys([*names, *COORDINATION]))


EVERY_FIELD = """\
description: Reviews changes
color: blue
tools: Read, Grep, Glob, Bash, TaskUpdate
disallowedTools: [Bash, WebFetch]
model: opus
permissionMode: plan
maxTurns: 7
effort: high
initialPrompt: Begin with the newest change.
background: true
skills:
hooks: {}
mcpServers: [github]
"""


def test_a_role_with_every_field_that_can_be_applied(tmp_path: Path) -> None:
    definition = made(tmp_path, EVERY_FIELD)
    shown = (definition.fields["description"], definition.fields["color"])
    assert shown == ("Reviews changes", "blue")
    result = apply(definition, spec(prompt="Look at #7.", options={"context_window": 9}))
    assert result == spec(
        prompt="Begin with the newest change.\n\nLook at #7.",
        role="role",
        instructions="Do it well.",
        tools=with_team_tools("Read", "Grep", "Glob", "Bash", "TaskUpdate"),
        disallowed_tools=["Bash", "WebFetch"],
        model=MODELS["opus"],
        mode="plan",
        turns_max=7,
        options={"effort": "high", "context_window": 9},
        mcp_servers={"github": None},
    )


@pytest.mark.parametrize("field", ["memory: ''", "memory: false", "isolation: ''", "skills: []"])
def test_a_field_without_a_value_changes_nothing(tmp_path: Path, field: str) -> None:
    definition = made(tmp_path, f"{field}\n")
    assert not definition.governs and not definition.skills
    assert apply(definition, spec()) == spec(role="role", instructions="Do it well.")


REFUSED = {
    "tools: 'Bash(git log, Read'": r"tools: Bash\(git log: its parentheses do not match",
    "tools: 'Bsh(git:*)'": r"tools: an agent here has none of these: Bsh\(git:\*\)",
    "tools: [Nmap, Reed]": "tools: an agent here has none of these: Nmap, Reed",
    "tools: 'mcp__x__y(z)'": r"tools: an agent here has none of these: mcp__x__y\(z\)",
    "tools: 7": "tools: it is not a list",
    "disallowedTools: Bsh": "disallowedTools: there is no tool 'Bsh'",
    "disallowedTools: 'Bash()'": r"disallowedTools: Bash\(\): there is nothing between",
    "model: [opus]": "model: it is not the name",
    "permissionMode: yolo": "permissionMode: there is no mode 'yolo'",
    "maxTurns: many": "maxTurns: it is not a number",
    "maxTurns: 0": "maxTurns: it is not a number",
    "maxTurns: true": "maxTurns: it is not a number",
    "effort: huge": "effort: there is no effort 'huge'",
    "background: maybe": "background: it is neither",
    "initialPrompt: [x]": "initialPrompt: it is not text",
    "skills: {a: 1}": "skills: it is not a list of names",
    "mcpServers: [7]": "mcpServers: 7 is neither the name nor the definition",
    "mcpServers: [{a: {url: 7}}]": "mcpServers: The MCP server 'a' cannot be used: it needs a text",
    "hooks: {Stop: [{}]}": "hooks: The hooks cannot be used: Stop: hooks is not a list",
    "hooks: [guard]": "hooks: it is not a mapping of events",
    "memory: global": "memory: there is no scope 'global'",
    "isolation: container": "isolation: there is no isolation 'container'",
    "temperature: 0.3": "temperature: there is no such field",
}


@each_row("field", REFUSED)
def test_what_cannot_be_applied_is_refused_by_name(tmp_path: Path, field: str) -> None:
    definition = made(tmp_path, f"{field}\n")
    with pytest.raises(Invalid, match=REFUSED[field]) as caught:
        apply(definition, spec())
    assert str(definition.path) in caught.value.message


def test_all_fields_that_cannot_be_applied_are_listed_at_once(tmp_path: Path) -> None:
    definition = made(tmp_path, "skills: [1]\nhooks: {Stop: 1}\nmemory: x\nx-mine: 1\n")
    with pytest.raises(Invalid) as caught:
        apply(definition, spec())
    for field in ("skills:", "hooks:", "memory:", "x-mine:"):
        assert field in caught.value.message


@pytest.mark.parametrize(
    ("written", "asked", "model"),
    [
        ("inherit", "gpt-5.1", "gpt-5.1"),
        ("inherit", None, None),
        ("sonnet", None, MODELS["sonnet"]),
        ("haiku", "gpt-5.1", "gpt-5.1"),
        ("openai:gpt-5.1", None, "openai:gpt-5.1"),
    ],
)
def test_the_model_of_the_spawn_comes_first(
    tmp_path: Path, written: str, asked: str | None, model: str | None
) -> None:
    definition = made(tmp_path, f"model: {written}\n")
    assert apply(definition, spec(model=asked)).model == model


def test_a_definition_never_widens_what_the_spawn_allows(tmp_path: Path) -> None:
    definition = made(
        tmp_path,
        "tools: Read, Bash\ndisallowedTools: Grep\nmaxTurns: 9\npermissionMode: acceptEdits\n",
    )
    result = apply(
        definition,
        spec(tools=["Read", "Glob"], disallowed_tools=["Write"], turns_max=3, mode="plan"),
    )
    assert result.tools == ["Read"]
    assert result.disallowed_tools == ["Write", "Grep"]
    assert (result.turns_max, result.mode) == (3, "plan")


def test_parts_of_tools_are_kept_as_they_are_written(tmp_path: Path) -> None:
    definition = made(tmp_path, "tools: 'Bash(git log:*, git diff), Edit(/src/**), Read'\n")
    assert apply(definition, spec()).tools == with_team_tools(
        "Bash(git log:*)", "Bash(git diff)", "Edit(/src/**)", "Read"
    )


def test_of_two_parts_of_a_tool_the_narrower_is_given(tmp_path: Path) -> None:
    definition = made(tmp_path, "tools: [Bash, 'Edit(/src/**)', 'Read(/docs/**)']\n")
    result = apply(definition, spec(tools=["Bash(git:*)", "Edit", "Read(/src/**)"]))
    assert result.tools == ["Edit(/src/**)", "Bash(git:*)"]


def test_a_part_that_is_disallowed_is_denied_in_the_policy(tmp_path: Path) -> None:
    written = "Write, 'Bash(rm:*)', 'Read(~/.ssh/**)', mcp__github__push, 'WebFetch(domain:x.org)'"
    definition = made(tmp_path, f"disallowedTools: [{written}]\n")
    result = apply(definition, spec(policy={"deny": ["Read(.env)"]}))
    assert result.disallowed_tools == ["Write"]
    assert result.policy.deny == [
        "Read(.env)",
        "Bash(rm:*)",
        "Read(~/.ssh/**)",
        "mcp__github__push",
        "WebFetch(domain:x.org)",
    ]
    assert result.policy.sources["Bash(rm:*)"] == str(definition.path)


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_can_be_that_of_a_role(tmp_path: Path, mode: str) -> None:
    assert apply(made(tmp_path, f"permissionMode: {mode}\n"), spec()).mode == mode


def test_the_hooks_of_a_role_are_stored_with_their_file_and_project(tmp_path: Path) -> None:
    front = "hooks:\n  Stop:\n    - hooks: [{type: command, command: ./check}]\n"
    definition = read(write(tmp_path / ".claude/agents", "a", f"---\n{front}---\nDo it.\n"))
    hooks = apply(definition, spec()).hooks
    (hook,) = HookSet.of(hooks).hooks
    assert (hook.event, hook.command) == ("Stop", "./check")
    assert (hook.source, hook.project) == (str(definition.path), str(tmp_path))


@pytest.mark.parametrize(
    ("front", "governs"),
    [
        ("", False),
        ("permissionMode: plan\n", False),
        ("permissionMode: dontAsk\n", False),
        ("permissionMode: acceptEdits\n", True),
        ("permissionMode: bypassPermissions\n", True),
        ("hooks: {Stop: []}\n", True),
        ("hooks: {}\n", False),
        ("memory: user\n", True),
    ],
)
def test_a_role_that_runs_or_allows_something_needs_trust(
    tmp_path: Path, front: str, governs: bool
) -> None:
    assert made(tmp_path, front).governs == governs


def test_a_role_with_few_tools_can_still_speak_to_its_team(tmp_path: Path) -> None:
    """R-9.7: a file of Claude Code lists Read only, and its agent can complete its task there."""
    tools = apply(made(tmp_path, "tools: Read\n"), spec()).tools
    assert tools is not None and {"Read", "SendMessage", "TaskUpdate", "TaskList"} <= set(tools)
    assert not {"Bash", "Write", "Edit", "SpawnTeammate"} & set(tools)


def test_no_tools_and_all_tools_are_not_the_same(tmp_path: Path) -> None:
    assert apply(made(tmp_path, "tools: []\n"), spec()).tools == with_team_tools()
    assert apply(made(tmp_path, "tools: '*'\n"), spec()).tools is None
    assert apply(made(tmp_path, ""), spec()).tools is None


def test_the_nearest_definition_wins_and_bullpens_own_come_first(tree: Path) -> None:
    home = tree.parent
    write(home / ".claude/agents", "a", role("a", "home claude"))
    write(home / ".bullpen/agents", "a", role("a", "home bullpen"))
    assert find("a", tree / "src", home).instructions == "home bullpen"
    write(tree / ".claude/agents", "a", role("a", "root claude"))
    assert find("a", tree / "src", home).instructions == "root claude"
    write(tree / ".bullpen/agents", "b", role("a", "root bullpen"))
    assert find("a", tree / "src", home).instructions == "root bullpen"
    write(tree / "src/.claude/agents", "a", role("a", "src claude"))
    assert find("a", tree / "src", home).instructions == "src claude"
    assert find("a", tree, home).instructions == "root bullpen"
    assert set(list_definitions(tree, home).found) - BUILT_IN == {"a"}


def test_a_name_that_nobody_defines_lists_the_others(tree: Path) -> None:
    write(tree / ".claude/agents", "a", role("reviewer", "x"))
    with pytest.raises(NotFound, match="'tester'") as caught:
        find("tester", tree, tree.parent)
    assert "reviewer" in caught.value.remedy


def test_a_name_that_the_file_does_not_give_is_that_of_the_file(tree: Path) -> None:
    write(tree / ".claude/agents", "tester", "---\ndescription: x\n---\nTest.\n")
    assert find("tester", tree, tree.parent).instructions == "Test."


UNREADABLE = {
    "no fields": "Just text.\n",
    "no end": "---\nname: a\n",
    "no YAML": "---\nname: [a\n---\nx",
    "no mapping": "---\n- a\n---\nx",
    "no name": "---\nname: [1]\n---\nx",
}


@pytest.mark.parametrize("text", UNREADABLE.values(), ids=UNREADABLE)
def test_an_unreadable_file_is_an_error_that_names_it(tree: Path, text: str) -> None:
    path = write(tree / ".claude/agents", "tester", text)
    write(tree.parent / ".claude/agents", "tester", role("tester", "the home's"))
    write(tree / ".claude/agents", "reviewer", role("reviewer", "fine"))
    with pytest.raises(Unreadable, match=str(path)):
        find("tester", tree, tree.parent)
    with pytest.raises(Unreadable, match=str(path)):
        find("nobody", tree, tree.parent)
    assert find("reviewer", tree, tree.parent).instructions == "fine"
    assert [error.path for error in list_definitions(tree, tree.parent).unreadable] == [str(path)]


def test_a_nearer_file_makes_up_for_an_unreadable_one(tree: Path) -> None:
    write(tree.parent / ".claude/agents", "tester", "---\nname: [a\n---\nx")
    write(tree / ".claude/agents", "tester", role("tester", "fine"))
    assert find("tester", tree, tree.parent).instructions == "fine"


def test_two_files_of_one_name_in_one_place_are_not_settled_by_chance(tree: Path) -> None:
    write(tree / ".claude/agents", "a", role("tester", "one"))
    second = write(tree / ".claude/agents", "b", role("tester", "two"))
    (error,) = list_definitions(tree, tree.parent).unreadable
    assert error.path == str(second) and "a.md" in error.why


def test_descriptions_with_colons_are_taken_as_claude_code_takes_them(tree: Path) -> None:
    text = '---\nname: a\ndescription: Use when: a "test" fails: now\ntools: Read\n---\nx\n'
    write(tree / ".claude/agents", "a", text)
    found = find("a", tree, tree.parent)
    assert found.fields["description"] == 'Use when: a "test" fails: now'
    assert apply(found, spec()).tools == with_team_tools("Read")


def test_windows_line_ends_and_a_byte_order_mark_do_not_matter(tree: Path) -> None:
    path = tree / ".claude/agents/a.md"
    path.parent.mkdir(parents=True)
    path.write_bytes("\ufeff---\r\nname: a\r\ntools: Read\r\n---\r\nDo it.\r\n---\r\nEnd.".encode())
    found = find("a", tree, tree.parent)
    assert found.instructions == "Do it.\r\n---\r\nEnd."
    assert apply(found, spec()).tools == with_team_tools("Read")
