"""The sandbox: build the bubblewrap command that limits what a program can reach.

Inside, only the system's directories and the agent's are visible, and only the agent's are
writable. Homes, teams and outside processes and sockets are not visible, and the network is a list
of hosts. Everything in the sandbox ends with bubblewrap, which is the first process of its own pid
namespace.
"""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter

from bullpen.errors import Unavailable
from bullpen.protocol.policy import Sandbox
from bullpen.sandbox.guards import guards
from bullpen.sandbox.mounts import Mount, is_inside, mount
from bullpen.sandbox.network.namespace import SandboxNetwork, hosts_mount
from bullpen.sandbox.outside_sockets import socket_mounts
from bullpen.sandbox.syscall_filter import FILTER_FD, filter_path
from bullpen.sandbox.visible import (
    SYSTEM,
    homes_of,
    own_directories,
    own_guards,
    private_places,
    program_directories,
    read_only,
    system_mounts,
    tool_mounts,
)

_PROGRAM = "bwrap"
_CHECK_S = 20.0

# Opens the filter for bubblewrap, which is then this process.
_WITH_FILTER = f'exec {FILTER_FD}<"$0" && exec "$@"'


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeProgram:
    """What another vendor's program needs in a sandbox, besides what commands need."""

    # The path of the program itself, as it is started.
    path: str
    # Directories of its own in the place of the user's: first its home.
    homes: tuple[tuple[str, str], ...]
    # What it reads of the user's.
    reads: tuple[str, ...] = ()
    # Directories that it shares with its runner, each a mount, so that none can be replaced.
    shares: tuple[str, ...] = ()
    # Directories with the sockets of its runner.
    sockets: tuple[str, ...] = ()
    # It makes a sandbox of its own for its commands, which needs a user namespace.
    nests: bool = False


