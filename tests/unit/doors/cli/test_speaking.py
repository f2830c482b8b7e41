"""An agent never speaks as a person, however its programs hide where they come from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bullpen.agents.contracts.backend import NONCE
from bullpen.doors.cli import command

Free = Callable[..., str]


@pytest.fixture(autouse=True)
def calc(ok: Free, run: Callable[..., Any]) -> Iterator[None]:
    """A team; whatever runs in it is stopped at the end."""
    ok("team", "create", "calc")
    yield
    for team in ("calc", "other"):
        run("stop", "--all", "--grace", "1", "-t", team)


def test_the_mark_of_an_agent_is_the_same_everywhere() -> None:
    assert command._NONCE == NONCE
