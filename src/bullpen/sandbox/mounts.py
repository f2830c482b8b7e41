"""Mounts of the sandbox, in the order in which bubblewrap has to make them."""

from __future__ import annotations

from typing import NamedTuple


class Mount(NamedTuple):
    """One mount. Deeper paths come later; at the same path, the higher rank comes later."""

    depth: int
    rank: int
    words: tuple[str, ...]


def mount(path: str, rank: int, *words: str) -> Mount:
    return Mount(len([part for part in path.split("/") if part]), rank, words)


def is_inside(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")