def check_sandbox() -> None:
    """Check that a command can be started in a sandbox. Raises Unavailable."""
    program = _program(os.environ.get("PATH", ""), ())
    words = [*_base(program), *_words(list(system_mounts())), "--", "/bin/sh"]
    try:
        done = subprocess.run(  # noqa: S603 - no shell, our own words
            [*_filtered(words), "-c", ":"], capture_output=True, timeout=_CHECK_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _not_to_be_had(str(error)) from None
    if done.returncode != 0:
        raise _not_to_be_had(done.stderr.decode("utf-8", "replace").strip()[-400:])


def weakness() -> str | None:
    """Why the sandbox is weaker on this machine than elsewhere; None if it is not."""
    if os.getuid() == 0:
        return (
            "the sandbox runs as root. It holds by read-only mounts and without capabilities, but a"
            " defect of the kernel or of a mount reaches further. Use an ordinary user"
        )
    return None


def sandboxed_command(
    argv: Sequence[str],
    *,
    cwd: str,
    directories: Sequence[str],
    sandbox: Sandbox,
    env: Mapping[str, str],
    hide: Sequence[str] = (),
    network: SandboxNetwork | None = None,
    whole: WholeProgram | None = None,
) -> list[str]:
    """The command that runs `argv` in a sandbox. The caller has to start it in its own session.

    The process gets `inner_environment(env)`. To send SIGTERM inside, signal the other processes of
    its group; to end everything, kill the first process.

    `directories` are writable like the working directory; `hide` is not visible. Without a
    `network`, nothing can be reached. Empty directories `.claude` and `.bullpen` may remain in the
    working directories: they block those names, so that nothing can be put there. Raises
    Unavailable.
    """
    forbid_core_dumps()
    homes = homes_of(env)
    here = os.path.realpath(cwd)
    if not os.path.isdir(here):
        raise Unavailable(
            f"The working directory {cwd!r} does not exist.",
            remedy="Create it again, or choose another one.",
        )
    own = [here, *(_place(path, cwd, env) for path in directories)]
    roots = _outermost([*own, *(_place(path, cwd, env) for path in sandbox.write)])
    hidden = [os.path.realpath(path) for path in hide]
    _refuse_too_wide(roots, homes, hidden)
    covers = private_places(homes, hidden)
    read = [_place(path, cwd, env) for path in sandbox.read]
    mounts = [
        *system_mounts(),
        *(mount(path, 1, "--tmpfs", path) for path in covers),
        *tool_mounts(env, homes, covers, roots),
        *read_only([each for each in read if not _in_any(each, roots)], covers),
        *(mount(path, 3, "--bind", path, path) for path in roots if os.path.exists(path)),
        *(guard for root in dict.fromkeys(own) for guard in guards(root, hidden)),
        *own_guards(roots),
        *socket_mounts(env, roots, [*SYSTEM, *read]),
    ]
    if whole is not None:
        mounts += _whole_program(whole, covers)
    if network is not None:
        mounts.append(mount(hosts_mount()[-1], 4, *hosts_mount()))
    for source, target in () if whole is None else whole.homes:
        for each in mounts:
            clear_way(source, target, each.words[-1])
    program = _program(env.get("PATH", ""), roots)
    base = _base(program, shares=network is not None, nests=whole is not None and whole.nests)
    words = [*base, *_words(mounts), "--remount-ro", "/", "--chdir", here, "--", *argv]
    return _filtered([*network.stage(program), *words] if network is not None else words)


def forbid_core_dumps() -> None:
    """Make no core dump of this process and what it starts: memory holds keys.

    The kernel ignores a limit of 0 if a program takes the dumps, but not this one.
    """
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    if hard not in (0, 1):
        resource.setrlimit(resource.RLIMIT_CORE, (1, 1))


def _not_to_be_had(why: str) -> Unavailable:
    return Unavailable(
        f"The sandbox is not available: {why}.",
        remedy="Install bubblewrap (apt install bubblewrap). In a container, allow user namespaces,"
        " or rely on the container and turn the sandbox off.",
    )


def _program(path: str, writable: Sequence[str]) -> str:
    """The path of bubblewrap, never one that a sandboxed command could have written."""
    for folder in path.split(os.pathsep):
        found = os.path.join(folder, _PROGRAM)
        if not os.path.isabs(found) or _in_any(os.path.realpath(found), writable):
            continue
        if os.path.isfile(found) and os.access(found, os.X_OK):
            return found
    raise _not_to_be_had(f"there is no {_PROGRAM} on the PATH")


def _base(program: str, *, shares: bool = False, nests: bool = False) -> list[str]:
    """The words for the namespaces; a sandbox with a network shares the one made for it."""
    words = [program, "--unshare-all", "--unshare-user"]
    # Inside the namespace that was made for the network this user has another number.
    words += ["--uid", str(os.getuid()), "--gid", str(os.getgid())]
    words += ["--share-net"] if shares else []
    if not nests and _can_refuse_user_namespaces(program):
        words.append("--disable-userns")
    # No new session: the caller starts one, so that one process group contains everything.
    words += ["--die-with-parent", "--cap-drop", "ALL"]
    return [*words, *([] if filter_path() is None else ["--seccomp", str(FILTER_FD)])]


def _words(mounts: Sequence[Mount]) -> list[str]:
    return [word for each in sorted(mounts, key=itemgetter(0, 1)) for word in each.words]


def _filtered(words: Sequence[str]) -> list[str]:
    """The command with the filter for system calls opened for it, if this machine has one."""
    path = filter_path()
    return list(words) if path is None else ["/bin/sh", "-c", _WITH_FILTER, path, *words]


@lru_cache(maxsize=4)
def _can_refuse_user_namespaces(program: str) -> bool:
    """Whether this bubblewrap can forbid user namespaces inside, as it can since version 0.8."""
    try:
        done = subprocess.run(  # noqa: S603 - no shell, our own words
            [program, "--help"], capture_output=True, timeout=_CHECK_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return b"--disable-userns" in done.stdout + done.stderr


def _whole_program(whole: WholeProgram, covers: Sequence[str]) -> list[Mount]:
    found = [mount(target, 2, "--bind", source, target) for source, target in whole.homes]
    found += [mount(path, 3, "--bind", path, path) for path in whole.shares]
    found += [mount(path, 4, "--ro-bind", path, path) for path in whole.sockets]
    shown = [*own_directories(), *program_directories(whole.path)]
    found += read_only(shown, covers, rank=0)
    return [*found, *(mount(path, 4, "--ro-bind-try", path, path) for path in whole.reads)]


def clear_way(source: str, target: str, path: str) -> None:
    """Remove links in a directory of the agent's in the way of a mount at a path in it.

    The directory is at `target` inside. The mount point would be made where such a link leads.
    """
    if not is_inside(path, target) or path == target:
        return
    place = source
    for part in path[len(target) :].strip("/").split("/"):
        place = os.path.join(place, part)
        if os.path.islink(place):
            os.unlink(place)


def _place(path: str, cwd: str, env: Mapping[str, str]) -> str:
    """The real path of a directory in a policy."""
    if path == "~" or path.startswith("~/"):
        path = env.get("HOME", "") + path[1:]
    return os.path.realpath(os.path.join(cwd, path))


def _outermost(paths: Sequence[str]) -> list[str]:
    """Only the outermost paths: a command could have replaced an inner one with a link."""
    found = list(dict.fromkeys(paths))
    return [path for path in found if not any(is_inside(path, o) and path != o for o in found)]


def _in_any(path: str, roots: Sequence[str]) -> bool:
    return any(is_inside(path, root) for root in roots)


def _refuse_too_wide(roots: Sequence[str], homes: Sequence[str], hidden: Sequence[str]) -> None:
    for root in roots:
        # Teams may be inside a project; they are then hidden in it.
        wide = [path for path in homes if is_inside(path, root)]
        opened = ", ".join([*wide, *(path for path in hidden if path == root)])
        if opened or root == "/":
            raise Unavailable(
                f"Cannot sandbox commands that may write in {root!r}: it contains {opened or '/'}.",
                remedy="Give the agent its own working directory.",
            )
