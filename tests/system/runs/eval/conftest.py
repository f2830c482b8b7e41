"""Evals in tests use no files of the person who runs them."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_config(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.mktemp("own")
    monkeypatch.setenv("BULLPEN_CONFIG", str(folder / "config.toml"))
    return folder
