"""What a snapshot names is put below the tree, never outside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from bullpen.errors import Unreadable
from bullpen.workspace.trees import restore


@pytest.mark.parametrize("name", ["../out", "a/../../out", "/etc/passwd", "way/file", "file/x"])
def test_a_name_that_leads_outside_is_refused(tmp_path: Path, name: str) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "way").symlink_to(tmp_path)
    (tree / "file").symlink_to(tmp_path / "nowhere")
    with pytest.raises(Unreadable, match="leads outside"):
        restore._inside(tree, name)


def test_a_name_below_the_tree_is_taken(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    assert restore._inside(tmp_path, "a/b") == tmp_path / "a" / "b"
