"""The address under which a phone reaches the dashboard of a team."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from bullpen.agents.system import processes
from bullpen.app.config.public_address import checked_address
from bullpen.errors import BullpenError
from bullpen.protocol import json_text
from bullpen.protocol.agent import ProcessRecord
from bullpen.runs.reach.home_files import FOLDER, read_private, remove, write_private


@contextmanager
def served_at(home: Path, team: str, address: str | None) -> Iterator[None]:
    """Record, as long as it lasts, that this process serves a team at an address."""
    if address is None:
        yield
        return
    path = _path(home, team)
    place = processes.this_process("web", group=None)
    write_private(path, json_text.dumps_line({"url": address, "process": place.raw}))
    try:
        yield
    finally:
        with suppress(BullpenError):
            if _recorded(path) == (address, place.pid):
                remove(path)


def address_of(home: Path, team: str, setting: str | None) -> str | None:
    """Where a phone reaches a team now: where it is served, or else what the settings say."""
    with suppress(BullpenError):
        found = _recorded(_path(home, team))
        if found is not None:
            return found[0]
    return setting


def _recorded(path: Path) -> tuple[str, int | None] | None:
    """The recorded address and process, if that still runs."""
    data = read_private(path)
    if data is None:
        return None
    try:
        row = json_text.loads(data)
        place = ProcessRecord.parse(row["process"])
        address = checked_address(row["url"])
    except (ValueError, KeyError, TypeError):
        return None
    return (address, place.pid) if processes.runs(place) else None


def _path(home: Path, team: str) -> Path:
    return home / FOLDER / "web" / f"{quote(team, safe='')}.json"
