"""Finds the page of a repository on a forge, from the remote of a clone."""

from __future__ import annotations

import re
from pathlib import Path

from bullpen.errors import BullpenError
from bullpen.runs.forge.place import place_of
from bullpen.workspace.git.run_git import Git

_SCP = re.compile(r"(?:[^@/\s]+@)?([A-Za-z0-9.-]+):(?!/)([^\s]+)")
_SSH = re.compile(r"(?:ssh|git)://(?:[^@/\s]+@)?([A-Za-z0-9.-]+)(?::\d+)?/([^\s]+)")
_HTTP = re.compile(r"(https?)://(?:[^@/\s]*@)?([^/\s]+)/([^\s]+)")


def remote_page(cwd: Path) -> str | None:
    """Return the page of the repository that a clone came from; None if it has no such remote."""
    try:
        git = Git(cwd)
        names = git("remote").splitlines()
        name = "origin" if "origin" in names else next(iter(names), None)
        return None if name is None else page_of(git("remote", "get-url", name))
    except BullpenError:
        return None


def page_of(remote: str) -> str | None:
    """Return the page of a repository, by an address that git uses; None for a local one.

    A user name or a token in the address is left out.
    """
    text = remote.strip()
    if found := _HTTP.fullmatch(text):
        url = f"{found[1]}://{found[2]}/{found[3]}"
    elif found := _SSH.fullmatch(text) or _SCP.fullmatch(text):
        url = f"https://{found[1]}/{found[2]}"
    else:
        return None
    try:
        return place_of(url).url
    except BullpenError:
        return None
