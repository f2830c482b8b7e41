"""Homes that are none, and no home at all: every command says so in a sentence."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from support.fuzz.commandline import Outcome, call, faults, spawn

COMMANDS = (
    ("team", "list"),
    ("team", "create", "alpha"),
    ("team", "show"),
    ("task", "add", "Something"),
    ("inbox",),
    ("doctor", "--all"),
    ("doctor", "--all", "--fix"),
)


def a_file(base: Path) -> str:
    (base / "file").write_text("precious", encoding="utf-8")
    return str(base / "file")


def below_a_file(base: Path) -> str:
    return f"{a_file(base)}/home"


def without_permission(base: Path) -> str:
    (base / "closed").mkdir(mode=0o000)
    return str(base / "closed")


def far_from_there(base: Path) -> str:
    return str(base / "a" / "b" / "c" / "home")


def a_link_to_nowhere(base: Path) -> str:
    (base / "link").symlink_to(base / "nowhere" / "home")
    return str(base / "link")


def a_pipe(base: Path) -> str:
    os.mkfifo(base / "pipe")
    return str(base / "pipe")


def with_files_for_folders(base: Path) -> str:
    (base / "home").mkdir()
    for name in ("teams", "tasks"):
        (base / "home" / name).write_bytes(b"precious")
    return str(base / "home")


def too_long(base: Path) -> str:
    return str(base / ("x" * 300))


def not_text(base: Path) -> str:
    return str(base / "\udcff\udcfe")


def somebody_elses(base: Path) -> str:
    return "~no-such-user-here/home"


HOMES: tuple[Callable[[Path], str], ...] = (
    a_file, below_a_file, without_permission, far_from_there, a_link_to_nowhere, a_pipe,
    with_files_for_folders, too_long, not_text, somebody_elses,
)  # fmt: skip


def environment(base: Path, **more: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(base / "user"), **more}


def unkind(outcome: Outcome, *, as_json: bool) -> list[str]:
    return [*faults(outcome, as_json=as_json), *(["exit 1"] if outcome.code == 1 else [])]


@pytest.mark.parametrize("home", HOMES, ids=lambda home: home.__name__)
@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_a_home_that_cannot_be_one_is_named_in_the_error(
    tmp_path: Path, home: Callable[[Path], str], as_json: bool
) -> None:
    env = environment(tmp_path, BULLPEN_HOME=home(tmp_path), BULLPEN_TEAM="alpha")
    for words in COMMANDS:
        outcome = call([*(["--json"] if as_json else []), *words], env)
        assert unkind(outcome, as_json=as_json) == [], (words, outcome)
        if home in (a_file, below_a_file, a_pipe, with_files_for_folders, too_long):
            assert outcome.code in (3, 5), (words, outcome)
            assert outcome.err.startswith(b"error: "), (words, outcome)
    for path in tmp_path.rglob("*"):
        if path.is_file():
            inside = far_from_there(tmp_path) in str(path) or not_text(tmp_path) in str(path)
            allowed = inside or "closed" in str(path) or "nowhere" in str(path)
            assert allowed or path.read_bytes() == b"precious", path


def test_looking_makes_no_home(tmp_path: Path) -> None:
    env = environment(tmp_path, BULLPEN_HOME=far_from_there(tmp_path))
    for words in COMMANDS[:1] + COMMANDS[2:3] + COMMANDS[4:]:
        call(words, env)
    assert list(tmp_path.iterdir()) == []


def test_without_HOME_a_home_that_is_named_is_enough(tmp_path: Path) -> None:
    env = {"PATH": os.environ["PATH"], "BULLPEN_HOME": str(tmp_path / "home")}
    for run in (call, spawn):
        outcome = run(["--json", "team", "list"], env)
        assert unkind(outcome, as_json=True) == []
        assert json.loads(outcome.out)["teams"] == []


def test_without_HOME_and_without_a_name_nothing_fails_in_an_unkind_way() -> None:
    outcome = spawn(["--json", "team", "list"], {"PATH": os.environ["PATH"]})
    assert unkind(outcome, as_json=True) == []


def test_a_current_directory_that_is_gone_is_named_in_the_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    for home in ("here", str(tmp_path / "home")):
        for words in COMMANDS:
            outcome = call(words, environment(tmp_path, BULLPEN_HOME=home))
            assert unkind(outcome, as_json=False) == [], (home, words, outcome)
