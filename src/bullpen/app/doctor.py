"""The doctor: checks files and records, then agents, processes and panes."""

from __future__ import annotations

from contextlib import aclosing

from bullpen.app.app import open_app
from bullpen.app.package_parts import examine_parts
from bullpen.app.settings import Settings
from bullpen.app.stores import open_store
from bullpen.errors import BullpenError, Invalid, NotFound, Unavailable
from bullpen.store.contract import Finding, Store
from bullpen.store.private_folder import narrow, open_to_others
from bullpen.team.doctor import checkup


async def doctor(settings: Settings, team: str | None, fix: bool) -> list[Finding]:
    """Return all findings about one team or, with None, about all teams and this machine."""
    findings = [*_examine_home(settings), *await examine_records(settings, team, fix)]
    async with open_app(settings) as app:
        findings += await app.examine(team, fix=fix)
    return findings if team is not None else [*findings, *examine_parts()]


async def examine_records(settings: Settings, team: str | None, fix: bool) -> list[Finding]:
    """Check the files and records of one team or, with None, of all teams and the home.

    Files are repaired before records. A team that cannot be checked is a finding of its own.
    """
    async with aclosing(open_store(settings)) as store:
        if team is not None:
            return await _examined(store, team, fix=fix, by=settings.agent)
        findings = await store.checkup(None, fix=fix)
        for name in await store.teams():
            try:
                findings += await _examined(store, name, fix=fix, by=settings.agent)
            except NotFound:
                # Deleted since the names were read.
                continue
            except (Invalid, Unavailable) as error:
                findings.append(_unusable(name, error))
        return findings


def _examine_home(settings: Settings) -> list[Finding]:
    """Close the home to other users: it holds mail, transcripts and tokens."""
    mode = open_to_others(settings.home)
    if mode is None:
        return []
    closed = narrow(settings.home)
    could = "could" if closed else "can"
    return [
        Finding(
            "open_home",
            str(settings.home),
            f"other users of this machine {could} enter it (mode {mode:03o})",
            fixed=closed,
            action="closed to other users" if closed else f"chmod 700 {settings.home}",
        )
    ]


async def _examined(store: Store, team: str, *, fix: bool, by: str) -> list[Finding]:
    findings = await store.checkup(team, fix=fix)
    try:
        findings += await checkup(store, team, fix=fix, by=by)
    except Unavailable as error:
        findings.append(_unusable(team, error))
    return findings


def _unusable(team: str, error: BullpenError) -> Finding:
    return Finding("unusable", f"teams/{team}", error.message, action=error.remedy)
