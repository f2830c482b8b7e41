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


def fake(path: Path, says: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{says}'\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def test_the_one_of_the_wheel_is_found_without_a_path() -> None:
    assert find_binary({"PATH": ""}) == Path(sys.executable).parent / "nats-server"


def test_the_one_that_is_named_wins(tmp_path: Path) -> None:
    named = fake(tmp_path / "mine", "nats-server: v2.16.3")
    assert find_binary({server_binary.VARIABLE: str(named)}) == named


def test_the_path_is_the_last_place_to_look(tmp_path: Path, no_wheel: None) -> None:
    found = fake(tmp_path / "bin" / "nats-server", "nats-server: v2.15.0")
    assert find_binary({"PATH": str(found.parent)}) == found


@pytest.mark.parametrize("version", ["2.14.6", "2.9.10", "1.4.1"])
def test_an_older_one_is_refused_by_name(tmp_path: Path, version: str) -> None:
    old = fake(tmp_path / "nats-server", f"nats-server: v{version}")
    with pytest.raises(Unavailable, match=version) as caught:
        find_binary({server_binary.VARIABLE: str(old)})
    assert str(old) in caught.value.message


def test_a_program_that_is_something_else_is_refused(tmp_path: Path) -> None:
    other = fake(tmp_path / "nats-server", "hello")
    with pytest.raises(Unavailable, match="does not report its version"):
        find_binary({server_binary.VARIABLE: str(other)})
