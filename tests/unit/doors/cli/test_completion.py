"""What a shell is offered while somebody types."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from bullpen.doors.cli.options import completion
from support.asking import ask, hire


def typing(**options: str) -> Any:
    """A command line with these common options."""
    return SimpleNamespace(params=options, parent=None)


def test_the_requests_that_wait_are_offered_with_who_asks(
    ok: Callable[..., str], home: Path
) -> None:
    ok("team", "create", "calc")
    hire(home, "alice")
    request = ask(home, "alice", given={"command": "git push"})
    assert completion.request_ids(typing()) == [(request.id[-4:], "alice")]
    assert completion.request_ids(typing(common_team="other")) == []
