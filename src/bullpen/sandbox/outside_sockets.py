"""Close the sockets of outside programs in a sandbox: tmux, ssh agents, D-Bus, containers.

The directories of most are not visible. These are the sockets that still are: in a directory that a
variable names, and those that listen in a visible directory now.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from bullpen.sandbox.mounts import Mount, is_inside, mount

WARM_PARENTS = f"/tmp/bullpen-warm-{os.getuid()}"  # noqa: S108 - made and checked as ours
"""The directory with the sockets of processes that start agents, which are outside of sandboxes."""

_DIRECTORIES = ("TMPDIR", "TMUX_TMPDIR", "XDG_RUNTIME_DIR")
_SOCKETS = ("SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS", "DOCKER_HOST", "CONTAINER_HOST", "TMUX")

_DROPPED = (
    *("TMUX_TMPDIR", "XDG_RUNTIME_DIR", *_SOCKETS, "TMUX_PANE", "GPG_AGENT_INFO", "DISPLAY"),
    *("WAYLAND_DISPLAY", "BULLPEN_TMUX_SOCKET", "BULLPEN_TMUX_SESSION"),
)


def without_sockets(env: Mapping[str, str]) -> dict[str, str]:
    """An environment without the variables that lead to sockets of outside programs."""
    return {name: value for name, value in env.items() if name not in _DROPPED}


def socket_places(env: Mapping[str, str]) -> list[str]:
    """The directories in which the variables of an environment name sockets."""
    named = [env.get(name, "") for name in _DIRECTORIES]
    for name in _SOCKETS:
        # A path, or an address such as unix:path=/run/bus,guid=1.
        path = env.get(name, "").partition("=" if name.startswith("DBUS") else "unix://")[2]
        path = (path or env.get(name, "")).split(",")[0]
        named.append(os.path.dirname(path) if os.path.isabs(path) else "")
    real = (os.path.realpath(path) for path in named if os.path.isabs(path))
    return [path for path in dict.fromkeys(real) if path != "/" and os.path.isdir(path)]


def socket_mounts(
    env: Mapping[str, str], writable: Sequence[str], visible: Sequence[str]
) -> Iterator[Mount]:
    """Hide the directories and sockets. A directory that the agent works in stays visible."""
    for path in socket_places(env):
        if not any(is_inside(path, root) for root in writable):
            yield mount(path, 1, "--tmpfs", path)
    # One that starts later is hidden too.
    if any(is_inside(WARM_PARENTS, root) for root in (*writable, *visible)):
        # It has to exist before the mount, or it would be made with the wrong rights.
        with suppress(OSError):
            os.mkdir(WARM_PARENTS, 0o700)
        yield mount(WARM_PARENTS, 4, "--tmpfs", WARM_PARENTS)
    for path in _listening():
        if any(is_inside(path, root) for root in (*writable, *visible)):
            yield mount(path, 5, "--ro-bind", os.devnull, path)


def _listening() -> Iterator[str]:
    """The paths of sockets on this machine that exist now."""
    try:
        with open("/proc/net/unix", encoding="utf-8", errors="surrogateescape") as file:
            rows = [line.rstrip("\n").split(None, 7) for line in file]
    except OSError:
        return
    for path in dict.fromkeys(row[7] for row in rows if len(row) == 8):
        # A link in its place could lead elsewhere.
        if os.path.isabs(path) and os.path.realpath(path) == path and os.path.exists(path):
            yield path
