"""The other program: node with proper-lockfile, installed once outside of this tree."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bullpen.protocol.names import LEAD
from bullpen.store.contract import StoreLimits
from bullpen.store.files.store import FileStore
from bullpen.testing.sample_records import config

from .peers import TEAM, Files

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def node_modules() -> Path:
    """The folder that `NODE_PATH` names. Without node the test is skipped, but never in CI."""
    if not (shutil.which("node") and shutil.which("npm")):
        if os.environ.get("CI"):
            pytest.fail("node and npm are not installed, and CI must run these tests")
        pytest.skip("node and npm are not installed")
    manifest = HERE / "package.json"
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bullpen-tests"
    home = cache / hashlib.sha256(manifest.read_bytes()).hexdigest()[:16]
    if not home.is_dir():
        building = cache / f"{home.name}.{os.getpid()}"
        building.mkdir(parents=True)
        shutil.copy(manifest, building)
        install = ["npm", "install", "--no-audit", "--no-fund"]
        done = subprocess.run(install, cwd=building, capture_output=True, text=True, timeout=120)
        if done.returncode:
            shutil.rmtree(building)
            pytest.fail(f"npm install failed:\n{done.stderr}")
        try:
            building.rename(home)
        except OSError:  # Another run was faster.
            shutil.rmtree(building)
    return home / "node_modules"


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[FileStore]:
    """A team named alpha with a lead, ann and bob."""
    store = FileStore(tmp_path, fsync=False, limits=StoreLimits(lock_wait_s=5.0))
    await store.create(TEAM, config(TEAM), actor=LEAD)
    yield store
    await store.aclose()


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """The same team, as another program sees it."""
    return Files(tmp_path)
