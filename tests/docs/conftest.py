"""A fresh environment with the built wheel, and somebody who reads pages in it."""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from bullpen.agents.system import processes
from support.runs.reading import ROOT, Reader

GIVEN = "BULLPEN_FROM_WHEEL"
"""Names an environment with the wheel that is there already; nothing is built then."""

_NONCE = re.compile(r'"nonce": "([0-9a-f-]+)"')
_BUILD_S = 300


@pytest.fixture(scope="session")
def from_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel that was built of this tree, and all extras of the lock."""
    if given := os.environ.get(GIVEN):
        return Path(given).absolute()
    return _made_once(tmp_path_factory, "from-wheel", _install)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as strictly as the workflow that publishes it builds it."""
    return _made_once(tmp_path_factory, "site", _build_site)


def _made_once(
    factory: pytest.TempPathFactory, name: str, make: Callable[[Path, Path], None]
) -> Path:
    """A folder that the first worker of a run makes and all of them use."""
    folder = factory.getbasetemp()
    if "PYTEST_XDIST_TESTRUNUID" in os.environ:
        # All workers of a run have one.
        folder = folder.parent
    with (folder / f"{name}.lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        made, ready = folder / name, folder / f"{name}.is-ready"
        if not ready.exists():
            make(folder, made)
            ready.touch()
    return made


def _build_site(folder: Path, made: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(made)],
        cwd=ROOT, capture_output=True, text=True, timeout=_BUILD_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def _install(folder: Path, made: Path) -> None:
    # The one that tests run in must not be meant by anything here.
    env = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    listed, dist = folder / "requirements.txt", folder / "dist"
    python = str(made / "bin" / "python")

    def uv(*words: str) -> None:
        done = subprocess.run(
            ["uv", *words, "--quiet"], cwd=ROOT, env=env, capture_output=True, text=True,
            timeout=_BUILD_S,
        )  # fmt: skip
        assert done.returncode == 0, f"uv {' '.join(words)}: {done.stderr}"

    exact = ("--frozen", "--no-dev", "--all-extras", "--no-emit-project", "--no-hashes")
    uv("build", "--wheel", "--out-dir", str(dist), str(ROOT))
    uv("export", *exact, "--output-file", str(listed))
    uv("venv", "--python", sys.executable, str(made))
    uv("pip", "install", "--python", python, "--requirements", str(listed))
    uv("pip", "install", "--python", python, "--no-deps", *map(str, dist.glob("*.whl")))


@pytest.fixture
def newcomer(tmp_path: Path, from_wheel: Path) -> Iterator[Reader]:
    """A reader with a home and a tmux of their own; whatever they started is gone at the end."""
    # Short: the path of a socket has room for some 100 bytes.
    sockets = Path(tempfile.mkdtemp(prefix="bp-", dir="/tmp"))
    socket = f"docs-{secrets.token_hex(4)}"
    others = [
        part
        for part in os.environ["PATH"].split(os.pathsep)
        if part != str(Path(sys.executable).parent)
    ]
    env = {
        "PATH": os.pathsep.join([str(from_wheel / "bin"), *others]),
        "VIRTUAL_ENV": str(from_wheel),
        "HOME": str(tmp_path),
        "TMPDIR": str(tmp_path),
        "LANG": "C.UTF-8",
        "TMUX_TMPDIR": str(sockets),
        "BULLPEN_TMUX_SOCKET": socket,
    }
    try:
        yield Reader(tmp_path, env)
    finally:
        _end_agents(tmp_path)
        _end_hosts_and_servers(tmp_path)
        if shutil.which("tmux"):
            subprocess.run(
                ["tmux", "-L", socket, "kill-server"], env=env, capture_output=True, timeout=60
            )
        shutil.rmtree(sockets, ignore_errors=True)


def _end_agents(home: Path) -> None:
    """Kill what still runs for any team below this folder."""
    for config in home.rglob("teams/*/config.json"):
        for nonce in set(_NONCE.findall(config.read_text(encoding="utf-8"))):
            for pid in processes.carriers(nonce):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def _end_hosts_and_servers(home: Path) -> None:
    """Kill what a page started for the reader and, because it failed, did not end."""
    wanted = f"HOME={home}".encode()
    for environ in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if wanted in environ.read_bytes().split(b"\0"):
                os.kill(int(environ.parent.name), signal.SIGKILL)
