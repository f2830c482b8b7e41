"""What a repository may tell a model: only what the agent itself could read without asking."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from bullpen.agents.drivers.native.instructions import ALL_CHARS_MAX, system_text
from bullpen.agents.tools.files.prompt_files import FILES_MAX, PromptFiles
from bullpen.protocol.agent import AgentSpec
from bullpen.testing.models import Reply
from support.agents.in_process_models import InProcessModels
from support.agents.native_workplace import Workplace

KEY = "sk-ant-api03-" + "A1b2" * 20


@pytest.fixture
def user(tmp_path: Path) -> Path:
    """The home of a user, with secrets in it."""
    home = tmp_path / "home"
    (home / ".claude").mkdir(parents=True)
    (home / ".ssh").mkdir()
    (home / ".netrc").write_text("machine x password NETRC-SECRET")
    (home / ".claude/.credentials.json").write_text('{"t": "CRED-SECRET"}')
    (home / ".ssh/id_rsa").write_text("KEY-SECRET")
    return home


@pytest.fixture
def clone(tmp_path: Path, user: Path) -> Path:
    """A clone that nobody trusts."""
    project = tmp_path / "clone"
    (project / ".git").mkdir(parents=True)
    return project


def told(clone: Path, user: Path, *, cwd: Path | None = None, **fields: Any) -> tuple[str, Any]:
    """The system text of an agent in a clone, and the files it is made of."""
    spec = AgentSpec.new(driver="native", backend="none", cwd=str(cwd or clone), **fields)
    files = PromptFiles(spec, user_home=str(user))
    return system_text("ann", "alpha", False, spec, files), files


@pytest.mark.parametrize("mode", ["default", "bypassPermissions", "acceptEdits", "plan"])
def test_imports_that_lead_out_of_the_project_are_left_out(
    clone: Path, user: Path, mode: str
) -> None:
    (clone / ".env").write_text("ENV-SECRET")
    (clone / "out").symlink_to(user)
    (clone / "CLAUDE.md").write_text(
        f"Rules. @{user}/.netrc.x @{user}/.claude/.credentials.json @../home/.netrc\n"
        f"@.env @out/.claude/.credentials.json @~/.claude/.credentials.json @./out/.ssh/../.netrc\n"
    )
    text, files = told(clone, user, mode=mode, policy={"deny": ["Read(.env)"]})
    assert [word for word in ("NETRC", "CRED", "ENV") if f"{word}-SECRET" in text] == []
    assert "Rules." in text
    assert len(files.left_out) >= 4
    assert "outside the project" in files.left_out[str(clone / "../home/.netrc")]


def test_a_rule_file_that_is_a_link_out_of_the_project_is_left_out_and_said(
    clone: Path, user: Path
) -> None:
    (clone / "AGENTS.md").symlink_to(user / ".ssh/id_rsa")
    text, files = told(clone, user, mode="bypassPermissions")
    assert "KEY-SECRET" not in text
    assert f"The rules in {clone / 'AGENTS.md'} are left out" in text
    assert "outside the project" in files.left_out[str(clone / "AGENTS.md")]


@pytest.mark.parametrize(
    "policy",
    [{"deny": ["Read(docs/**)"]}, {"ask": ["Read(docs/**)"]}, {"deny": ["Read"]}],
    ids=["denied", "asked for", "all denied"],
)
def test_files_that_the_agent_may_not_read_unasked_are_left_out(
    clone: Path, user: Path, policy: dict[str, list[str]]
) -> None:
    (clone / "docs").mkdir()
    (clone / "docs/style.md").write_text("STYLE")
    (clone / "CLAUDE.md").write_text("See @docs/style.md")
    assert "STYLE" in told(clone, user)[0]
    text, files = told(clone, user, policy=policy)
    assert "STYLE" not in text
    assert any("rule" in why for why in files.left_out.values())


def test_a_file_below_the_git_root_may_import_from_all_of_the_project(
    clone: Path, user: Path
) -> None:
    (clone / "src").mkdir()
    (clone / "docs.md").write_text("DOCS")
    (clone / "AGENTS.md").write_text("ROOT")
    (clone / "src/CLAUDE.md").write_text("@../docs.md")
    text, files = told(clone, user, cwd=clone / "src")
    assert "ROOT" in text and "DOCS" in text
    assert files.left_out == {}


def test_the_home_of_the_user_is_not_part_of_a_project_in_it(user: Path) -> None:
    """A home under git must not make an unpacked archive in it part of the home."""
    (user / ".git").mkdir()
    project = user / "src/unpacked"
    project.mkdir(parents=True)
    (project / "CLAUDE.md").write_text("Rules. @../../.claude/.credentials.json")
    text, _ = told(project, user)
    assert "Rules." in text
    assert "CRED-SECRET" not in text


def test_an_import_from_outside_needs_a_rule_that_names_its_place(clone: Path, user: Path) -> None:
    (user / ".claude/mine.md").write_text("MY-RULES")
    (clone / "CLAUDE.md").write_text("@~/.claude/mine.md @~/.claude/.credentials.json")
    mine = "Read(~/.claude/mine.md)"
    text, files = told(clone, user, policy={"allow": [mine]})
    assert "MY-RULES" in text and "CRED-SECRET" not in text
    assert list(files.left_out) == [str(user / ".claude/.credentials.json")]
    assert "MY-RULES" in told(clone, user, policy={"directories": [str(user / ".claude")]})[0]
    for policy in (
        {"allow": [mine], "deny": ["Read(~/**)"]},
        {"allow": [mine], "ask": [mine]},
        {"allow": ["Read"]},
        {},
    ):
        assert "MY-RULES" not in told(clone, user, mode="default", policy=policy)[0], policy


def test_secrets_in_rule_files_are_redacted_before_they_are_cut(clone: Path, user: Path) -> None:
    (clone / "AGENTS.md").write_text(f"Use {KEY}.\n{'x' * 39_950} {KEY}")
    text, _ = told(clone, user)
    assert "sk-ant-" not in text
    assert "Use [secret]." in text


def test_special_files_are_left_out_at_once(clone: Path, user: Path) -> None:
    os.mkfifo(clone / "AGENTS.md")
    os.mkfifo(clone / "pipe.md")
    (clone / "CLAUDE.md").write_text("Rules. @pipe.md @sub.d @image.png")
    (clone / "sub.d").mkdir()
    (clone / "image.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0")
    made: list[Any] = []
    thread = threading.Thread(target=lambda: made.append(told(clone, user)), daemon=True)
    thread.start()
    thread.join(60)
    assert made, "it waits for a writer"
    text, files = made[0]
    assert "Rules." in text
    assert {Path(path).name for path in files.left_out} == {
        "AGENTS.md",
        "pipe.md",
        "sub.d",
        "image.png",
    }


def test_the_number_of_files_is_limited(clone: Path, user: Path) -> None:
    for number in range(FILES_MAX + 20):
        (clone / f"part{number}.md").write_text("P" * 3000)
    (clone / "CLAUDE.md").write_text(
        "".join(f"@part{number}.md\n" for number in range(FILES_MAX + 20))
    )
    text, files = told(clone, user)
    assert len(files.taken) == FILES_MAX
    assert len(text) < ALL_CHARS_MAX + 10_000
    assert len(files.left_out) == 21


def test_a_file_that_is_named_twice_is_told_once(clone: Path, user: Path) -> None:
    (clone / "AGENTS.md").write_text("THE-RULES")
    (clone / "CLAUDE.md").write_text("@AGENTS.md and @AGENTS.md")
    assert told(clone, user)[0].count("THE-RULES") == 1


async def test_each_file_that_the_model_is_told_is_in_the_transcript(workplace: Workplace) -> None:
    cwd = Path(workplace.desk.spec.cwd)
    (cwd / "AGENTS.md").write_text("THE-RULES")
    (cwd / "CLAUDE.md").symlink_to("/etc/passwd")
    with InProcessModels(lambda _: Reply("done")) as mock:
        async with workplace.driver(mock) as native:
            await workplace.turn(native)
            (cwd / "AGENTS.md").write_text("OTHER-RULES")
            await workplace.turn(native)
    (row,) = workplace.recorded("read")
    assert (row["path"], row["bytes"]) == (str(cwd / "AGENTS.md"), 9)
    assert len(row["sha256"]) == 64
    notes = [row["text"] for row in workplace.recorded("note") if "CLAUDE.md" in row["text"]]
    assert len(notes) == 1 and "outside the project" in notes[0]
    first, second = mock.requests
    assert "THE-RULES" in first.system and first.system == second.system


# The user's own rules


def test_the_rules_of_the_user_come_before_those_of_the_project(clone: Path, user: Path) -> None:
    (user / ".claude/CLAUDE.md").write_text("MINE. @style.md @~/elsewhere.md")
    (user / ".claude/style.md").write_text("MY-STYLE")
    (user / "elsewhere.md").write_text("MY-NOTES")
    (clone / "CLAUDE.md").write_text("THEIRS @~/.claude/style.md")
    text, files = told(clone, user, mode="dontAsk")
    assert f"Rules of your user, for all projects, from {user}/.claude/CLAUDE.md:" in text
    places = [text.index(word) for word in ("MINE", "MY-STYLE", "MY-NOTES", "THEIRS")]
    assert places == sorted(places)
    assert text.count("MY-STYLE") == 1
    assert files.left_out == {}


def test_the_rules_of_the_user_may_be_a_link_and_lie_where_claude_code_has_them(
    clone: Path, user: Path, tmp_path: Path
) -> None:
    (tmp_path / "dotfiles").mkdir()
    (tmp_path / "dotfiles/rules.md").write_text(f"MINE {KEY}")
    (tmp_path / "config").mkdir()
    (tmp_path / "config/CLAUDE.md").symlink_to(tmp_path / "dotfiles/rules.md")
    spec = AgentSpec.new(driver="native", backend="none", cwd=str(clone))
    files = PromptFiles(spec, user_home=str(user), claude_home=str(tmp_path / "config"))
    text = system_text("ann", "alpha", False, spec, files)
    assert "MINE" in text and KEY not in text


@pytest.mark.parametrize("rule", ["deny", "ask"])
def test_a_rule_leaves_the_rules_of_the_user_out(clone: Path, user: Path, rule: str) -> None:
    (user / ".claude/CLAUDE.md").write_text("MINE")
    text, files = told(clone, user, policy={rule: ["Read(~/.claude/**)"]})
    assert "MINE" not in text
    assert list(files.left_out) == [str(user / ".claude/CLAUDE.md")]
