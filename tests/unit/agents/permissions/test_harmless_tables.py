"""Tables of harmless words: every entry can be read, and is read when it is asked for."""

from __future__ import annotations

import pytest

from bullpen.agents.permissions.shell.harmless import notation
from bullpen.agents.permissions.shell.harmless.judge import TABLE
from bullpen.agents.permissions.shell.harmless.notation import Harmless, Tables

TEXT = """
@quiet: -q --quiet
tool, other: @quiet -v
tool run: *any
tool run deep: any
"""


def test_every_entry_of_the_tables_can_be_read() -> None:
    assert len(TABLE) > 500
    assert all(isinstance(entry, Harmless) for entry in TABLE.values())


def test_an_entry_is_read_once_when_somebody_asks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    added: list[str] = []
    add = notation._add

    def noted(found: Harmless, token: str, groups: dict[str, list[str]]) -> None:
        added.append(token)
        add(found, token, groups)

    monkeypatch.setattr(notation, "_add", noted)
    table = Tables(TEXT)
    assert "tool" in table
    assert added == []
    assert table["tool"].longs == {"quiet": None}
    assert table["tool"] is table["tool"]
    assert added == ["@quiet", "-q", "--quiet", "-v"]


def test_a_group_of_words_is_no_program() -> None:
    table = Tables(TEXT)
    assert [*table] == ["tool", "other", "tool run", "tool run deep"]
    assert "@quiet" not in table
    assert table.get("@quiet") is None
    assert table.with_subcommands == {"tool"}
    assert table.groups == {"tool run"}
