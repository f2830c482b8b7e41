"""The target of the forge and the one here are joined by git, once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from bullpen.protocol.team import MergeSettings
from bullpen.runs.forge.landing.local_target import join_target
from support.git.repositories import commit, git, make_repository, only_these_settings


@dataclass
class There:
    """The forge, as a repository beside the one here."""

    folder: Path

    def fetch(self, branch: str) -> str:
        return git(self.folder, "rev-parse", branch).strip()

    def fetched_ref(self, branch: str) -> str:
        return f"refs/heads/{branch}"


@pytest.fixture
def sides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[MergeSettings, There]:
    only_these_settings(monkeypatch, tmp_path)
    there = make_repository(tmp_path / "there", {"a.txt": "a\n"})
    git(tmp_path, "clone", "--quiet", str(there), "here")
    here = tmp_path / "here"
    target = git(here, "branch", "--show-current").strip()
    commit(there, {"theirs.txt": "x\n"})
    commit(here, {"ours.txt": "y\n"})
    git(here, "checkout", "--quiet", "--detach")
    author = "bullpen <bullpen@example.org>"
    return MergeSettings.new(repository=str(here), target=target, author=author), There(there)


def test_a_join_whose_worker_was_killed_is_named_again(sides: tuple[MergeSettings, There]) -> None:
    settings, there = sides
    joined, why = join_target(settings, cast("Any", there), settings.target)
    assert why is None
    assert joined is not None
    here = Path(settings.repository)
    assert git(here, "rev-parse", settings.target).strip() == joined
    assert len(git(here, "rev-list", "--parents", "-1", joined).split()) == 3
    # Whoever made it was killed before that was recorded.
    assert join_target(settings, cast("Any", there), settings.target) == (joined, None)


def test_nothing_is_joined_that_is_the_same(sides: tuple[MergeSettings, There]) -> None:
    settings, there = sides
    joined, _ = join_target(settings, cast("Any", there), settings.target)
    git(there.folder, "fetch", "--quiet", settings.repository, settings.target)
    git(there.folder, "reset", "--quiet", "--hard", "FETCH_HEAD")
    assert there.fetch(settings.target) == joined
    assert join_target(settings, cast("Any", there), settings.target) == (None, None)
