"""The files of the plugin and the extension: whole, true, and without anything a project names."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
import yaml

from bullpen.app.app import App
from bullpen.app.settings import Settings
from bullpen.doors.mcp.member import ConnectedMember
from bullpen.doors.mcp.plugins.plugin_files import (
    CLAUDE_CODE,
    GEMINI,
    claude_code_files,
    gemini_files,
)
from bullpen.protocol.names import LEAD
from support.runs.reading import ROOT, unknown_in

COMMANDS = ("review", "status", "team")
SKILL = CLAUDE_CODE / "skills/bullpen/SKILL.md"
PROGRAM = ("/opt/my tools/bullpen", "--home", "/srv/teams")
TOOL = re.compile(r"\b(?:Team|Task|Send|Spawn|Stop|Exit|Wait|Approve)[A-Z]\w+")

TEXT: dict[str, Any] = {"type": "string", "minLength": 1}
SERVERS: dict[str, Any] = {
    "type": "object",
    "required": ["bullpen"],
    "additionalProperties": False,
    "properties": {
        "bullpen": {
            "type": "object",
            "required": ["command", "args"],
            "additionalProperties": False,
            "properties": {"command": TEXT, "args": {"type": "array", "items": TEXT}},
        }
    },
}
HOOK_GROUPS: dict[str, Any] = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["hooks"],
        "additionalProperties": False,
        "properties": {
            "hooks": {
                "type": "array",
                "minItems": 1,
                "items": {
                    "type": "object",
                    "required": ["type", "command", "timeout"],
                    "additionalProperties": False,
                    "properties": {
                        "type": {"const": "command"},
                        "command": TEXT,
                        "timeout": {"type": "integer"},
                    },
                },
            }
        },
    },
}
NAMED = {"name": {"const": "bullpen"}, "version": TEXT, "description": TEXT}
PERSON = {"type": "object", "required": ["name"], "properties": {"name": TEXT}}
SCHEMAS: dict[str, Any] = {
    ".claude-plugin/plugin.json": {
        "required": ["name", "version", "description", "author"],
        "additionalProperties": False,
        "properties": {
            **NAMED,
            "author": PERSON,
            "homepage": TEXT,
            "repository": TEXT,
            "license": {"const": "MIT"},
            "keywords": {"type": "array", "items": TEXT},
        },
    },
    ".mcp.json": {
        "required": ["mcpServers"],
        "additionalProperties": False,
        "properties": {"mcpServers": SERVERS},
    },
    "hooks/hooks.json": {
        "required": ["description", "hooks"],
        "additionalProperties": False,
        "properties": {
            "description": TEXT,
            "hooks": {
                "type": "object",
                "required": ["Stop", "TeammateIdle", "TaskCompleted"],
                "additionalProperties": False,
                "properties": dict.fromkeys(("Stop", "TeammateIdle", "TaskCompleted"), HOOK_GROUPS),
            },
        },
    },
    "gemini-extension.json": {
        "required": ["name", "version", "description", "mcpServers", "contextFileName"],
        "additionalProperties": False,
        "properties": {
            **NAMED,
            "mcpServers": SERVERS,
            "contextFileName": {"const": "BULLPEN.md"},
        },
    },
}


def texts() -> Iterator[tuple[str, str]]:
    """Everything that a model or a person reads of them."""
    for folder in (CLAUDE_CODE, GEMINI):
        for path in sorted(folder.rglob("*")):
            if path.suffix in {".md", ".toml"}:
                yield path.relative_to(folder.parent).as_posix(), path.read_text(encoding="utf-8")


def front(text: str) -> tuple[dict[str, Any], str]:
    """The head of a Markdown file and what follows it."""
    _, head, body = text.split("---\n", 2)
    found: dict[str, Any] = yaml.safe_load(head)
    return found, body


def test_the_manifests_have_the_form_that_the_programs_read() -> None:
    for files in (claude_code_files(("bullpen",)), gemini_files(("bullpen",))):
        found = {name.removeprefix("bullpen/"): text for name, text in files.items()}
        for name in SCHEMAS.keys() & found.keys():
            jsonschema.validate(json.loads(found[name]), SCHEMAS[name])
    assert json.loads((GEMINI / "gemini-extension.json").read_text("utf-8"))["contextFileName"]


def test_all_manifests_have_one_version_which_is_that_of_bullpen() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    for path in (CLAUDE_CODE / ".claude-plugin/plugin.json", GEMINI / "gemini-extension.json"):
        version = json.loads(path.read_text("utf-8"))["version"]
        assert project["version"].startswith(version)
        assert re.fullmatch(r"\d+\.\d+\.\d+", version)


def test_the_marketplace_of_the_repository_leads_to_the_plugin() -> None:
    marketplace = json.loads((ROOT / ".claude-plugin/marketplace.json").read_text("utf-8"))
    (plugin,) = marketplace["plugins"]
    assert (marketplace["name"], plugin["name"]) == ("bullpen", "bullpen")
    assert (ROOT / plugin["source"]).samefile(CLAUDE_CODE)
    assert plugin["source"].startswith("./")


def test_the_marketplace_that_is_installed_leads_to_its_plugin_and_has_a_name_of_its_own() -> None:
    files = claude_code_files(PROGRAM)
    marketplace = json.loads(files[".claude-plugin/marketplace.json"])
    assert marketplace["name"] == "bullpen-local"
    assert [plugin["source"] for plugin in marketplace["plugins"]] == ["./bullpen"]
    assert "bullpen/.claude-plugin/plugin.json" in files


def test_what_is_installed_starts_this_bullpen_by_its_path_and_nothing_else() -> None:
    claude, gemini = claude_code_files(PROGRAM), gemini_files(PROGRAM)
    started = {"command": PROGRAM[0], "args": [*PROGRAM[1:], "mcp"]}
    for text in (claude["bullpen/.mcp.json"], gemini["gemini-extension.json"]):
        assert json.loads(text)["mcpServers"] == {"bullpen": started}
    hooks = json.loads(claude["bullpen/hooks/hooks.json"])["hooks"]
    commands = {hook["command"] for groups in hooks.values() for hook in groups[0]["hooks"]}
    assert commands == {
        "'/opt/my tools/bullpen' --home /srv/teams mcp --hook || [ $? -ne 20 ] || exit 2"
    }


def test_a_hook_of_the_repository_starts_bullpen_and_no_file_of_a_project() -> None:
    hooks = json.loads((CLAUDE_CODE / "hooks/hooks.json").read_text("utf-8"))["hooks"]
    commands = {hook["command"] for groups in hooks.values() for hook in groups[0]["hooks"]}
    assert commands == {"bullpen mcp --hook || [ $? -ne 20 ] || exit 2"}


def test_no_command_runs_anything_when_it_is_expanded() -> None:
    for name, text in texts():
        assert "!`" not in text, name
        assert "!{" not in text, name
        assert "@{" not in text, name


def test_both_programs_have_the_same_commands() -> None:
    for name in COMMANDS:
        head, body = front((CLAUDE_CODE / f"commands/{name}.md").read_text("utf-8"))
        command = tomllib.loads((GEMINI / f"commands/bullpen/{name}.toml").read_text("utf-8"))
        assert command["description"] == head["description"]
        body = body.replace("$ARGUMENTS", "{{args}}").replace("NAME claude", "NAME gemini")
        assert command["prompt"] == body
        assert "{{args}}" in command["prompt"]
    assert sorted(path.stem for path in (CLAUDE_CODE / "commands").iterdir()) == [*COMMANDS]
    assert sorted(path.stem for path in (GEMINI / "commands/bullpen").iterdir()) == [*COMMANDS]


def test_the_skill_is_the_same_for_both_and_says_when_to_use_it() -> None:
    text = SKILL.read_text("utf-8")
    head, _ = front(text)
    assert head["name"] == "bullpen"
    assert "lead" in head["description"].lower()
    assert "join" in head["description"].lower()
    assert len(head["description"]) <= 1024
    assert gemini_files(("bullpen",))["skills/bullpen/SKILL.md"] == text


async def test_every_tool_that_is_named_exists_with_the_fields_that_are_named(
    tmp_path: Path,
) -> None:
    async with App(Settings(tmp_path, None, LEAD), {}) as app:
        seat = ConnectedMember(app, LEAD, team=None, cwd=str(tmp_path), tool_set="all")
        fields = {
            tool.name: {field.alias or name for name, field in tool.input.model_fields.items()}
            for tool in seat.tools
        }
    named = 0
    for name, text in texts():
        for tool in TOOL.findall(text):
            assert tool in fields or tool == "TeammateIdle", (name, tool)
            named += 1
        for tool, given in re.findall(r"(\w+) \{([^}]*)\}", text):
            for field in re.findall(r"(?:^|, )(\w+)", re.sub(r"\{[^}]*", "", given)):
                assert field in fields[tool], (name, tool, field)
    assert named > 40
    skill = SKILL.read_text("utf-8")
    assert [tool for tool in fields if tool not in skill and tool not in UNUSED] == []


UNUSED = {"TaskGet", "StopTeammate"}
"""Tools that explain themselves."""


def test_every_command_that_is_named_exists_with_its_options() -> None:
    named = [
        (name, line)
        for name, text in texts()
        for line in re.findall(r"`(bullpen(?: [^`]+)?)`", text)
        if line != "bullpen"
    ]
    assert len(named) > 15
    for name, line in named:
        assert unknown_in(line) is None, (name, line)


@pytest.mark.parametrize("line", ["bullpen nothing", "bullpen ps --nothing"])
def test_a_command_that_does_not_exist_would_be_found(line: str) -> None:
    assert unknown_in(line) is not None
