"""Finds the forge whose pull request is meant, and its token.

A team file counts only if the person names it. The one in a clone may be from the author of the
pull request, and it says where a token is sent and which variable it is in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bullpen.errors import Invalid
from bullpen.protocol.forge import ForgeSettings
from bullpen.runs.forge.place import check_api, place_of
from bullpen.runs.forge.remote import remote_page
from bullpen.runs.teamfile.read import read_team_file
from bullpen.runs.teamfile.team_records import forge_settings

KINDS = ("github", "gitea")


@dataclass(frozen=True, slots=True)
class NamedForge:
    """What a person says about the forge: its page, its kind and its API, or a team file."""

    url: str | None = None
    kind: str | None = None
    api: str | None = None
    file: str | None = None


def forge_meant(named: NamedForge, cwd: Path) -> ForgeSettings:
    """Return the forge that is named, or the one that a clone came from.

    Raises:
        Invalid: none is named and the clone has no such remote, or what is named is no forge.
    """
    if named.file is not None:
        if named.url is not None:
            raise Invalid("Pass --url or --file, not both.", remedy="Remove one of them.")
        path = Path(cwd, named.file)
        found = forge_settings(read_team_file(path))
        if found is None:
            raise Invalid(
                f"{path} has no table [forge].", remedy="Name the repository with --url instead."
            )
        settings = found
    else:
        page = named.url or remote_page(cwd)
        if page is None:
            raise Invalid(
                f"{cwd} is no clone of a repository on a forge.",
                remedy="Name the repository: --url https://github.com/OWNER/REPOSITORY, or a team"
                " file: --file TEAM.toml",
            )
        place = place_of(page)
        guess = "github" if place.host == "github.com" else "gitea"
        settings = ForgeSettings.new(repository=place.url, kind=guess)
    if named.kind is not None and named.kind not in KINDS:
        raise Invalid(
            f"{named.kind!r} is not a valid --kind value.", remedy=f"Use {' or '.join(KINDS)}."
        )
    changes: Mapping[str, str] = {
        **({} if named.kind is None else {"kind": named.kind}),
        **({} if named.api is None else {"api": check_api(named.api)}),
    }
    return settings.evolve(**changes)
