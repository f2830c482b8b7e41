"""A log of few but long events is not read again by every new process that commits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bullpen.protocol.changes import PutTask
from bullpen.store.files.log import digests, event_log
from bullpen.store.files.store import FileStore
from bullpen.testing.sample_records import put, task
from support.store.peers import TEAM, assert_the_log_tells_all


async def test_a_new_process_reads_only_the_end_of_a_log_that_another_one_read(
    store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digests, "CHECKPOINT_BYTES", 20_000)
    await put(store, *(PutTask(task(str(number))) for number in range(1, 301)))
    starts: list[int] = []
    lines = event_log.lines_after

    def counted(path: str, start: int, stop: int) -> Any:
        starts.append(start)
        return lines(path, start, stop)

    monkeypatch.setattr(event_log, "lines_after", counted)
    for number in (1, 2):
        new = FileStore(Path(store.home))
        await put(new, PutTask(task(str(number), status="completed")))
        await new.aclose()
    first, second = starts
    assert (first, second > 20_000) == (0, True)
    await assert_the_log_tells_all(store)
    assert (await store.read(TEAM)).tasks["2"].status == "completed"
