"""All drivers, with their capabilities and whether they are installed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from inspect import getdoc

from bullpen.agents.contracts.driver import Capabilities
from bullpen.agents.contracts.installed_parts import InstalledPart, installed_parts, why_refused
from bullpen.agents.drivers import native
from bullpen.agents.drivers.registry import DRIVERS, capabilities_of, factory_of
from bullpen.agents.system.vendors.programs import PROGRAMS, check_libraries, found_at
from bullpen.errors import BullpenError, Unavailable

_OURS = {
    "native": "Bullpen's own agent, on a model of any provider",
    "scripted": "a script, for tests and demos",
}


@dataclass(frozen=True, slots=True)
class Surveyed:
    """A driver. `missing` says what to install and how; None if everything is installed.

    Its capabilities are None if they are only known to a library that is missing.
    """

    name: str
    title: str
    can: Capabilities | None
    command: tuple[str, ...] = ()
    # The path of the program.
    path: str | None = None
    observed: str | None = None
    missing: str | None = None
    # The package that provides it, and why that cannot be used; None for Bullpen's own.
    package: InstalledPart | None = None
    broken: str | None = None


def survey(environ: Mapping[str, str]) -> list[Surveyed]:
    """The drivers that come with Bullpen, as agents in this environment would find them."""
    return [_surveyed(name, environ) for name in DRIVERS]


def survey_packages() -> list[Surveyed]:
    """The drivers of other packages, also broken ones. Imports each of them."""
    return [_of_package(part) for part in installed_parts("driver")]


def _of_package(part: InstalledPart) -> Surveyed:
    if (broken := why_refused(part, DRIVERS)) is not None:
        return Surveyed(part.name, part.source, None, package=part, broken=broken)
    try:
        factory = factory_of(part)
    except BullpenError as error:
        return Surveyed(part.name, part.source, None, package=part, broken=str(error))
    title = (getdoc(factory) or part.source).partition("\n")[0]
    return Surveyed(part.name, title, factory.capabilities, package=part)


def _surveyed(name: str, environ: Mapping[str, str]) -> Surveyed:
    can, missing = None, None
    try:
        can = capabilities_of(name)
        _check_installed(name)
    except Unavailable as error:
        missing = error.remedy
    if name not in PROGRAMS:
        return Surveyed(name, _OURS[name], can, missing=missing)
    program = PROGRAMS[name]
    path = found_at(program.command, environ.get("PATH"))
    if missing is None and program.command and path is None:
        missing = f"Install it: {program.install}"
    return Surveyed(name, program.title, can, program.command, path, program.observed, missing)


def _check_installed(name: str) -> None:
    """Check a driver's libraries without loading them. Raises Unavailable."""
    if name in PROGRAMS:
        check_libraries(name)
    elif name == "native":
        native.check_installed()
