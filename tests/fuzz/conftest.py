"""The workers that run all cases, and the seed at the head of every report."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .budget import CASES, SEED
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
