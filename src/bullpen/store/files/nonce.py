"""Texts that are unique among all processes, for the names of temporary files."""

from __future__ import annotations

import itertools
import os
import secrets

_counter = itertools.count()
_origin = (0, "")


def nonce() -> str:
    """A short text that no other call, process or fork gives."""
    global _origin
    if _origin[0] != os.getpid():
        _origin = (os.getpid(), secrets.token_hex(4))
    return f"{_origin[1]}-{next(_counter):x}"
