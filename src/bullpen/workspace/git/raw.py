"""Git that stores bytes unchanged: no filter, line ending or repository setting applies."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bullpen.errors import Unavailable
from bullpen.workspace.git.run_git import Git

# Everything is on disk before anything relies on it.
_CONFIG = """\
[core]
	repositoryformatversion = {version}
	bare = false
	fileMode = true
	symlinks = true
	precomposeUnicode = false
	compression = 1
	fsync = all
	fsyncMethod = batch
{extensions}"""

_ATTRIBUTES = "* -text -filter -ident -working-tree-encoding\n"


@contextmanager
def raw_git(objects: Path, tree: Path, hash_name: str) -> Iterator[Git]:
    """Yield git with the files of a worktree and the objects of a repository only.

    It has an empty index of its own; `reading` makes it read another one.

    Raises:
        Unavailable: there is no space for it.
    """
    with _folder(hash_name) as folder:
        yield Git(
            tree,
            {
                "GIT_DIR": str(folder),
                "GIT_WORK_TREE": str(tree),
                "GIT_OBJECT_DIRECTORY": str(objects),
                "GIT_INDEX_FILE": str(folder / "index"),
                "GIT_OPTIONAL_LOCKS": "0",
            },
        )


@contextmanager
def _folder(hash_name: str) -> Iterator[Path]:
    extensions = "" if hash_name == "sha1" else f"[extensions]\n\tobjectFormat = {hash_name}\n"
    try:
        made = tempfile.TemporaryDirectory(prefix="bullpen-", ignore_cleanup_errors=True)
        folder = Path(made.name)
        (folder / "refs").mkdir()
        (folder / "info").mkdir()
        (folder / "HEAD").write_text("ref: refs/heads/none\n", "utf-8")
        (folder / "info" / "attributes").write_text(_ATTRIBUTES, "utf-8")
        (folder / "config").write_text(
            _CONFIG.format(version=1 if extensions else 0, extensions=extensions), "utf-8"
        )
    except OSError as error:
        raise Unavailable(
            f"A temporary folder cannot be written: {error.strerror or error}.",
            remedy="Free some disk space, then try again.",
        ) from None
    with made:
        yield folder


def reading(git: Git, own: Path) -> Git:
    """Return the same git with the index of a worktree, which must only be read."""
    folder = Path(git.env["GIT_DIR"])
    # An index can be split; git looks for the other half in its git dir.
    for half in own.glob("sharedindex.*"):
        if not (folder / half.name).exists():
            os.symlink(half, folder / half.name)
    return git.with_env(GIT_INDEX_FILE=str(own / "index"))


def fresh_index(git: Git, name: str) -> Git:
    """Return the same git with another empty index of its own."""
    return git.with_env(GIT_INDEX_FILE=str(Path(git.env["GIT_DIR"]) / f"index-{name}"))
