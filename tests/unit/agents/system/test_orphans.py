"""The process table is not read while no child has ended."""

from __future__ import annotations

import pytest

from bullpen.agents.system import orphans, process_table


def test_without_ended_children_the_process_table_is_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(orphans, "_has_ended_children", lambda: False)
    monkeypatch.setattr(process_table, "table", lambda: pytest.fail("it was read"))
    assert orphans.reap_ended({(1, "1")}) == set()
