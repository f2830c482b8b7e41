"""Files that other programs run or obey: to write them is more than to edit the project."""

from __future__ import annotations

import os
from collections.abc import Iterable

from bullpen.agents.policy.paths import Place, below, real_path
from bullpen.agents.policy.rules import Rule

_FOLDERS = frozenset([".git", ".claude", ".bullpen"])
_START_UP = frozenset(
    """
    .bash_aliases .bash_login .bash_logout .bash_profile .bashrc .cshrc .envrc .inputrc .kshrc
    .login .logout .mkshrc .profile .tcshrc .xinitrc .xprofile .xsession .zlogin .zlogout .zprofile
    .zshenv .zshrc config.fish
    """.split()  # noqa: SIM905 - one name a line would fill the page
)
_NAMES = _FOLDERS | _START_UP


def protected(found: Place, roots: Iterable[str]) -> bool:
    """Whether a path leads to such a file, seen from the working directory that it lies in."""
    real = [real_path(root) for root in roots]
    return any(_is_one(path, real) for path in (*found.written, *found.real))


def _is_one(path: str, roots: Iterable[str]) -> bool:
    # A project may itself lie in such a folder; what counts is the way down from the project.
    depths = [len(root.rstrip("/")) for root in roots if below(path, root)]
    parts = path[max(depths, default=0) :].casefold().strip("/").split("/")
    return any(part in _FOLDERS for part in parts) or parts[-1] in _START_UP


def names_it(rule: Rule) -> bool:
    """Whether a rule speaks of such a file by name, not just of all that is around it."""
    parts = os.path.normpath(rule.specifier or "").casefold().split("/")
    return any(part in _NAMES for part in parts)
