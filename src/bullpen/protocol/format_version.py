"""The version of the format that homes, logs and transcripts are written in: MAJOR.MINOR.

Records without a version are format 1.0. A newer minor version only adds fields, kinds and values:
they are kept as they are. A newer major version is read as far as possible and never written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from bullpen.errors import Unavailable

FORMAT = "1.2"
"""The format that this version writes: 1.1 has the version itself and a log in parts, 1.2 notes."""

OLDEST = "1.0"

_VERSION = re.compile(r"(\d{1,6})\.(\d{1,6})")


def is_newer(version: str, known: str = FORMAT) -> bool:
    """Return whether this version may not know everything that is written in that format.

    `known` is the newest format of such records that it knows.
    """
    return _order(version) > _order(known)


def may_write(version: str, known: str = FORMAT) -> bool:
    """Return whether this version may write to what has that format: same or older major."""
    return _order(version)[0] <= _order(known)[0]


def newer_words(what: str, version: str, known: str = FORMAT) -> str:
    """Return why something cannot be written by this version."""
    return (
        f"{what} is in format {version[:20]}, of a newer version of Bullpen. "
        f"This version writes format {known} and only reads {what}"
    )


def refuse_newer(what: str, version: str, known: str = FORMAT) -> None:
    """Raise Unavailable if this version may not write to what has that format."""
    if not may_write(version, known):
        raise Unavailable(
            f"{newer_words(what, version, known)}.",
            remedy="Upgrade Bullpen, then try again. Nothing was changed.",
        )


def version_in(raw: Mapping[str, object]) -> str:
    """Return the version in a record's field `format`."""
    found = raw.get("format", OLDEST)
    return found if isinstance(found, str) else repr(found)


def _order(version: str) -> tuple[float, float]:
    match = _VERSION.fullmatch(version)
    return (int(match[1]), int(match[2])) if match else (float("inf"), 0)
