"""A folder that Bullpen writes whole, and takes away again without touching files of others."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from bullpen.errors import NotFound, Refused, Unavailable
from bullpen.store.private_folder import make_private

LIST = "written-by-bullpen.json"
"""The file in the folder that names every file of ours in it."""


def written(folder: Path) -> tuple[str, ...] | None:
    """The files of ours in a folder; None if there is no such folder.

    Raises:
        Refused: there is something else in its place (not_ours).
    """
    if not os.path.lexists(folder):
        return None
    try:
        if folder.is_symlink():
            raise ValueError("it is a link")
        names = json.loads((folder / LIST).read_text(encoding="utf-8"))
        return tuple(str(name) for name in names if _stays(str(name)))
    except (OSError, ValueError, TypeError):
        raise Refused(
            f"{folder} exists, and Bullpen did not write it.",
            reason="not_ours",
            remedy="Move it away and run the command again. Nothing was written.",
        ) from None


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Write these files, and remove those of ours that are no longer among them.

    Raises:
        Refused: the folder, or a file that would be overwritten, is not ours (not_ours).
        Unavailable: it cannot be written.
    """
    before = written(folder) or ()
    foreign = [name for name in files if name not in before and os.path.lexists(folder / name)]
    if foreign:
        raise Refused(
            f"{folder / foreign[0]} exists, and Bullpen did not write it.",
            reason="not_ours",
            remedy="Move it away and run the command again. Nothing was written.",
        )
    try:
        make_private(folder)
        # First, so that what an interrupted run wrote is known to be ours.
        _put(folder / LIST, json.dumps(sorted({*before, *files}), indent=1) + "\n")
        for name, text in files.items():
            make_private((folder / name).parent)
            _put(folder / name, text)
        _drop(folder, set(before) - set(files))
        _put(folder / LIST, json.dumps(sorted(files), indent=1) + "\n")
    except OSError as error:
        raise Unavailable(
            f"Cannot write {folder}: {error.strerror}.",
            remedy="Check the permissions of the folder.",
        ) from error


def remove(folder: Path) -> list[str]:
    """Remove what `write` wrote. Returns the files of others that are left.

    Raises:
        NotFound: there is no such folder.
        Refused: it is not ours (not_ours).
        Unavailable: it cannot be removed.
    """
    names = written(folder)
    if names is None:
        raise NotFound(
            f"There is no {folder}: the plugin is not installed.",
            remedy="If it was installed with another home, name that with --home.",
        )
    try:
        _drop(folder, [*names, LIST])
        with suppress(OSError):
            folder.rmdir()
    except OSError as error:
        raise Unavailable(
            f"Cannot remove {folder}: {error.strerror}.",
            remedy="Check the permissions of the folder.",
        ) from error
    return sorted(str(path) for path in folder.rglob("*") if not path.is_dir())


def _stays(name: str) -> bool:
    """Whether a name leads to a file below the folder."""
    return bool(name) and not os.path.isabs(name) and ".." not in Path(name).parts


def _put(path: Path, text: str) -> None:
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(new, path)


def _drop(folder: Path, names: Iterable[str]) -> None:
    for name in names:
        path = folder / name
        path.unlink(missing_ok=True)
        for above in path.parents:
            if above == folder:
                break
            # A folder that is not empty stays.
            with suppress(OSError):
                above.rmdir()
