"""Where a project's own files for agents lie."""

from __future__ import annotations

from pathlib import Path


def up_to_git_root(cwd: Path) -> list[Path]:
    """The directory and those above it up to the root of the git tree; only itself outside one."""
    here = cwd.resolve()
    folders = [here, *here.parents]
    for index, folder in enumerate(folders):
        if (folder / ".git").exists():
            return folders[: index + 1]
    return [here]
