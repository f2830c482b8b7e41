"""Restoring a team, and what it must be equal to."""

from __future__ import annotations

from pathlib import Path

from bullpen.store.contract import Store, StoreLimits
from bullpen.store.files.store import FileStore
from bullpen.team.moving import fingerprint
from bullpen.testing.restore_contract import texts
from bullpen.testing.sample_records import next_task_id

LIMITS = StoreLimits(seen_kept=4)


def on_files(home: Path) -> FileStore:
    return FileStore(home, clock=lambda: 1_700_000_000_000, limits=LIMITS, fsync=False)


async def assert_equal(here: Store, there: Store, team: str) -> None:
    """Both stores show the same of a team."""
    ours, theirs = await here.events(team), await there.events(team)
    assert texts(theirs) == texts(ours)
    source = await fingerprint.take(here, team, ours)
    copy = await fingerprint.take(there, team, theirs)
    assert fingerprint.difference(source, copy) is None
    assert source == copy
    assert await next_task_id(there, team) == await next_task_id(here, team)
