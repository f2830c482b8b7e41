"""Teams move between files and NATS, there and back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from bullpen.errors import Refused
from bullpen.fleet.servers.server_process import Cluster
from bullpen.protocol.changes import PutTask
from bullpen.protocol.names import LEAD
from bullpen.store.contract import StoreLimits
from bullpen.store.files.store import FileStore
from bullpen.team.moving.move import move
from bullpen.team.team import Team
from bullpen.testing.restore_contract import boxes, live_through, texts
from bullpen.testing.sample_records import (
    assert_replay_is_live,
    config,
    message,
    next_task_id,
    put,
    task,
)
from support.store.nats_parts import empty_store, servers

LIMITS = StoreLimits(seen_kept=4)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with servers(1) as cluster:
        yield cluster


async def test_a_team_goes_from_files_to_nats_and_back_whole(
    cluster: Cluster, tmp_path: Path
) -> None:
    first, last = (FileStore(tmp_path / n, limits=LIMITS, fsync=False) for n in ("1", "2"))
    store = await empty_store(cluster, LIMITS)
    await first.create("alpha", config(later={"x": [1.5, None]}), actor=LEAD)
    inbox = tmp_path / "1" / "teams/alpha/inboxes/bob.json"
    row = {"from": "claude", "text": "of another program", "timestamp": "t", "read": False}
    inbox.write_text(json.dumps([row]), encoding="utf-8")
    await live_through(first)
    events, mail = await first.events("alpha"), await boxes(first, "alpha")
    next_id = await next_task_id(first)
    there = await move(first, store, "alpha", to=cluster.url, by=LEAD)
    assert await first.teams() == []
    assert texts((await store.events("alpha"))[: len(events)]) == texts(events)
    await Team(store, "alpha").tasks.add("Done there", by=LEAD)
    await assert_replay_is_live(store)
    back = await move(store, last, "alpha", to=f"files:{tmp_path / '2'}", by=LEAD)
    assert await store.teams() == []
    assert (there.messages, back.messages) == (sum(map(len, mail.values())),) * 2
    assert {key: set(box) for key, box in (await boxes(last, "alpha")).items()} == {
        key: set(box) for key, box in mail.items()
    }
    assert (await last.read("alpha")).tasks[str(next_id)].subject == "Done there"
    assert await next_task_id(last) == next_id + 1
    await assert_replay_is_live(last)
    await store.aclose()


async def test_a_team_that_was_moved_to_nats_is_closed_in_its_files(
    cluster: Cluster, tmp_path: Path
) -> None:
    first = FileStore(tmp_path, fsync=False)
    store = await empty_store(cluster, LIMITS)
    await first.create("alpha", config(), actor=LEAD)
    await move(first, store, "alpha", to=cluster.url, by=LEAD, keep=True)
    with pytest.raises(Refused, match="nats://"):
        await Team(first, "alpha").tasks.add("Too late", by=LEAD)
    await put(store, PutTask(task("1")))
    await store.append("alpha", "ann", message("m1"), actor=LEAD)
    await store.aclose()
