"""Each write of a team of three fails once: nothing is lost, nothing is done twice.

Most runs let one write in five fail. All of them:

    BULLPEN_NIGHTLY=1 uv run pytest tests/unit/agents/runner/test_refused_writes.py
"""

from __future__ import annotations

import os
from pathlib import Path
from zlib import crc32

import pytest

from bullpen.agents.runner.pace import Pace
from bullpen.store.memory import MemoryStore
from support.agents.refusing_store import Fault, Played, Write, of_agents, played
from support.crews import simulate, simulated_ms

PACE = Pace(beat_s=60.0, beat_ttl_s=150.0)
AWAY_S = 30.0
ONE_IN = 1 if os.environ.get("BULLPEN_NIGHTLY") else 5


def in_memory(folder: Path, write: Write | None, fault: Fault) -> Played:
    folder.mkdir()
    return simulate(
        lambda: played(
            MemoryStore(clock=simulated_ms),
            folder,
            clock=simulated_ms,
            pace=PACE,
            away_s=AWAY_S,
            write=write,
            fault=fault,
        )
    )


@pytest.mark.parametrize("fault", ["once", "away", "lost"])
def test_whichever_write_fails_reports_states_and_mail_are_right(
    tmp_path: Path, fault: Fault
) -> None:
    sound = in_memory(tmp_path / "sound", None, fault)
    assert sound.wrong == []
    found = {}
    # Chosen by what it is: the others stay the same when a write comes or goes.
    mine = [
        write
        for write in of_agents(sound.writes)
        if crc32(repr((fault, write)).encode()) % ONE_IN == 0
    ]
    for number, write in enumerate(mine):
        made = in_memory(tmp_path / str(number), write, fault)
        if made.wrong or not made.struck:
            found[write] = made.wrong
    print(f"{len(mine)} writes")
    assert len({write[0] for write in mine}) > 1
    assert found == {}
