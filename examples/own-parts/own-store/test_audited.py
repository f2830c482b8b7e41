"""The store keeps the contract of stores, and lists every change."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from bullpen_audited import LIST, AuditedStore, open_audited

from bullpen import open_teams
from bullpen.errors import Invalid
from bullpen.store.contract import Store
from bullpen.testing.store_contract import StoreContract


class TestAudited(StoreContract):
    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[Store]:
        store = AuditedStore(tmp_path / "teams", limits=self.limits, fsync=False)
        yield store
        await store.aclose()


async def test_every_change_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BULLPEN_STORE", f"audited:{tmp_path}")
    teams = open_teams()
    await teams.create("shop", by="team-lead")
    await teams.open("shop").tasks.add("Write the page", by="team-lead")
    await teams.aclose()
    rows = [json.loads(line) for line in (tmp_path / LIST).read_text("utf-8").splitlines()]
    assert [(row["team"], row["by"], row["op"]) for row in rows][-1][:2] == ("shop", "team-lead")


def test_a_relative_path_is_refused() -> None:
    with pytest.raises(Invalid, match="no absolute path"):
        open_audited("audited:teams")
