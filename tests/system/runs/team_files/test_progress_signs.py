"""Signs of progress in real trees, work that comes back the same, entries that are added once."""

from __future__ import annotations

from pathlib import Path

import pytest

from bullpen.runs.watch.progress_signs import tree_sign, work_sign
from support.runs.unattended_team import Night, git_environment


@pytest.fixture
def night(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Night:
    for name, value in git_environment().items():
        monkeypatch.setenv(name, value)
    found = Night(tmp_path)
    found.make_repository()
    return found


def test_whatever_git_would_see_in_a_tree_is_a_sign(night: Night) -> None:
    tree = night.project
    signs = [tree_sign(tree)]
    assert signs[0] is not None
    assert tree_sign(tree) == signs[0], "looking is no sign"

    def changed(act: str) -> None:
        now = tree_sign(tree)
        assert now not in signs, act
        signs.append(now)

    (tree / "new file\n.txt").write_text("a", "utf-8")
    changed("a new file")
    (tree / "new file\n.txt").write_text("ab", "utf-8")
    changed("more in it")
    (tree / "README").write_text("other", "utf-8")
    changed("a changed file")
    night.git("add", ".")
    changed("staged")
    night.git("commit", "--quiet", "--message=x")
    changed("committed")
    (tree / "README").unlink()
    changed("removed")
    assert tree_sign(tree / "nowhere") is None, "what cannot be looked at is not unchanged"


def test_the_same_work_is_known_again_on_another_base(night: Night) -> None:
    """Commit ids and what lies below differ; what was changed does not."""
    signs = []
    for number, text in enumerate(("a\n", "a\n", "b\n")):
        base = night.git("rev-parse", "main").strip()
        night.git("checkout", "--quiet", "-b", f"work-{number}")
        (night.project / "work.txt").write_text(text, "utf-8")
        night.git("add", ".")
        night.git("commit", "--quiet", f"--message=try {number}")
        commit = night.git("rev-parse", "HEAD").strip()
        night.git("checkout", "--quiet", "main")
        (night.project / f"other-{number}.txt").write_text("x", "utf-8")
        night.git("add", ".")
        night.git("commit", "--quiet", "--message=meanwhile")
        signs.append(work_sign(night.project, base, commit))
    assert None not in signs
    assert signs[0] == signs[1]
    assert signs[1] != signs[2]
    assert work_sign(night.project, "nothing", "nowhere") is None
