"""What each program's own file says after an install, and that it says nothing else new."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from bullpen.doors.mcp.install import json_edit, toml_edit
from bullpen.doors.mcp.install.clients import CLIENTS, ServerEntry
from bullpen.doors.mcp.install.toml_edit import Unchangeable
from support.rows import each_row

COMMAND = ("/usr/bin/bullpen", "mcp", "--team", "alpha", "--as", "carol")
SERVER = ServerEntry(COMMAND, {"BULLPEN_HOME": "/srv/bullpen"})
PLAIN = {"command": COMMAND[0], "args": [*COMMAND[1:]], "env": {"BULLPEN_HOME": "/srv/bullpen"}}

SAID: dict[str, dict[str, Any]] = {
    "claude": {"mcpServers": {"bullpen": {"type": "stdio", **PLAIN}}},
    "codex": {"mcp_servers": {"bullpen": PLAIN}},
    "gemini": {"mcpServers": {"bullpen": PLAIN}},
    "opencode": {
        "mcp": {
            "bullpen": {
                "type": "local",
                "command": [*COMMAND],
                "environment": {"BULLPEN_HOME": "/srv/bullpen"},
            }
        }
    },
    "cursor": {"mcpServers": {"bullpen": PLAIN}},
}


def read(name: str, text: str) -> Any:
    return tomllib.loads(text) if name == "codex" else json.loads(text)


def test_these_programs_can_be_connected() -> None:
    assert list(CLIENTS) == list(SAID)


@pytest.mark.parametrize("name", SAID)
def test_an_empty_file_gets_our_entry_and_nothing_else(name: str) -> None:
    edit = CLIENTS[name].format.installed("", SERVER)
    assert read(name, edit.text) == SAID[name]
    assert edit.removed == ""
    assert "bullpen" in edit.added.splitlines()[0]


@pytest.mark.parametrize("name", SAID)
def test_without_variables_there_is_no_table_of_them(name: str) -> None:
    text = CLIENTS[name].format.installed("", ServerEntry(COMMAND)).text
    ((_, servers),) = read(name, text).items()
    assert not {"env", "environment"} & servers["bullpen"].keys()


@pytest.mark.parametrize("name", SAID)
def test_the_same_install_twice_changes_nothing(name: str) -> None:
    once = CLIENTS[name].format.installed("", SERVER)
    twice = CLIENTS[name].format.installed(once.text, SERVER)
    assert twice.text == once.text
    assert twice.removed == twice.added == once.added


@pytest.mark.parametrize("name", SAID)
def test_another_entry_of_our_name_is_shown_and_replaced(name: str) -> None:
    its = CLIENTS[name].format
    other = ServerEntry(("/elsewhere/bullpen", *COMMAND[1:]))
    edit = its.installed(its.installed("", other).text, SERVER)
    assert "/elsewhere/bullpen" in edit.removed
    assert "/elsewhere/bullpen" not in edit.text
    assert read(name, edit.text) == SAID[name]


@pytest.mark.parametrize("name", SAID)
def test_an_uninstall_takes_out_our_entry_only(name: str) -> None:
    its = CLIENTS[name].format
    ((key, _),) = SAID[name].items()
    if name == "codex":
        others = 'model = "x" # mine\n\n[mcp_servers.mine]\ncommand = "y"\n'
    else:
        others = json.dumps({"theme": "dark", key: {"mine": {"command": "y"}}}, indent=2)
    edit = its.uninstalled(its.installed(others, SERVER).text)
    assert edit.text == others
    assert (bool(edit.removed), edit.added) == (True, "")
    with pytest.raises(KeyError):
        its.uninstalled(others)


def test_what_a_program_does_not_read_is_broken_for_us_too() -> None:
    comment, trailing = "{} // c\n", '{"a": 1,}\n'
    for name, text in (("claude", comment), ("claude", trailing), ("gemini", trailing)):
        with pytest.raises(ValueError, match="line 1"):
            CLIENTS[name].format.installed(text, SERVER)
    for name, text in (("gemini", comment), ("opencode", comment), ("opencode", trailing)):
        assert CLIENTS[name].format.installed(text, SERVER).added


@each_row(
    ("name", "env", "user", "project"),
    [
        ("claude", {}, "/u/.claude.json", "/p/.mcp.json"),
        ("claude", {"CLAUDE_CONFIG_DIR": "/c"}, "/c/.claude.json", "/p/.mcp.json"),
        ("codex", {}, "/u/.codex/config.toml", "/p/.codex/config.toml"),
        ("codex", {"CODEX_HOME": "/c"}, "/c/config.toml", "/p/.codex/config.toml"),
        ("gemini", {}, "/u/.gemini/settings.json", "/p/.gemini/settings.json"),
        ("gemini", {"GEMINI_CLI_HOME": "/c"}, "/c/.gemini/settings.json", None),
        ("opencode", {}, "/u/.config/opencode/opencode.json", "/p/opencode.json"),
        ("opencode", {"XDG_CONFIG_HOME": "/c"}, "/c/opencode/opencode.json", None),
        ("cursor", {}, "/u/.cursor/mcp.json", "/p/.cursor/mcp.json"),
    ],
)
def test_the_files_are_where_each_program_looks(
    name: str, env: dict[str, str], user: str, project: str | None
) -> None:
    client, env = CLIENTS[name], {"HOME": "/u", **env}
    assert client.files("user", project=Path("/p"), env=env)[-1] == Path(user)
    if project is not None:
        assert client.files("project", project=Path("/p"), env=env)[-1] == Path(project)


@pytest.mark.parametrize("name", ["codex", "gemini"])
def test_an_edit_that_would_lose_something_is_never_made(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever mistake the editing makes, what comes out is compared before it is used."""
    its = CLIENTS[name].format
    alone = its.installed("", SERVER).text
    others = 'model = "x"\n' if name == "codex" else '{"theme": "dark"}\n'
    whole = its.installed(others, SERVER).text
    for module in (json_edit, toml_edit):
        monkeypatch.setattr(module, "put", lambda *_: alone)
        monkeypatch.setattr(module, "drop", lambda *_: "{}" if name == "gemini" else "")
    with pytest.raises(Unchangeable):
        its.installed(others, SERVER)
    with pytest.raises(Unchangeable):
        its.uninstalled(whole)
