"""The drivers there are, what each declares that it can do, and which of them are installed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec

from bullpen.agents.drivers.base import Capabilities
from bullpen.agents.drivers.choice import DRIVERS, capabilities_of
from bullpen.agents.drivers.programs import PROGRAMS, check_libraries, found_at
from bullpen.errors import Unavailable

_OURS = {
    "native": "our own agent, on a model of Anthropic or OpenAI",
    "scripted": "a script, for tests and demos",
}


@dataclass(frozen=True, slots=True)
class Surveyed:
    """A driver. `missing` says what has to be installed first, and how; None if nothing has.

    What it can do is None where only a library that is missing could say it.
    """

    name: str
    title: str
    can: Capabilities | None
    command: tuple[str, ...] = ()
    # Where the program lies.
    path: str | None = None
    observed: str | None = None
    missing: str | None = None


def survey(environ: Mapping[str, str]) -> list[Surveyed]:
    """All drivers, as agents with this environment would find them."""
    return [_surveyed(name, environ) for name in DRIVERS]


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
    return Surveyed(
        name,
        program.title,
        can,
        command=program.command,
        path=path,
        observed=program.observed,
        missing=missing,
    )


def _check_installed(name: str) -> None:
    """Refuse a driver that lacks a library, without loading any. Raises Unavailable."""
    if name in PROGRAMS:
        check_libraries(name)
    elif name == "native" and find_spec("pydantic_ai") is None:
        raise Unavailable(
            "The native driver needs a model library.", remedy="Run: pip install 'bullpen[native]'"
        )
