"""Installing and removing the plugin: the commands of Claude Code, and the folder of Gemini CLI."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from bullpen.doors.mcp.plugins.installation import (
    claude_code_installing,
    claude_code_removing,
    claude_command,
    gemini_installing,
    gemini_removing,
    install,
    remove,
)
from bullpen.errors import Invalid, Refused, Unavailable

CLAUDE = "/usr/bin/claude"
PROGRAM = ("/usr/bin/bullpen",)
OURS = "bullpen@bullpen-local"


class ClaudeCode:
    """What Claude Code would do, and what it was told."""

    def __init__(self, *plugins: str) -> None:
        self.plugins = [*plugins]
        self.marketplaces = ["bullpen-local"] if OURS in plugins else []
        self.told: list[str] = []

    def __call__(self, words: Sequence[str]) -> str:
        assert words[:2] == (CLAUDE, "plugin")
        match words[2:]:
            case ("list", "--json"):
                return json.dumps([{"id": each} for each in self.plugins])
            case ("marketplace", "list"):
                return "".join(f"  > {each}\n    Source: x\n" for each in self.marketplaces)
        self.told.append(" ".join(words[2:]))
        return ""


def test_the_plugin_is_written_and_claude_code_is_told_of_it(tmp_path: Path) -> None:
    claude = ClaudeCode("other@market")
    steps = claude_code_installing(PROGRAM, home=tmp_path, claude=CLAUDE, run=claude)
    assert claude.told == []
    assert not (tmp_path / "plugins").exists()
    install(steps, claude)
    folder = tmp_path / "plugins/claude-code"
    assert claude.told == [f"marketplace add {folder}", f"install {OURS}"]
    written = json.loads((folder / "bullpen/.mcp.json").read_text("utf-8"))
    assert written["mcpServers"]["bullpen"]["command"] == PROGRAM[0]
    assert all(str(folder / name) in "\n".join(steps.told) for name in steps.files)


def test_a_plugin_that_is_there_is_replaced_and_not_kept_at_its_version(tmp_path: Path) -> None:
    claude = ClaudeCode(OURS)
    install(claude_code_installing(PROGRAM, home=tmp_path, claude=CLAUDE, run=claude), claude)
    assert claude.told[0] == f"uninstall {OURS}"
    assert claude.told[-1] == f"install {OURS}"


def test_the_plugin_of_the_repository_is_not_doubled(tmp_path: Path) -> None:
    claude = ClaudeCode("bullpen@bullpen")
    with pytest.raises(Refused) as caught:
        claude_code_installing(PROGRAM, home=tmp_path, claude=CLAUDE, run=claude)
    assert caught.value.reason == "other_plugin"
    assert "claude plugin uninstall bullpen@bullpen" in caught.value.remedy
    assert claude.told == []


def test_removing_takes_the_plugin_its_marketplace_and_its_files(tmp_path: Path) -> None:
    claude = ClaudeCode()
    install(claude_code_installing(PROGRAM, home=tmp_path, claude=CLAUDE, run=claude), claude)
    claude = ClaudeCode(OURS)
    assert remove(claude_code_removing(home=tmp_path, claude=CLAUDE, run=claude), claude) == []
    assert claude.told == [f"uninstall {OURS}", "marketplace remove bullpen-local"]
    assert not (tmp_path / "plugins/claude-code").exists()


def test_without_claude_code_its_files_can_still_be_removed(tmp_path: Path) -> None:
    claude = ClaudeCode()
    install(claude_code_installing(PROGRAM, home=tmp_path, claude=CLAUDE, run=claude), claude)
    remove(claude_code_removing(home=tmp_path, claude=None, run=claude), claude)
    assert not (tmp_path / "plugins/claude-code").exists()
    with pytest.raises(Unavailable, match="Cannot find the program `claude`"):
        claude_code_installing(PROGRAM, home=tmp_path, claude=None, run=claude)


@pytest.mark.parametrize("told", ["not JSON", "{}", '[{"name": "x"}]'])
def test_an_answer_that_cannot_be_read_is_no_empty_list(tmp_path: Path, told: str) -> None:
    with pytest.raises(Unavailable):
        claude_code_installing(PROGRAM, home=tmp_path, claude=CLAUDE, run=lambda _: told or "{}")


def test_a_folder_of_somebody_else_is_refused_before_claude_code_is_asked(tmp_path: Path) -> None:
    (tmp_path / "plugins/claude-code").mkdir(parents=True)

    def fail(words: Sequence[str]) -> str:
        raise AssertionError(words)

    with pytest.raises(Refused) as caught:
        claude_code_installing(PROGRAM, home=tmp_path, claude=CLAUDE, run=fail)
    assert caught.value.reason == "not_ours"


def test_a_claude_of_the_project_is_not_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/claude").write_text("#!/bin/sh\n", encoding="utf-8")
    (tmp_path / "bin/claude").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    assert claude_command(str(tmp_path / "bin")) == str(tmp_path / "bin/claude")
    assert claude_command("bin") is None
    assert claude_command(str(tmp_path)) is None


@pytest.mark.parametrize("moved", [False, True])
def test_the_extension_is_written_where_gemini_looks(tmp_path: Path, moved: bool) -> None:
    env = {"HOME": str(tmp_path / "home")}
    if moved:
        env["GEMINI_CLI_HOME"] = str(tmp_path / "moved")
    steps = gemini_installing(PROGRAM, env=env)
    install(steps, ClaudeCode())
    folder = tmp_path / ("moved" if moved else "home") / ".gemini/extensions/bullpen"
    assert steps.folder == folder
    manifest = json.loads((folder / "gemini-extension.json").read_text("utf-8"))
    assert manifest["mcpServers"]["bullpen"]["command"] == PROGRAM[0]
    assert (folder / manifest["contextFileName"]).is_file()
    assert remove(gemini_removing(env=env), ClaudeCode()) == []
    assert not folder.exists()


def test_an_extension_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    other = tmp_path / ".gemini/extensions/bullpen/gemini-extension.json"
    other.parent.mkdir(parents=True)
    other.write_text("{}", encoding="utf-8")
    env = {"HOME": str(tmp_path)}
    with pytest.raises(Refused):
        gemini_installing(PROGRAM, env=env)
    with pytest.raises(Refused):
        remove(gemini_removing(env=env), ClaudeCode())
    assert other.read_text("utf-8") == "{}"


def test_without_a_home_nothing_is_guessed() -> None:
    with pytest.raises(Invalid, match="HOME is not set"):
        gemini_installing(PROGRAM, env={})


def test_the_command_shows_what_it_writes_and_how_to_use_it(
    ok: Callable[..., str], home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("GEMINI_CLI_HOME", raising=False)
    folder = tmp_path / ".gemini/extensions/bullpen"
    dry = ok("mcp", "install", "gemini", "--plugin", "--dry-run")
    assert f"write {folder}/gemini-extension.json" in dry
    assert "Nothing was done." in dry
    assert not folder.exists()
    said = ok("mcp", "install", "gemini", "--plugin", "--yes")
    assert f"write {folder}/gemini-extension.json" in said
    assert "/bullpen:team" in said
    assert "BULLPEN_TEAM=NAME gemini" in said
    manifest = json.loads((folder / "gemini-extension.json").read_text("utf-8"))
    args = manifest["mcpServers"]["bullpen"]["args"]
    assert args[-3:] == ["--home", str(home), "mcp"]
    gone: dict[str, Any] = json.loads(
        ok("mcp", "uninstall", "gemini", "--plugin", "--yes", "--json")
    )
    assert (gone["path"], gone["left"]) == (str(folder), [])
    assert not folder.exists()


def test_a_program_without_a_plugin_is_refused(run: Callable[..., Any], team: str) -> None:
    result = run("mcp", "install", "codex", "--plugin", "--json")
    assert json.loads(result.stdout)["error"]["reason"] == "no_plugin"
