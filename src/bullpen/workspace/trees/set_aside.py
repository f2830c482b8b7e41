"""A worktree that is being removed: where it is moved to, and how far the removal got.

First it is moved aside, where nobody finds it by its path, and checked once more. When everything
is saved it is moved on, and only deleted from there. Each move happens completely or not at all, so
that after a kill the name of the folder says what may be done with it. `+` is in no member's name.
"""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

from bullpen.workspace.git.marks import MARK, write_errors

LOCKED = "bullpen is removing this tree"
"""Why git must not forget a worktree while it is moved aside."""


def aside_of(path: Path) -> Path:
    """Return where a worktree is that is to be checked once more."""
    return path.parent / f"+{path.name}.removing"


def done_with(path: Path) -> Path:
    """Return where a completely saved worktree is, to be deleted."""
    return path.parent / f"+{path.name}.removed"


def lock_reason(own: Path) -> str | None:
    """Return why a worktree is locked (perhaps empty); None if only Bullpen locked it."""
    try:
        reason = (own / "locked").read_text("utf-8", "replace").strip()
    except FileNotFoundError:
        return None
    except OSError as error:
        return str(error)
    return None if reason == LOCKED else reason


def hold(own: Path) -> None:
    """Keep git from forgetting a worktree while its folder is elsewhere."""
    with write_errors(own / "locked"):
        (own / "locked").write_text(f"{LOCKED}\n", "utf-8")


def undo_removal(path: Path, common: Path | None = None) -> None:
    """Put a worktree back whose removal was interrupted, if there is one.

    `common` is the git dir that it shares with the other worktrees. Raises Unavailable.
    """
    known = [] if common is None else records(common)
    own = next((own for own, at in known if at is not None and is_same_place(at, path)), None)
    is_held = own is not None and os.path.lexists(own / "locked") and lock_reason(own) is None
    if is_held or os.path.lexists(aside_of(path)):
        put_back(path, own)


def put_back(path: Path, own: Path | None) -> None:
    """Move a worktree back to its place.

    `own` is its git dir, if that is elsewhere. Raises Unavailable if it cannot be moved.
    """
    with write_errors(path):
        if os.path.lexists(aside_of(path)) and not os.path.lexists(path):
            os.rename(aside_of(path), path)
        if own is not None and (own / "gitdir").exists():
            # Git may have recorded where the worktree was moved to.
            (own / "gitdir").write_text(f"{path}/.git\n", "utf-8", "surrogateescape")
        if own is not None and lock_reason(own) is None:
            (own / "locked").unlink(missing_ok=True)


def is_same_place(at: Path, path: Path) -> bool:
    """Return whether a folder is a worktree's, in its place or moved aside."""
    places = (path, aside_of(path), done_with(path))
    return os.path.realpath(at) in {os.path.realpath(each) for each in places}


def records(common: Path) -> list[tuple[Path, Path | None]]:
    """Return a repository's records of linked worktrees and where each is; None if unknown."""
    found: list[tuple[Path, Path | None]] = []
    try:
        names = sorted((common / "worktrees").iterdir())
    except FileNotFoundError:
        return []
    for own in names:
        try:
            said = (own / "gitdir").read_text("utf-8", "surrogateescape").removesuffix("\n")
            found.append((own, Path(os.path.normpath(own / said)).parent))
        except FileNotFoundError:
            found.append((own, None))
        except NotADirectoryError:
            continue
    return found


def erase(folder: Path) -> None:
    """Delete a folder and everything in it. Links are not followed. Raises OSError."""
    try:
        _erase(folder)
    except PermissionError:
        # It may contain folders that nothing can be deleted from.
        _open_up(folder)
        for name, folders, _ in os.walk(folder):
            for each in folders:
                _open_up(Path(name, each))
        _erase(folder)


def _erase(folder: Path) -> None:
    # The mark of a clone goes last, so that the rest is found after a kill.
    git = folder / ".git"
    if git.is_dir() and not git.is_symlink():
        for kept, last in ((folder, git.name), (git, MARK)):
            for child in sorted(kept.iterdir()):
                if child.name != last:
                    _delete(child)
    shutil.rmtree(folder)


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _open_up(folder: Path) -> None:
    """Allow deleting from a folder that was moved away for deletion."""
    mode = folder.lstat().st_mode
    if stat.S_ISDIR(mode) and mode & 0o700 != 0o700:
        folder.chmod(0o700)
