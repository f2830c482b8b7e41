"""Find drivers, backends, stores and tools that other installed packages provide.

A package names its parts in the entry points `bullpen.drivers`, `bullpen.backends`,
`bullpen.stores` and `bullpen.tools`. Reading the entry points of all packages takes tens of
milliseconds, so ask here only about names that are not Bullpen's own. Finding a part imports
nothing of its package; only `load` does.
"""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from bullpen.by_name import load
from bullpen.errors import BullpenError, Invalid, Unavailable

PartKind = Literal["driver", "backend", "store", "tool"]
KINDS: tuple[PartKind, ...] = ("driver", "backend", "store", "tool")

_NEAR = 0.6


@dataclass(frozen=True, slots=True, order=True)
class InstalledPart:
    """A part that a package provides: its name, what it is loaded from, and its package."""

    kind: PartKind
    name: str
    package: str
    version: str
    target: str

    @property
    def source(self) -> str:
        """The package and its version, for people."""
        return f"{self.package} {self.version}"

    def load(self) -> Any:
        """Import the part. Raises Unavailable, with the package and the cause."""
        try:
            found = load(self.target.split("[")[0].strip())
        except BullpenError as error:
            raise self.broken(error.message, remedy=error.remedy) from error
        except (Exception, SystemExit) as error:
            # A package can fail in any way while it is imported.
            raise self.broken(f"{type(error).__name__}: {error}") from error
        return found

    def broken(self, why: str, *, remedy: str = "") -> Unavailable:
        """The error that the part cannot be used."""
        return Unavailable(
            f"The {self.kind} {self.name!r} of the package {self.source} cannot be used:"
            f" {why.rstrip('.')}.",
            remedy=remedy or f"Fix {self.target}, or update or remove the package {self.package}.",
        )


def installed_parts(kind: PartKind) -> tuple[InstalledPart, ...]:
    """All parts of this kind, also those that cannot be used. Nothing of them is imported."""
    return tuple(part for part in _read(_search_path()) if part.kind == kind)


def find_part(kind: PartKind, name: str, ours: Collection[str]) -> InstalledPart | None:
    """The part of this name, or None. Raises Invalid if the name is taken."""
    found = [part for part in installed_parts(kind) if part.name == name]
    if not found:
        return None
    if (why := why_refused(found[0], ours)) is not None:
        raise Invalid(why, remedy=_uninstall(found))
    return found[0]


def why_refused(part: InstalledPart, ours: Collection[str]) -> str | None:
    """Why a part cannot have its name, or None if it can."""
    if part.name.casefold() in {name.casefold() for name in ours}:
        return (
            f"The package {part.source} provides a {part.kind} {part.name!r}, which is a name of"
            " Bullpen's own."
        )
    same = [other for other in installed_parts(part.kind) if other.name == part.name]
    if len(same) > 1:
        packages = " and ".join(other.source for other in same)
        return f"Several packages provide a {part.kind} {part.name!r}: {packages}."
    return None


def no_part(kind: PartKind, name: str, ours: Iterable[str]) -> Invalid:
    """The error about a name that neither Bullpen nor a package has."""
    known = list(dict.fromkeys([*ours, *(part.name for part in installed_parts(kind))]))
    near = difflib.get_close_matches(name, known, n=1, cutoff=_NEAR)
    guess = f" Did you mean {near[0]!r}?" if near else ""
    return Invalid(
        f"There is no {kind} {name!r}.{guess}", remedy=f"Choose one of these: {', '.join(known)}."
    )


def _uninstall(parts: Iterable[InstalledPart]) -> str:
    names = " or ".join(dict.fromkeys(part.package for part in parts))
    return f"Uninstall {names}, or rename its entry point."


def _search_path() -> tuple[tuple[str, int], ...]:
    """Where packages are installed, and when something there changed last."""
    found = []
    for folder in sys.path:
        try:
            found.append((folder, os.stat(folder or ".").st_mtime_ns))
        except OSError:
            continue
    return tuple(found)


@lru_cache(maxsize=1)
def _read(search_path: tuple[tuple[str, int], ...]) -> tuple[InstalledPart, ...]:
    # Not at the top: it costs as much as all that a short command imports of ours.
    distributions = load("importlib.metadata:distributions")
    found: dict[tuple[str, str, str], InstalledPart] = {}
    for distribution in distributions():
        for part in _of_distribution(distribution):
            # Of a package that is installed twice, Python imports the first one.
            found.setdefault((part.kind, part.name, part.package), part)
    return tuple(sorted(found.values()))


def _of_distribution(distribution: Any) -> Iterator[InstalledPart]:
    groups = {f"bullpen.{kind}s": kind for kind in KINDS}
    text = distribution.read_text("entry_points.txt") or ""
    if "bullpen." not in text:
        return
    for entry in distribution.entry_points:
        if (kind := groups.get(entry.group)) is not None:
            package, version = distribution.metadata["Name"], distribution.version
            yield InstalledPart(kind, entry.name, package, version, entry.value)
