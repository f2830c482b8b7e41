"""Where paths lie, what patterns of paths mean, and which files are guarded."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from bullpen.agents.contracts.call import Call, Rights
from bullpen.agents.permissions.decide import decide, hidden
from bullpen.agents.permissions.rule_language.paths import Bases, forbids, permits, place
from bullpen.protocol.policy import Mode
from bullpen.team.requests.mode_rules import Kind


@pytest.fixture
def top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("project/src/deep", "project/.git", "outside", "home/notes", "more"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "project/link").symlink_to(tmp_path / "outside")
    return tmp_path


def rights(top: Path, mode: Mode = "default", **lists: Any) -> Rights:
    return Rights(mode, str(top / "project"), str(top / "home"), **lists)


def effect(tool: str, path: str, given: Rights) -> str:
    kind: Kind = "write" if tool in ("Write", "Edit") else "read"
    return decide(Call(tool, {"file_path": path}, kind), given).effect


# A pattern, a path that it is about, and one that it is not about. {t} is the top directory.
PATTERNS = (
    ("//{t}/outside/**", "{t}/outside/a/b", "{t}/outsider/a"),
    ("//{t}/outside/**", "{t}/outside", "{t}/project/outside/a"),
    ("~/notes/**", "~/notes/a", "~/other/a"),
    ("~/notes", "{t}/home/notes/a/b", "{t}/home/notes2"),
    ("/src/**", "src/deep/a.py", "src2/a.py"),
    ("/src/*.py", "src/a.py", "src/deep/a.py"),
    ("/a.py", "a.py", "src/a.py"),
    ("./a.py", "a.py", "src/a.py"),
    ("src/*.py", "src/a.py", "other/src/a.py"),
    ("*.env", "src/deep/prod.env", "src/deep/prod.envs"),
    (".env", "src/.env", "src/.env.example"),
    ("**/secret/*", "a/b/secret/c", "a/b/secrets/c"),
    ("**/secret/*", "secret/c/d", "secret"),
    ("a/**/b", "a/b", "a/c"),
    ("a/**/b", "a/x/y/b", "b"),
    ("file[0-9].txt", "file7.txt", "filex.txt"),
    ("file[!0-9].txt", "filex.txt", "file7.txt"),
    ("fi?e", "file", "fi/e"),
    ("build/", "build/x", "builds"),
    ("a\\*b", "a*b", "axb"),
    ("../outside/**", "{t}/outside/x", "outside/x"),
)


@pytest.mark.parametrize(("pattern", "yes", "no"), PATTERNS)
def test_a_pattern_is_about_what_it_says(pattern: str, yes: str, no: str, top: Path) -> None:
    """Patterns are those of gitignore, with //, ~/ and / for where they begin."""
    bases = Bases(str(top / "project"), str(top / "home"))
    pattern = pattern.format(t=str(top).lstrip("/"))
    hit, miss = (
        place(path.format(t=top), str(top / "project"), str(top / "home")) for path in (yes, no)
    )
    assert permits(pattern, hit, bases)
    assert not permits(pattern, miss, bases)
    assert forbids(pattern, hit, bases)
    assert not forbids(pattern, miss, bases)


def test_deny_is_about_the_path_as_written_and_as_it_really_is(top: Path) -> None:
    """Neither a link nor its target gets round a rule that names the other."""
    given = rights(top, "bypassPermissions", deny=("Read(/link/**)",))
    assert effect("Read", "link/a", given) == "deny"
    assert effect("Read", str(top / "outside/a"), given) == "deny"
    given = rights(top, "bypassPermissions", deny=("Read(**/link/**)",))
    assert effect("Read", "link/a", given) == "deny"
    given = rights(top, "bypassPermissions", deny=(f"Read(/{top}/outside/**)",))
    assert effect("Read", "link/a", given) == "deny"
    assert effect("Read", "src/../link/./a", given) == "deny"


def test_allow_is_only_about_where_a_path_really_lies(top: Path) -> None:
    """A link inside an allowed directory allows nothing outside."""
    given = rights(top, "dontAsk", allow=("Edit(/link/**)", "Edit(/src/**)"))
    assert effect("Write", "link/a", given) == "deny"
    assert effect("Write", "src/a", given) == "allow"
    given = rights(top, "dontAsk", allow=(f"Edit(/{top}/outside/**)",))
    assert effect("Write", "link/a", given) == "allow"


