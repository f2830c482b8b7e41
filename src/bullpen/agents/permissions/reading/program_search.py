"""Find out whether a command's name means a program of the system, not one of the project."""

from __future__ import annotations

import os
from collections.abc import Sequence

from bullpen.agents.permissions.rule_language.paths import below, real_path

_OF_SYSTEM = ("/bin", "/nix", "/opt", "/sbin", "/snap", "/usr")
# Version managers start another program from here, and the project says which.
_SHIMS = "shims"


def is_system_program(name: str, search_path: str, roots: Sequence[str]) -> bool:
    """Whether bash finds a program outside of these directories first, and it is what it is called.

    A program in a directory that an agent writes could be the agent's own.
    """
    for folder in search_path.split(os.pathsep):
        if not folder.startswith("/"):
            # Relative to wherever the command runs.
            return False
        found = os.path.join(folder, name)
        if not os.path.lexists(found):
            continue
        real = real_path(found)
        places = (found, os.path.normpath(found), real)
        if any(below(place, root) for root in roots for place in places):
            return False
        if not os.access(real, os.X_OK):
            return False
        if any(below(real, each) for each in _OF_SYSTEM):
            return True
        return os.path.basename(real) == name and not _is_of_a_project(real)
    return False


def _is_of_a_project(program: str) -> bool:
    """Whether a project says what this program is: other agents may work there."""
    parts = program.split("/")
    folders = ["/".join(parts[:end]) for end in range(1, len(parts))]
    return _SHIMS in parts or any(os.path.lexists(f"{each}/.git") for each in folders)
