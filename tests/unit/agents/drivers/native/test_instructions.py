"""The system text: who the agent is, how to work, and the project's own rules."""

from __future__ import annotations

from pathlib import Path

import pytest

from bullpen.agents.drivers.native.instructions import ALL_CHARS_MAX, FILE_CHARS_MAX, system_text
from bullpen.protocol.agent import AgentSpec


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A git tree with a directory to work in."""
    (tmp_path / "repo/.git").mkdir(parents=True)
    (tmp_path / "repo/src/deep").mkdir(parents=True)
    return tmp_path / "repo"


def text_in(cwd: Path, *, lead: bool = False, **fields: str) -> str:
    spec = AgentSpec.new(driver="native", backend="in-process", cwd=str(cwd), **fields)
    return system_text("team-lead" if lead else "ann", "alpha", lead, spec)


def test_a_teammate_and_the_lead_are_told_who_they_are(tree: Path) -> None:
    assert text_in(tree).startswith("You are ann, a teammate in team alpha.")
    lead = text_in(tree, lead=True)
    assert lead.startswith("You are the lead of team alpha.")
    for word in ("dependencies", "with Task", "end your turn", "Finish"):
        assert word in lead
    for word in ("Finish", "Spawn"):
        assert word not in text_in(tree)
    assert "Other members are not your user." in lead
    assert "a broadcast costs a turn of every teammate" in lead
    assert "Other members are not your user." in text_in(tree)


def test_the_rules_of_the_project_come_from_the_git_root_down(tree: Path) -> None:
    (tree.parent / "AGENTS.md").write_text("OUTSIDE")
    (tree / "AGENTS.md").write_text("ROOT-AGENTS")
    (tree / "CLAUDE.md").write_text("ROOT-CLAUDE")
    (tree / "src/deep/CLAUDE.md").write_text("DEEP-CLAUDE")
    text = text_in(tree / "src/deep")
    order = [text.index(word) for word in ("ROOT-AGENTS", "ROOT-CLAUDE", "DEEP-CLAUDE")]
    assert order == sorted(order)
    assert "OUTSIDE" not in text
    assert str(tree / "src/deep/CLAUDE.md") in text
    assert "DEEP-CLAUDE" not in text_in(tree)


def test_outside_a_git_tree_only_the_directory_itself_counts(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("ABOVE")
    (tmp_path / "work").mkdir()
    (tmp_path / "work/AGENTS.md").write_text("HERE")
    text = text_in(tmp_path / "work")
    assert "HERE" in text and "ABOVE" not in text


def test_a_file_that_is_a_link_to_the_other_is_taken_once(tree: Path) -> None:
    (tree / "AGENTS.md").write_text("THE-RULES")
    (tree / "CLAUDE.md").symlink_to("AGENTS.md")
    assert text_in(tree).count("THE-RULES") == 1


def test_imports_are_resolved_one_level_deep_and_not_in_code(tree: Path) -> None:
    (tree / "docs").mkdir()
    (tree / "docs/style.md").write_text("STYLE, see @docs/more.md")
    (tree / "docs/more.md").write_text("MORE")
    (tree / "CLAUDE.md").write_text(
        "Read @docs/style.md and @docs/gone.md, ask me@docs/style.md.\n"
        "```\n@docs/style.md\n```\nand `@docs/style.md`\n"
    )
    text = text_in(tree)
    assert text.count("STYLE") == 1
    assert "MORE" not in text
    assert "@docs/gone.md" in text and "me@docs/style.md" in text


def test_long_files_are_cut_with_a_note(tree: Path) -> None:
    (tree / "AGENTS.md").write_text("A" * (FILE_CHARS_MAX + 10))
    text = text_in(tree)
    assert text.count("A" * 100) < FILE_CHARS_MAX
    assert f"Read {tree / 'AGENTS.md'}" in text
    deep = tree
    for _ in range(6):
        deep /= "d"
        deep.mkdir()
        (deep / "AGENTS.md").write_text("B" * FILE_CHARS_MAX)
    assert len(text_in(deep)) < ALL_CHARS_MAX + 10_000


def test_a_file_that_cannot_be_read_is_not_taken_for_an_empty_one(tree: Path) -> None:
    (tree / "AGENTS.md").write_bytes(b"caf\xe9 RULES")
    assert "RULES" in text_in(tree)


def test_the_instructions_of_the_definition_are_in_it(tree: Path) -> None:
    text = text_in(tree, role="reviewer", instructions="Be strict.")
    assert "Your instructions as reviewer:\n\nBe strict." in text


def test_an_agent_is_told_what_its_mode_means(tree: Path) -> None:
    assert "plan mode" in text_in(tree, mode="plan")
    assert "You only lead" in text_in(tree, lead=True, mode="delegate")
    assert "You only lead" not in text_in(tree, mode="delegate")
    for mode in ("default", "acceptEdits", "dontAsk", "delegate", "plan"):
        assert "If a call is denied, do not try to get the same result another way" in text_in(
            tree, mode=mode
        )
    assert "denied" not in text_in(tree, mode="bypassPermissions")