def test_a_home_that_is_not_that_of_this_process_permits_nothing(
    top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tool of this process would open the file of another home."""
    given = rights(top, allow=("Read(~/notes/**)",), deny=("Read(~/keys/**)",))
    assert effect("Read", "~/notes/a", given) == "allow"
    monkeypatch.setenv("HOME", str(top / "outside"))
    assert effect("Read", "~/notes/a", given) == "ask"
    assert effect("Read", "~/keys/a", given) == "deny"


def test_names_that_look_the_same_are_denied_alike(top: Path) -> None:
    """The two ways to write an umlaut are one name for a rule that forbids."""
    given = rights(top, "bypassPermissions", deny=("Read(geh\u00e4im)",))
    assert effect("Read", "geha\u0308im", given) == "deny"
    given = rights(top, "dontAsk", allow=("Edit(geh\u00e4im)",))
    assert effect("Edit", "geha\u0308im", given) == "deny"


def test_upper_and_lower_case_differ_as_on_disk(top: Path) -> None:
    given = rights(top, "bypassPermissions", deny=("Read(/Secret)",))
    assert effect("Read", "secret", given) == "allow"


@pytest.mark.parametrize(
    "path",
    [
        ".git/hooks/pre-commit",
        ".git",
        "src/vendored/.git/config",
        ".claude/settings.json",
        ".bullpen/settings.toml",
        ".bashrc",
        "src/.zshenv",
        ".profile",
        ".GIT/config",
        "src/../.git/config",
    ],
)
def test_what_other_programs_run_is_asked_for_even_inside(path: str, top: Path) -> None:
    """No mode but bypassPermissions covers it, and no rule that does not name it."""
    assert effect("Write", path, rights(top, "acceptEdits")) == "ask"
    assert effect("Write", path, rights(top, "acceptEdits", allow=("Edit(/**)", "Edit"))) == "ask"
    assert effect("Write", path, rights(top, "bypassPermissions")) == "allow"
    assert effect("Read", path, rights(top)) == "allow"


def test_a_rule_that_names_a_guarded_file_allows_it(top: Path) -> None:
    given = rights(top, "default", allow=("Edit(/.git/hooks/**)", "Edit(.bashrc)"))
    assert effect("Write", ".git/hooks/x", given) == "allow"
    assert effect("Write", ".bashrc", given) == "allow"
    assert effect("Write", ".git/config", given) == "ask"


def test_a_project_in_a_guarded_folder_can_be_worked_in(top: Path) -> None:
    work = top / "home/.claude/worktrees/one"
    work.mkdir(parents=True)
    given = Rights("acceptEdits", str(work), str(top / "home"))
    assert effect("Write", "a.py", given) == "allow"
    assert effect("Write", ".claude/settings.json", given) == "ask"


@pytest.mark.parametrize("mode", ["default", "acceptEdits", "bypassPermissions", "delegate"])
def test_the_files_of_the_teams_cannot_be_written_in_any_mode(mode: Mode, top: Path) -> None:
    """Whoever could write there could answer its own questions."""
    os.symlink(top / "more", top / "project/teams")
    given = rights(top, mode, private=(str(top / "more"),), allow=("Edit", f"Edit(/{top}/**)"))
    for path in (f"{top}/more/team.json", "teams/team.json", "../more/x/y", "src/../../more/x"):
        assert effect("Write", path, given) == "deny"
        assert effect("Edit", path, given) == "deny"
    command = Call("Bash", {"command": "echo x > teams/team.json"}, "run")
    assert decide(command, given).effect == "deny"


def test_its_own_folder_may_be_read_and_not_written(top: Path) -> None:
    given = rights(top, "acceptEdits", readable=(str(top / "more"),))
    assert effect("Read", str(top / "more/output.txt"), given) == "allow"
    assert effect("Write", str(top / "more/output.txt"), given) == "ask"


def test_other_directories_count_as_inside(top: Path) -> None:
    given = rights(top, "acceptEdits", directories=(str(top / "more"), "~/notes"))
    assert effect("Write", str(top / "more/a"), given) == "allow"
    assert effect("Write", str(top / "moreover/a"), given) == "ask"
    given = rights(top, "bypassPermissions", directories=(str(top / "more"),), deny=("Edit(.env)",))
    assert effect("Write", str(top / "more/x/.env"), given) == "deny"


def looking(tool: str, given: Rights, **wanted: object) -> str:
    return decide(Call(tool, wanted, "read"), given).effect


def test_a_search_reads_the_place_that_it_names(top: Path) -> None:
    """Without a path that is the working directory; patterns can name a place as well."""
    given = rights(top)
    assert looking("Grep", given, pattern="x") == "allow"
    assert looking("Grep", given, pattern="x", path="src") == "allow"
    assert looking("Grep", given, pattern="x", path="link") == "ask"
    assert looking("Grep", given, pattern="../x", path="src") == "allow"
    assert looking("Glob", given, pattern="**/*.py") == "allow"
    assert looking("Glob", given, pattern="src/../src/*.py") == "allow"
    for pattern in ("/etc/*", "~/*", "../*", "src/../../*", "link/*", "*/../../x", "{../..}/x"):
        assert looking("Glob", given, pattern=pattern) == "ask", pattern
    assert looking("Glob", given, pattern="../../outside/*", path="src") == "ask"
    assert looking("Glob", given, pattern="*", path="/") == "ask"
    assert looking("Glob", given, pattern=7) == "ask"


def test_a_denied_directory_cannot_be_searched(top: Path) -> None:
    given = rights(top, "bypassPermissions", deny=("Read(/src/**)",))
    assert looking("Grep", given, pattern="x", path="src") == "deny"
    assert looking("Glob", given, pattern="src/deep/*") == "deny"
    assert looking("Grep", given, pattern="x") == "allow"


def test_a_search_does_not_show_what_may_not_be_read(top: Path) -> None:
    given = rights(top, deny=("Read(*.env)", f"Read(/{top}/outside/**)", "Grep"))
    assert hidden(str(top / "project/src/prod.env"), given)
    assert hidden(str(top / "project/link/a"), given)
    assert not hidden(str(top / "project/src/a.py"), given)
    assert hidden(str(top / "project/src/a.py"), rights(top, deny=("Read",)))


@pytest.mark.parametrize("given", [{}, {"file_path": 7}, {"file_path": None}, {"file_path": ""}])
def test_a_call_without_a_path_is_never_inside(given: dict[str, object], top: Path) -> None:
    assert decide(Call("Write", given, "write"), rights(top, "acceptEdits")).effect == "ask"
    assert decide(Call("Read", given, "read"), rights(top, "dontAsk")).effect == "deny"


def test_long_and_deep_paths_are_decided_quickly(top: Path) -> None:
    deep = "a/" * 4_000 + "b"
    assert effect("Write", deep, rights(top, "dontAsk")) == "deny"
    assert effect("Write", "x" * 1_000_000, rights(top, "acceptEdits")) == "ask"
