"""The workers that run all cases, the seed at the head of every report, and a valid team."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import anyio
import pytest

from bullpen.store.files.store import FileStore
from bullpen.team.team import Team

from .budget import CASES, SEED, fast_folder, remove
from .home import LIMITS, TEAM, Sandbox
from .workers import Workers


def pytest_report_header() -> str:
    return f"fuzz: BULLPEN_FUZZ_SEED={SEED} BULLPEN_FUZZ_CASES={CASES}"


@pytest.fixture(scope="session")
def workers(request: pytest.FixtureRequest) -> Iterator[Workers]:
    """All parts that tests of this run ask for, begun at once."""
    parts: list[tuple[str, int]] = []
    for item in request.session.items:
        if isinstance(item, pytest.Function) and "workers" in item.fixturenames:
            kind, part = (item.callspec.params[name] for name in ("kind", "part"))
            assert isinstance(kind, str) and isinstance(part, int)
            parts.append((kind, part))
    workers = Workers(parts)
    yield workers
    workers.close()


@pytest.fixture(scope="session")
def shared() -> Iterator[Sandbox]:
    root = fast_folder()
    yield Sandbox(root)
    remove(root)


@pytest.fixture
def sandbox(shared: Sandbox) -> Sandbox:
    shared.restore()
    return shared


@pytest.fixture
async def store(sandbox: Sandbox) -> AsyncIterator[FileStore]:
    store = FileStore(sandbox.home, limits=LIMITS, fsync=False)
    with anyio.fail_after(20):
        yield store
    await store.aclose()


@pytest.fixture
def team(store: FileStore) -> Team:
    return Team(store, TEAM)
