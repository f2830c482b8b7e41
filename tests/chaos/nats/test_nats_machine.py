"""The same random operations on NATS and in memory, and on NATS and files, step by step."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from bullpen.fleet.servers.server_process import Cluster
from bullpen.store.contract import Store, StoreLimits
from bullpen.store.files.store import FileStore
from bullpen.store.memory import MemoryStore
from bullpen.store.nats.store import NatsStore
from bullpen.testing.store_machine import build_machine
from support.store.nats_parts import empty, endpoint_of, servers

pytestmark = pytest.mark.no_loss

LIMITS = StoreLimits(seen_kept=2)
EXAMPLES = int(os.environ.get("BULLPEN_MACHINE_EXAMPLES", "8"))


def clock() -> int:
    return 1_700_000_000_000


class Emptied(NatsStore):
    """Leaves no teams for the next example."""

    async def aclose(self) -> None:
        await empty(await self.link.client())
        await super().aclose()


class ShortLived(FileStore):
    """Removes its home when it is closed."""

    async def aclose(self) -> None:
        await super().aclose()
        shutil.rmtree(self.home)


def on_nats(cluster: Cluster) -> Callable[[], Store]:
    # Snapshots all the time, and texts of messages from the history.
    return lambda: Emptied(endpoint_of(cluster), clock=clock, limits=LIMITS, events_kept=4)


def in_memory() -> Store:
    return MemoryStore(clock=clock, limits=LIMITS)


def on_files() -> Store:
    home = Path(tempfile.mkdtemp(prefix="bullpen-machine-"))
    return ShortLived(home, clock=clock, limits=LIMITS, fsync=False)


def compare(one: Callable[[], Store], other: Callable[[], Store], examples: int) -> None:
    run_state_machine_as_test(
        build_machine(one, other),
        settings=settings(
            max_examples=examples,
            stateful_step_count=50,
            deadline=None,
            phases=[Phase.explicit, Phase.reuse, Phase.generate],
            print_blob=True,
        ),
    )


def test_one_server_does_what_memory_does() -> None:
    with servers(1) as cluster:
        compare(on_nats(cluster), in_memory, EXAMPLES)


def test_three_servers_do_what_memory_does() -> None:
    with servers(3) as cluster:
        compare(on_nats(cluster), in_memory, EXAMPLES)


def test_one_server_does_what_files_do() -> None:
    with servers(1) as cluster:
        compare(on_nats(cluster), on_files, EXAMPLES)
