"""The sandbox of Bullpen's own git: nothing is writable but what the caller names.

Git is told not to run any program that a repository names. This is for a program that was
forgotten: it finds no network, no socket, and no file that it can write.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import NamedTuple

from bullpen.sandbox.mounts import is_inside
from bullpen.sandbox.syscall_filter import syscall_filter

_CHECK_S = 20.0
_RUN = "/run"
_PLACES = "/usr/bin:/bin:/usr/local/bin"
"""Looked at first: no agent can write there, unlike in some entries of a PATH."""

_BASE = (
    *("--unshare-user-try", "--unshare-ipc", "--unshare-pid", "--unshare-uts"),
    *("--unshare-cgroup-try", "--cap-drop", "ALL", "--ro-bind", "/", "/", "--dev", "/dev"),
    *("--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys"),
)


class Box(NamedTuple):
    """A command in a sandbox, and the descriptors that it has to inherit."""

    argv: list[str]
    inherit: tuple[int, ...]


@contextmanager
def git_box(
    argv: Sequence[str],
    *,
    where: str,
    env: Mapping[str, str],
    write: Sequence[str] = (),
    keep: Sequence[str] = (),
    network: bool = False,
) -> Iterator[Box | None]:
    """Yield the command that runs git in a sandbox; None if this machine has no sandbox.

    `write` is writable, except what `keep` names below it. With a network there are sockets too,
    for the user's ssh agent. It does not end with its parent: git must not be cut off half-way in a
    repository.
    """
    program = _program(env.get("PATH", ""))
    if program is None:
        yield None
        return
    words = [program, *_BASE]
    shown = [os.path.realpath(path) for path in (where, *write)]
    if not network and not any(is_inside(path, _RUN) for path in shown):
        words += ["--tmpfs", _RUN]
    for path in dict.fromkeys(shown[1:]):
        words += ["--bind", path, path]
    for path in keep:
        if os.path.lexists(path) and not os.path.islink(path):
            words += ["--ro-bind", path, path]
    rest = ["--chdir", where, "--", *argv]
    # A read-only mount does not stop a program from talking to a socket.
    code = None if network else syscall_filter(platform.machine(), families=())
    if code is None:
        yield Box([*words, *([] if network else ["--unshare-net"]), *rest], ())
        return
    # Bubblewrap reads the filter from a descriptor.
    filter_fd = os.memfd_create("no-sockets")
    try:
        os.write(filter_fd, code)
        os.lseek(filter_fd, 0, os.SEEK_SET)
        seccomp = ["--unshare-net", "--seccomp", str(filter_fd)]
        yield Box([*words, *seccomp, *rest], (filter_fd,))
    finally:
        os.close(filter_fd)


@lru_cache(maxsize=4)
def _program(path: str) -> str | None:
    """Return the path of a bubblewrap that works here."""
    found = shutil.which("bwrap", path=_PLACES) or shutil.which("bwrap", path=path)
    if found is None:
        return None
    try:
        done = subprocess.run(  # noqa: S603 - no shell, our own words
            [found, *_BASE, "--unshare-net", "--tmpfs", _RUN, "--", "/bin/sh", "-c", ":"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_CHECK_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return found if done.returncode == 0 else None
