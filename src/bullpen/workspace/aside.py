"""A tree on its way out: where it is moved to, and how to see how far that got.

First it is moved aside, where nobody finds it by its path, and looked at once more; when all of it
is kept it is moved on, and only from there it is deleted. Each move happens at once or not at all,
so that after a kill the name of the folder says what may be done with it. `+` is in no name of a
member.
"""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

from bullpen.workspace.marks import MARK, cannot_write

LOCKED = "bullpen is removing this tree"
"""Why git must not forget a tree while it is moved aside."""


def aside_of(path: Path) -> Path:
    """Where a tree is that is to be looked at once more."""
    return path.parent / f"+{path.name}.removing"


def done_with(path: Path) -> Path:
    """Where a tree is of which all is kept, to be deleted."""
    return path.parent / f"+{path.name}.removed"


def lock_reason(own: Path) -> str | None:
    """Why somebody locked a tree, perhaps without saying why; None if nobody did but us."""
    try:
        reason = (own / "locked").read_text("utf-8", "replace").strip()
    except FileNotFoundError:
        return None
    except OSError as error:
        return str(error)
    return None if reason == LOCKED else reason


def hold(own: Path) -> None:
    """Let git not forget a tree while its folder is not where it was."""
    try:
        (own / "locked").write_text(f"{LOCKED}\n", "utf-8")
    except OSError as error:
        raise cannot_write(own / "locked", error) from None


def undo_removal(path: Path, common: Path | None = None) -> None:
    """Put a tree back in its place whose removal was cut short, if there is such a one.

    `common` is what it shares with the other trees of its repository. Raises Unavailable.
    """
    known = [] if common is None else records(common)
    own = next((own for own, at in known if at is not None and is_same_place(at, path)), None)
    is_held = own is not None and os.path.lexists(own / "locked") and lock_reason(own) is None
    if is_held or os.path.lexists(aside_of(path)):
        put_back(path, own)


def put_back(path: Path, own: Path | None) -> None:
    """Undo what moved a tree aside.

    `own` is its git dir, if that lies elsewhere. Raises Unavailable if it cannot be moved.
    """
    try:
        if os.path.lexists(aside_of(path)) and not os.path.lexists(path):
            os.rename(aside_of(path), path)
        if own is not None and (own / "gitdir").exists():
            # Git may have noted where the tree was moved to.
            (own / "gitdir").write_text(f"{path}/.git\n", "utf-8", "surrogateescape")
        if own is not None and lock_reason(own) is None:
            (own / "locked").unlink(missing_ok=True)
    except OSError as error:
        raise cannot_write(path, error) from None


def is_same_place(at: Path, path: Path) -> bool:
    """Whether a folder is that of a tree, in its place or moved aside."""
    places = (path, aside_of(path), done_with(path))
    return os.path.realpath(at) in {os.path.realpath(each) for each in places}


def records(common: Path) -> list[tuple[Path, Path | None]]:
    """What a repository keeps of its linked trees, and where each is; None if that is not known."""
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
    """Delete a folder with all in it, and nothing that links in it lead to. Raises OSError."""
    try:
        _erase(folder)
    except PermissionError:
        # It may hold folders that nothing can be deleted from.
        _open_up(folder)
        for name, folders, _ in os.walk(folder):
            for each in folders:
                _open_up(Path(name, each))
        _erase(folder)


def _erase(folder: Path) -> None:
    # The mark of a clone goes last: by it the rest is found after a kill.
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
    """Give leave to delete from a folder that we have moved away for that."""
    mode = folder.lstat().st_mode
    if stat.S_ISDIR(mode) and mode & 0o700 != 0o700:
        folder.chmod(0o700)
