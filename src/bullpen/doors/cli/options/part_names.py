"""Options that name a driver or a backend, of Bullpen or of another package."""

from __future__ import annotations

from collections.abc import Collection

import typer

from bullpen.agents.contracts.installed_parts import PartKind, find_part, installed_parts, no_part
from bullpen.doors.cli.options.option import Complete
from bullpen.errors import Invalid


def part_named(kind: PartKind, name: str, ours: Collection[str]) -> str:
    """The name, if there is such a part. Looks at packages only if it is not one of ours."""
    if name in ours:
        return name
    try:
        if find_part(kind, name, ours) is None:
            raise no_part(kind, name, ours)
    except Invalid as error:
        raise typer.BadParameter(
            f"{error.message} {error.remedy}", param_hint=f"'--{kind}'"
        ) from None
    return name


def part_names(kind: PartKind, ours: Collection[str]) -> Complete:
    """The names that a shell offers for such an option."""

    def names(context: typer.Context) -> list[tuple[str, str]]:
        found = [(name, "") for name in ours]
        return [*found, *((part.name, part.source) for part in installed_parts(kind))]

    return names
