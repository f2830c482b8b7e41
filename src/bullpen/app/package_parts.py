"""Check the drivers, backends, stores and tools that other packages provide."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from bullpen.agents.backends.available import BACKENDS, backend_of
from bullpen.agents.contracts.installed_parts import (
    KINDS,
    InstalledPart,
    PartKind,
    installed_parts,
    why_refused,
)
from bullpen.agents.drivers.registry import DRIVERS, factory_of
from bullpen.agents.permissions.package_tools import tool_from
from bullpen.agents.permissions.rule_language.package_names import NOT_FOR_PACKAGES
from bullpen.app.stores import SCHEMES
from bullpen.errors import BullpenError
from bullpen.store.contract import Finding

_OURS: dict[PartKind, Collection[str]] = {
    "driver": DRIVERS,
    "backend": BACKENDS,
    "store": SCHEMES,
    "tool": NOT_FOR_PACKAGES,
}
_LOAD: dict[PartKind, Callable[[InstalledPart], object]] = {
    "driver": factory_of,
    "backend": backend_of,
    # Opening one needs its URL.
    "store": InstalledPart.load,
    "tool": tool_from,
}


@dataclass(frozen=True, slots=True)
class CheckedPart:
    """A part of a package. `broken` says why it cannot be used; None if it can."""

    part: InstalledPart
    broken: str | None
    remedy: str = ""


def checked_parts(*kinds: PartKind) -> list[CheckedPart]:
    """The parts of these kinds, or of all. Imports each of them; none of them can fail this."""
    return [_checked(part) for kind in kinds or KINDS for part in installed_parts(kind)]


def _checked(part: InstalledPart) -> CheckedPart:
    refused = why_refused(part, _OURS[part.kind])
    if refused is not None:
        return CheckedPart(part, refused, f"Uninstall {part.package}, or rename its entry point.")
    try:
        _LOAD[part.kind](part)
    except BullpenError as error:
        return CheckedPart(part, error.message, error.remedy)
    return CheckedPart(part, None)


def examine_parts() -> list[Finding]:
    """Find the parts of packages that cannot be used."""
    return [
        Finding("broken_package", each.part.source, each.broken, action=each.remedy)
        for each in checked_parts()
        if each.broken is not None
    ]
