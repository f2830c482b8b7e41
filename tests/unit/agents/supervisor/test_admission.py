"""One more agent starts when the machine has room for it, whoever starts it (R-9.10)."""

from __future__ import annotations

import sys

from bullpen.agents.system.footprint import memory


def test_the_memory_of_this_machine_can_be_told() -> None:
    found = memory()
    if sys.platform == "linux":
        assert found is not None
        assert 0 <= found[0] <= found[1]
