"""The real programs read what an install wrote and, where they look, our server answers them.

They are asked with their own commands; none needs a model. Cursor has no program that can be
installed here: its file is only held to the form that its documentation gives.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from programs.real_programs import CLAUDE_CODE_VERSIONS, program
from support.doors.people import BULLPEN, DEADLINE_S, Install, Person

SCOPES = ("user", "project")

QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_TELEMETRY": "1",
    "GEMINI_CLI_NO_RELAUNCH": "true",
    "GEMINI_TELEMETRY_ENABLED": "false",
    "NO_BROWSER": "1",
    "NO_COLOR": "1",
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
}

_COLOR = re.compile(r"\x1b\[[0-9;]*m")


def asked(person: Person, name: str, *words: str, executable: str | None = None) -> str:
    """What a real program answers to a command of its own, typed in the project."""
    found = program(name)
    first = found.argv[0] if executable is None else str(Path(found.argv[0]).parent / executable)
    done = subprocess.run(
        [first, *words],
        env={**person.env, **QUIET, "PATH": found.path},
        cwd=person.project,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    # Gemini CLI answers on standard error.
    return _COLOR.sub("", done.stdout if name == "codex" else done.stdout + done.stderr)


def codex_servers(person: Person) -> list[dict[str, Any]]:
    told = asked(person, "codex", "mcp", "list", "--json", executable="codex")
    servers: list[dict[str, Any]] = json.loads(told)
    return servers


@pytest.mark.parametrize("scope", SCOPES)
def test_codex_lists_the_server(person: Person, install: Install, scope: str) -> None:
    home = str(person.home / "elsewhere")
    person.said("team", "create", "alpha", "--home", home)
    config = person.home / ".codex" / "config.toml"
    config.parent.mkdir()
    config.write_text('# mine\nmodel = "gpt-5.5"\n', encoding="utf-8")
    assert codex_servers(person) == []
    install("codex", "--scope", scope, "--home", home)
    if scope == "project":
        # In a directory that it does not trust it reads nothing, as the install says.
        assert codex_servers(person) == []
        with config.open("a", encoding="utf-8") as file:
            file.write(f'[projects."{person.project}"]\ntrust_level = "trusted"\n')
    (server,) = codex_servers(person)
    assert (server["name"], server["enabled"]) == ("bullpen", True)
    assert server["transport"]["command"] == str(BULLPEN)
    assert server["transport"]["args"] == ["mcp", "--team", "alpha", "--as", "carol"]
    assert server["transport"]["env"] == {"BULLPEN_HOME": home}
    person.said("mcp", "uninstall", "codex", "--scope", scope, "--yes")
    assert codex_servers(person) == []
    assert config.read_text(encoding="utf-8").startswith('# mine\nmodel = "gpt-5.5"\n')


@pytest.mark.parametrize("version", CLAUDE_CODE_VERSIONS)
def test_claude_code_connects_as_the_user_has_it_everywhere(
    person: Person, install: Install, version: str
) -> None:
    install("claude", "--scope", "user")
    told = asked(person, f"claude-code-{version}", "mcp", "get", "bullpen")
    assert "User config" in told
    assert re.search(r"Status: . Connected", told), told
    assert "Args: mcp --team alpha --as carol" in told


@pytest.mark.parametrize("version", CLAUDE_CODE_VERSIONS)
def test_claude_code_reads_the_file_of_a_project(
    person: Person, install: Install, version: str
) -> None:
    name = f"claude-code-{version}"
    install("claude")
    assert "Project config" in asked(person, name, "mcp", "get", "bullpen")
    person.said("mcp", "uninstall", "claude", "--yes")
    # What is left is a file that it can read.
    left = asked(person, name, "mcp", "list")
    assert "No MCP servers configured" in left
    assert "Failed to parse" not in left


def test_claude_code_reads_the_folder_that_the_variable_names(
    person: Person, install: Install
) -> None:
    person.env["CLAUDE_CONFIG_DIR"] = str(person.home / "other")
    install("claude", "--scope", "user")
    assert os.listdir(person.home / "other") == [".claude.json"]
    name = f"claude-code-{CLAUDE_CODE_VERSIONS[-1]}"
    assert "Connected" in asked(person, name, "mcp", "list")


@pytest.mark.parametrize("scope", SCOPES)
def test_gemini_connects_in_a_directory_that_it_trusts(
    person: Person, install: Install, scope: str
) -> None:
    settings = person.home / ".gemini" / "settings.json"
    settings.parent.mkdir()
    mine = '{\n  // mine\n  "privacy": {"usageStatisticsEnabled": false}\n}\n'
    settings.write_text(mine, encoding="utf-8")
    install("gemini", "--scope", scope)
    assert "Connected" not in asked(person, "gemini", "mcp", "list")
    trusted = json.dumps({str(person.project): "TRUST_FOLDER"})
    (person.home / ".gemini" / "trustedFolders.json").write_text(trusted, encoding="utf-8")
    until = time.monotonic() + DEADLINE_S
    while "Disconnected" in (told := asked(person, "gemini", "mcp", "list")):
        # It gives a server few seconds to answer, however busy the machine is.
        assert time.monotonic() < until, told
    assert re.search(r"bullpen: .*mcp --team alpha --as carol \(stdio\) - Connected", told), told
    person.said("mcp", "uninstall", "gemini", "--scope", scope, "--yes")
    assert "bullpen" not in asked(person, "gemini", "mcp", "list")


@pytest.mark.parametrize("scope", SCOPES)
def test_opencode_connects(person: Person, install: Install, scope: str) -> None:
    install("opencode", "--scope", scope)
    told = asked(person, "opencode", "mcp", "list", "--pure")
    assert re.search(r"✓ bullpen\s+connected", told), told
    assert f"{BULLPEN} mcp --team alpha --as carol" in told
    person.said("mcp", "uninstall", "opencode", "--scope", scope, "--yes")
    assert "bullpen" not in asked(person, "opencode", "mcp", "list", "--pure")


def test_a_program_whose_team_is_gone_does_not_connect(person: Person, install: Install) -> None:
    install("opencode")
    shutil.rmtree(person.home / ".bullpen" / "teams" / "alpha")
    assert "✗ bullpen" in asked(person, "opencode", "mcp", "list", "--pure")
