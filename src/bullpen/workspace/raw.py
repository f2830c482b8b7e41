"""Git that takes bytes as they are: no filter, line ending or setting of a repository counts."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bullpen.errors import Unavailable
from bullpen.workspace.git import Git

# What is written is on the disk before anything relies on it.
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
    """Git over the files of a tree and the objects of a repository, and nothing else of either.

    It has an empty index of its own; `reading` makes it read another.

    Raises:
        Unavailable: there is no room for it.
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
                "GIT_NO_REPLACE_OBJECTS": "1",
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
            remedy="Make room on the disk, then try again.",
        ) from None
    with made:
        yield folder


def reading(git: Git, own: Path) -> Git:
    """The same, with the index of a tree, which must only be read."""
    folder = Path(git.env["GIT_DIR"])
    # An index can be split; git looks for the other half in its git dir.
    for half in own.glob("sharedindex.*"):
        if not (folder / half.name).exists():
            os.symlink(half, folder / half.name)
    return git.with_env(GIT_INDEX_FILE=str(own / "index"))


def fresh_index(git: Git, name: str) -> Git:
    """The same, with one more empty index of its own."""
    return git.with_env(GIT_INDEX_FILE=str(Path(git.env["GIT_DIR"]) / f"index-{name}"))
