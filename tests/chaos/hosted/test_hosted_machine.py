"""The same random operations through the socket and in memory, compared after every step."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import Phase, settings

from bullpen.store.contract import StoreLimits
from bullpen.store.files.store import FileStore
from bullpen.store.memory import MemoryStore
from bullpen.testing.store_machine import build_machine
from support.store.hosting import Served

pytestmark = pytest.mark.no_loss

LIMITS = StoreLimits(seen_kept=2)
EXAMPLES = int(os.environ.get("BULLPEN_MACHINE_EXAMPLES", "8"))
SETTINGS = settings(
    max_examples=EXAMPLES,
    stateful_step_count=30,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    print_blob=True,
)


class ShortLived(FileStore):
    """Removes its home when it is closed."""

    async def aclose(self) -> None:
        await super().aclose()
        shutil.rmtree(self.home)


def in_memory() -> MemoryStore:
    return MemoryStore(clock=lambda: 1_700_000_000_000, limits=LIMITS)


def on_files() -> FileStore:
    home = Path(tempfile.mkdtemp(prefix="bp-machine-"))
    return ShortLived(home, clock=lambda: 1_700_000_000_000, limits=LIMITS, fsync=False)


TestMemoryMachine = build_machine(lambda: Served(in_memory, LIMITS), in_memory).TestCase
TestMemoryMachine.settings = SETTINGS
TestFilesMachine = build_machine(lambda: Served(on_files, LIMITS), in_memory).TestCase
TestFilesMachine.settings = SETTINGS
