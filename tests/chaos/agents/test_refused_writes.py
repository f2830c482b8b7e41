"""Each write of a team of three fails, on files and on NATS: nothing is lost or done twice.

CI plays some of the writes. All of them, about 170 a store:

    BULLPEN_NIGHTLY=1 uv run pytest tests/chaos/agents/test_refused_writes.py
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from bullpen.agents.runner.pace import Pace
from bullpen.fleet.servers.server_process import Cluster
from bullpen.protocol.clock import now_ms
from bullpen.store.contract import Store, StoreLimits
from bullpen.store.files.store import FileStore
from support.agents.refusing_store import Fault, Write, of_agents, played
from support.store.nats_parts import empty_store, servers

pytestmark = pytest.mark.no_loss

ONE_IN = 1 if os.environ.get("BULLPEN_NIGHTLY") else 7
AT_ONCE = 6
AWAY_S = 1.0
PACE = Pace(beat_s=2.0, gather_s=0.3, retry_s=0.3, reply_s=5.0, place_look_s=2.0)


@pytest.fixture(scope="module")
def server() -> Iterator[Cluster]:
    with servers(1) as cluster:
        yield cluster


async def opened(kind: str, folder: Path, server: Cluster) -> Store:
    if kind == "files":
        return FileStore(folder / "home", fsync=False)
    return await empty_store(server, StoreLimits())


@pytest.mark.parametrize("fault", ["once", "away", "lost"])
@pytest.mark.parametrize("kind", ["files", "nats"])
async def test_whichever_write_fails_reports_states_and_mail_are_right(
    tmp_path: Path, server: Cluster, kind: str, fault: Fault
) -> None:
    store = await opened(kind, tmp_path, server)
    found: dict[Write, list[str]] = {}
    struck: list[bool] = []
    at_once = anyio.CapacityLimiter(AT_ONCE)

    async def play(name: str, write: Write | None) -> list[Write]:
        folder = tmp_path / name
        folder.mkdir()
        async with at_once:
            made = await played(
                store,
                folder,
                clock=now_ms,
                pace=PACE,
                away_s=AWAY_S,
                write=write,
                fault=fault,
                name=name,
            )
        if made.wrong:
            found[write or ("", "", 0)] = made.wrong
        struck.append(made.struck)
        return made.writes

    try:
        writes = of_agents(await play("sound", None))
        # Heartbeats depend on the time; one of each agent stands for all.
        writes = [write for write in writes if write[1] != "beat" or write[2] == 2]
        chosen = writes[sum(map(ord, fault)) % ONE_IN :: ONE_IN]
        async with anyio.create_task_group() as group:
            for number, write in enumerate(chosen):
                group.start_soon(play, f"case-{number}", write)
    finally:
        await store.aclose()
    print(f"{sum(struck)} of {len(writes)} writes on {kind}, {fault}")
    assert found == {}
    # Two reasons for a turn may become one turn, so a write may not come.
    assert sum(struck) >= len(chosen) / 2
