"""Refuse a command whose packages, which an extra installs, are missing."""

from __future__ import annotations

from importlib.util import find_spec

from bullpen.errors import Unavailable


def need_extra(extra: str, *packages: str) -> None:
    """Refuse to go on without the packages of an extra. Raises Unavailable."""
    missing = [name for name in packages if not _is_installed(name)]
    if missing:
        raise Unavailable(
            f"Packages are not installed: {', '.join(missing)}.",
            remedy=f"Run: pip install 'bullpen[{extra}]'",
        )


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        # The package around it is not installed.
        return False
