"""Opens what the settings name: the store and its teams."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from bullpen.app.settings import TEAM, Settings, home_path, place_of, settings_for
from bullpen.by_name import load
from bullpen.errors import BullpenError, NotFound, Refused
from bullpen.protocol.clock import Clock, now_ms
from bullpen.protocol.names import LEAD
from bullpen.store.contract import Store
from bullpen.store.files.store import FileStore
from bullpen.team.lookup import listed
from bullpen.team.operation.commit import NewId, new_id
from bullpen.team.team import Teams

FILES = "files:"
SCHEMES = ("files", "host", "nats", "tls")
"""How the URLs of the stores begin that come with Bullpen."""

_LOOKED_AT_MAX = 200


def open_teams(
    settings: Settings | None = None,
    *,
    home: str | Path | None = None,
    clock: Clock = now_ms,
    new_id: NewId = new_id,
) -> Teams:
    """Open the teams of a home. Nothing is read yet; close them when you are done.

    Without a home or settings, it is the home that the command line would use.
    """
    store = open_store(settings or settings_for(home))
    return Teams(store, clock=clock, new_id=new_id)


def open_teams_near(settings: Settings) -> Teams:
    """Open the teams for one short command: through the host of this machine, if it serves them.

    A process that stays would depend on the life of the host.
    """
    near: Store | None = None
    if is_nats(settings.store):
        near = load("bullpen.app.nearby_host:through_host")(settings.store, settings)
    return open_teams(settings) if near is None else Teams(near)


def open_store(settings: Settings) -> Store:
    """Open the store of the settings. Nothing is read or connected yet; close it when done.

    Raises:
        Invalid: the settings do not name a store.
        Unavailable: a library for it is not installed.
    """
    return open_store_at(settings.store or f"{FILES}{settings.home}", settings)


def open_store_at(url: str, settings: Settings) -> Store:
    """Open a store by its URL, with the credentials for it. Raises as `open_store`."""
    if url.startswith(FILES) and url != FILES:
        return FileStore(home_path(url.removeprefix(FILES), {}))
    opened: Store = load("bullpen.app.remote_stores:open_remote")(url, settings)
    return opened


def is_nats(url: str | None) -> bool:
    """Return whether a store is on NATS servers."""
    return (url or "").startswith(("nats://", "tls://"))


async def resolve_team(
    teams: Teams,
    settings: Settings,
    *,
    here: str | None = None,
    guessed: Callable[[str, str], None] = lambda _team, _folder: None,
) -> str:
    """Return the team that was named, the only one, or the latest one that works `here`.

    `guessed` is told if the directory decided among several teams.

    Raises:
        NotFound: none was named and there is none.
        Refused: none was named and there are several (several_teams).
    """
    if settings.team is not None:
        return settings.team
    names = await teams.names()
    if not names:
        raise NotFound(
            f"There is no team in {place_of(settings)}.",
            remedy="Create one: bullpen team create NAME",
        )
    if len(names) > 1:
        found = None if here is None else await _latest_here(teams, names, here)
        if found is not None:
            guessed(*found)
            return found[0]
        raise Refused(
            f"{place_of(settings)} has several teams: {listed(names)}.",
            reason="several_teams",
            remedy=f"Choose one with --team NAME, or set {TEAM}.",
        )
    return names[0]


async def _latest_here(teams: Teams, names: Sequence[str], here: str) -> tuple[str, str] | None:
    """Return the team that was created last for a directory, and that directory.

    Without one, those for the directories above it count, the nearest first.
    """
    made: list[tuple[int, float, str, str]] = []
    for name in names[:_LOOKED_AT_MAX]:
        try:
            config = await teams.open(name).agents.config()
        except BullpenError:
            # Another one may be meant: whoever names this one is told what is wrong with it.
            continue
        lead = config.member(LEAD)
        folder = None if lead is None else lead.cwd
        if not folder or folder == os.sep:
            continue
        if here == folder or here.startswith(folder.rstrip(os.sep) + os.sep):
            made.append((len(folder), float(config.created_at or 0), name, folder))
    if not made:
        return None
    *_, name, folder = max(made)
    return name, folder
