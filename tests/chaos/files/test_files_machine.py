"""The same random operations on files and in memory, compared after every step."""

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

pytestmark = pytest.mark.no_loss

LIMITS = StoreLimits(seen_kept=2)
EXAMPLES = int(os.environ.get("BULLPEN_MACHINE_EXAMPLES", "25"))


class ShortLived(FileStore):
    """Removes its home when it is closed."""

    async def aclose(self) -> None:
        await super().aclose()
        shutil.rmtree(self.home)


def on_files() -> FileStore:
    home = Path(tempfile.mkdtemp(prefix="bullpen-machine-"))
    return ShortLived(home, clock=lambda: 1_700_000_000_000, limits=LIMITS, fsync=False)


def in_memory() -> MemoryStore:
    return MemoryStore(clock=lambda: 1_700_000_000_000, limits=LIMITS)


TestMachine = build_machine(on_files, in_memory).TestCase
# 60 examples of up to 50 steps. Shrinking on files takes minutes: the seed is enough in CI.
TestMachine.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=50,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    print_blob=True,
)
