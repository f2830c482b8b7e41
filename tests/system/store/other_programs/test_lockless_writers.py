"""Programs that write a team's files without any lock: merged or reported, never overwritten."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

from bullpen.errors import Unreadable
from bullpen.protocol.changes import (
    PutTask,
)
from bullpen.store.files.store import FileStore
from bullpen.testing.sample_records import put, task
from support.store.peers import TEAM, Files, assert_the_log_tells_all


class InPlaceWriter(threading.Thread):
    """Truncates a file and writes it, again and again, in turns shorter and longer."""

    def __init__(self, path: Path, texts: list[str], times: int) -> None:
        super().__init__(daemon=True)
        self._path, self._texts, self._times = path, texts, times

    def run(self) -> None:
        for number in range(self._times):
            self._path.write_text(self._texts[number % len(self._texts)], encoding="utf-8")
            time.sleep(0.0003)


async def test_a_task_that_is_written_in_place_all_the_while_is_never_missing(
    store: FileStore, files: Files
) -> None:
    await put(store, PutTask(task("1")), PutTask(task("2")))
    records = [task("1", description="word " * number).raw for number in (1, 3_000)]
    writer = InPlaceWriter(files.task("1"), [json.dumps(raw, indent=2) for raw in records], 2_000)
    whole = unclear = 0
    writer.start()
    while writer.is_alive():
        state = await store.read(TEAM)
        assert "2" in state.tasks
        if "1" in state.tasks:
            assert state.tasks["1"].raw in [*records, task("1").raw]
            assert state.problems == ()
            whole += 1
        else:
            assert [problem.where for problem in state.problems] == [str(files.task("1"))]
            unclear += 1
    assert whole > 20
    assert unclear <= whole
    await assert_the_log_tells_all(store)


async def test_a_config_that_is_written_in_place_all_the_while_is_never_missing(
    store: FileStore, files: Files
) -> None:
    raw = files.read(files.config)
    texts = [json.dumps({**raw, "description": "d" * n}, indent=2) for n in (1, 9_000)]
    writer = InPlaceWriter(files.config, texts, 2_000)
    whole = 0
    writer.start()
    while writer.is_alive():
        try:
            found = await store.config(TEAM)
        except Unreadable as error:
            assert error.path == str(files.config)
        else:
            assert len(found.roster) == 3
            whole += 1
    assert whole > 20
