"""A file of another program is written whole or not at all, and as it was shown."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from bullpen.doors.mcp.install.clients import CLIENTS, ServerEntry
from bullpen.doors.mcp.install.install import (
    ConfigPlace,
    installing,
    server_of,
    this_program,
    uninstalling,
    write,
)
from bullpen.errors import Conflict, Invalid, NotFound, Refused, Unavailable, Unreadable

SERVER = ServerEntry(("/usr/bin/bullpen", "mcp", "--team", "alpha", "--as", "carol"))
CLAUDE, CODEX, OPENCODE = CLIENTS["claude"], CLIENTS["codex"], CLIENTS["opencode"]


@pytest.fixture
def place(tmp_path: Path) -> ConfigPlace:
    for name in ("home", "project"):
        (tmp_path / name).mkdir()
    return ConfigPlace(tmp_path / "project", {"HOME": str(tmp_path / "home")})


def test_a_new_file_of_the_user_is_private_and_one_of_a_project_is_not(place: ConfigPlace) -> None:
    before = os.umask(0o022)
    try:
        modes = []
        for scope in ("user", "project"):
            change = installing(CODEX, scope, SERVER, place)
            assert change.before is None
            write(change)
            assert change.path.read_bytes() == change.after
            modes.append(stat.S_IMODE(change.path.stat().st_mode))
        assert modes == [0o600, 0o644]
    finally:
        os.umask(before)


def test_a_file_keeps_its_mode_and_its_link(place: ConfigPlace, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles" / "settings"
    real.parent.mkdir()
    real.write_text("{}", encoding="utf-8")
    real.chmod(0o640)
    link = Path(place.env["HOME"]) / ".claude.json"
    link.symlink_to(real)
    change = installing(CLAUDE, "user", SERVER, place)
    assert change.target == real
    write(change)
    assert link.is_symlink()
    assert "bullpen" in real.read_text(encoding="utf-8")
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert os.listdir(real.parent) == ["settings"]


def test_a_link_to_nothing_yet_is_followed(place: ConfigPlace, tmp_path: Path) -> None:
    link = Path(place.env["HOME"]) / ".claude.json"
    link.symlink_to(tmp_path / "later" / "mcp.json")
    write(installing(CLAUDE, "user", SERVER, place))
    assert link.is_symlink()
    assert "bullpen" in (tmp_path / "later" / "mcp.json").read_text(encoding="utf-8")


@pytest.mark.parametrize("linked", ["file", "folder"])
def test_a_link_out_of_the_project_is_refused(
    place: ConfigPlace, tmp_path: Path, linked: str
) -> None:
    """Whoever wrote the project could choose which of your files is changed."""
    yours = tmp_path / "yours"
    yours.mkdir()
    (yours / "settings.json").write_text("{}", encoding="utf-8")
    if linked == "file":
        (place.project / ".mcp.json").symlink_to(yours / "settings.json")
        client = CLAUDE
    else:
        (place.project / ".gemini").symlink_to(yours)
        client = CLIENTS["gemini"]
    with pytest.raises(Refused, match=str(yours / "settings.json")) as refused:
        installing(client, "project", SERVER, place)
    assert refused.value.reason == "leaves_project"
    with pytest.raises(Refused):
        uninstalling(client, "project", place)
    assert (yours / "settings.json").read_text(encoding="utf-8") == "{}"


def test_a_link_within_the_project_is_followed_and_its_target_is_known(place: ConfigPlace) -> None:
    real = place.project / "config" / "mcp.json"
    real.parent.mkdir()
    real.write_text("{}", encoding="utf-8")
    (place.project / ".mcp.json").symlink_to("config/mcp.json")
    change = installing(CLAUDE, "project", SERVER, place)
    assert (change.path.name, change.target) == (".mcp.json", real)
    write(change)
    assert "bullpen" in real.read_text(encoding="utf-8")


def test_a_link_that_was_changed_after_it_was_shown_is_not_followed(
    place: ConfigPlace, tmp_path: Path
) -> None:
    shown, other = tmp_path / "shown.json", tmp_path / "other.json"
    for file in (shown, other):
        file.write_text("{}", encoding="utf-8")
    link = Path(place.env["HOME"]) / ".claude.json"
    link.symlink_to(shown)
    change = installing(CLAUDE, "user", SERVER, place)
    link.unlink()
    link.symlink_to(other)
    with pytest.raises(Conflict):
        write(change)
    assert other.read_text(encoding="utf-8") == "{}"


def test_nothing_is_left_beside_the_file(place: ConfigPlace) -> None:
    path = place.project / ".mcp.json"
    path.write_text('{"mcpServers": {}}', encoding="utf-8")
    write(installing(CLAUDE, "project", SERVER, place))
    write(uninstalling(CLAUDE, "project", place))
    assert os.listdir(place.project) == [".mcp.json"]
    assert path.read_text(encoding="utf-8") == '{"mcpServers": {}}'


def test_a_file_that_changed_since_it_was_shown_is_not_written(place: ConfigPlace) -> None:
    path = place.project / ".mcp.json"
    change = installing(CLAUDE, "project", SERVER, place)
    path.write_text('{"mcpServers": {"new": {}}}', encoding="utf-8")
    with pytest.raises(Conflict):
        write(change)
    assert path.read_text(encoding="utf-8") == '{"mcpServers": {"new": {}}}'


def test_a_file_that_cannot_be_replaced_is_as_it_was(
    place: ConfigPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = place.project / ".mcp.json"
    path.write_text("{}", encoding="utf-8")
    change = installing(CLAUDE, "project", SERVER, place)

    def full(source: object, target: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(Unavailable, match="No space left on device"):
        write(change)
    assert path.read_text(encoding="utf-8") == "{}"
    assert os.listdir(place.project) == [".mcp.json"]


@pytest.mark.parametrize(
    "content", [b'{"mcpServers": ', b"\xff\xfe{}", b"[]", b'{"mcpServers": 1}']
)
def test_a_broken_file_is_unreadable_and_stays_as_it_is(place: ConfigPlace, content: bytes) -> None:
    path = place.project / ".mcp.json"
    path.write_bytes(content)
    with pytest.raises(Unreadable, match=r"\.mcp\.json"):
        installing(CLAUDE, "project", SERVER, place)
    with pytest.raises(Unreadable):
        uninstalling(CLAUDE, "project", place)
    assert path.read_bytes() == content


def test_what_is_no_file_is_unreadable(place: ConfigPlace) -> None:
    os.mkfifo(place.project / ".mcp.json")
    (place.project / ".codex" / "config.toml").mkdir(parents=True)
    for client in (CLAUDE, CODEX):
        with pytest.raises(Unreadable):
            installing(client, "project", SERVER, place)


def test_broken_toml_is_unreadable_and_what_cannot_be_changed_is_refused(
    place: ConfigPlace,
) -> None:
    path = place.project / ".codex" / "config.toml"
    path.parent.mkdir()
    path.write_text("[a", encoding="utf-8")
    with pytest.raises(Unreadable):
        installing(CODEX, "project", SERVER, place)
    path.write_text('mcp_servers = { a = { command = "b" } }', encoding="utf-8")
    with pytest.raises(Refused) as caught:
        installing(CODEX, "project", SERVER, place)
    assert caught.value.reason == "not_changeable"


def test_of_two_files_the_one_that_has_the_entry_is_changed(place: ConfigPlace) -> None:
    """OpenCode reads both."""
    free, strict = place.project / "opencode.jsonc", place.project / "opencode.json"
    assert installing(OPENCODE, "project", SERVER, place).path == strict
    strict.write_text("{}", encoding="utf-8")
    write(installing(OPENCODE, "project", SERVER, place))
    free.write_text("{} // mine", encoding="utf-8")
    assert not installing(OPENCODE, "project", SERVER, place).is_needed
    assert uninstalling(OPENCODE, "project", place).path == strict
    strict.unlink()
    assert installing(OPENCODE, "project", SERVER, place).path == free


def test_an_entry_that_is_elsewhere_is_named(place: ConfigPlace) -> None:
    with pytest.raises(NotFound) as nowhere:
        uninstalling(CLAUDE, "project", place)
    assert nowhere.value.remedy == ""
    write(installing(CLAUDE, "user", SERVER, place))
    with pytest.raises(NotFound) as elsewhere:
        uninstalling(CLAUDE, "project", place)
    assert elsewhere.value.remedy.endswith("has one: use --scope user.")


def test_without_a_home_nothing_is_guessed(place: ConfigPlace) -> None:
    with pytest.raises(Invalid):
        installing(CLAUDE, "user", SERVER, ConfigPlace(place.project, {}))


def test_the_server_is_told_who_it_is() -> None:
    told = server_of(("/bin/bullpen",), team="a", member="b", tools="all", home=None)
    assert told == ServerEntry(("/bin/bullpen", "mcp", "--team", "a", "--as", "b"))
    told = server_of(("x",), team="a", member="b", tools="read-only", home="/h")
    assert told.command[-2:] == ("--tools", "read-only")
    assert told.env == {"BULLPEN_HOME": "/h"}
    with pytest.raises(Invalid):
        server_of(("/bin/\udcff",), team="a", member="b", tools="all", home=None)


def test_the_program_is_named_by_its_full_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin" / "bullpen"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    assert this_program("./bin/bullpen") == (str(program),)
    monkeypatch.setenv("PATH", str(program.parent))
    assert this_program("bullpen") == (str(program),)
    module = tmp_path / "bullpen" / "__main__.py"
    assert this_program(str(module)) == (sys.executable, "-P", "-m", "bullpen")
