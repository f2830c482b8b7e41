"""The environment of what runs in a sandbox."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from functools import lru_cache

from bullpen.sandbox.outside_sockets import without_sockets
from bullpen.sandbox.visible import SCRATCH

_IDENTITY = (("user.name", "NAME"), ("user.email", "EMAIL"))
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


def inner_environment(
    env: Mapping[str, str], network: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The environment of a sandboxed command, without variables that lead outside.

    The git identity is added, because git's settings are in a home that is not visible. `network`
    are the variables of the sandbox's own network.
    """
    inner = {
        name: value for name, value in without_sockets(env).items() if name.upper() not in _PROXIES
    }
    if "TMPDIR" in inner:
        inner["TMPDIR"] = SCRATCH[0]
    for part, value in _identity(env.get("HOME", ""), env.get("PATH", "")):
        for role in ("AUTHOR", "COMMITTER"):
            inner.setdefault(f"GIT_{role}_{part}", value)
    return {**inner, **(network or {})}


@lru_cache(maxsize=16)
def _identity(home: str, path: str) -> tuple[tuple[str, str], ...]:
    """The git identity from the settings in a home."""
    git = shutil.which("git", path=path)
    if git is None or not home:
        return ()
    found = []
    for setting, part in _IDENTITY:
        said = subprocess.run(  # noqa: S603 - no shell, our own words
            [git, "config", "--global", "--get", setting],
            env={"HOME": home, "PATH": path},
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        value = said.stdout.decode("utf-8", "replace").strip()
        if value:
            found.append((part, value))
    return tuple(found)
