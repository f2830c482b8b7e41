"""tmux servers of our own, which are gone when their test is over."""

from __future__ import annotations

import os
import secrets
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

Server = Callable[..., str]
"""Runs a tmux command on a server of the test, and returns what it prints."""


@pytest.fixture
def tmux_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the sockets of this test lie, and nobody else's."""
    # Short: the path of a socket has room for some 100 bytes.
    folder = Path("/tmp", f"bp-{secrets.token_hex(4)}")
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("TMUX_TMPDIR", str(folder))
    return folder


@pytest.fixture
def tmux_server(tmux_folder: Path) -> Iterator[Callable[[str], Server]]:
    """Makes the command of a server from the name of its socket; ends every server afterwards."""

    def server(socket: str) -> Server:
        def run(*words: str, **env: str) -> str:
            done = subprocess.run(
                ["tmux", "-u", "-L", socket, "-f", "/dev/null", *words],
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
                cwd="/",
                env={"PATH": os.environ["PATH"], "TMUX_TMPDIR": str(tmux_folder), **env},
            )
            assert done.returncode == 0, done.stderr
            return done.stdout.rstrip("\n")

        return run

    yield server
    for socket in sorted(tmux_folder.glob("tmux-*/*")):
        subprocess.run(
            ["tmux", "-S", str(socket), "kill-server"], capture_output=True, timeout=60, check=False
        )
        socket.unlink(missing_ok=True)
    for folder in [*tmux_folder.glob("tmux-*"), tmux_folder]:
        folder.rmdir()


@pytest.fixture
def tmux_socket(tmux_server: Callable[[str], Server]) -> str:
    """The name of a server's socket."""
    return "bullpen"
