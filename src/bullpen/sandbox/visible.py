"""What of the machine is visible in a sandbox: system directories, and the programs on the PATH.

Only listed directories are there. So a socket, a key or another project that lies elsewhere cannot
be reached, also if it is created later.
"""

from __future__ import annotations

import os
import pwd
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from bullpen import errors
from bullpen.sandbox.mounts import Mount, is_inside, mount

SCRATCH = ("/tmp", "/var/tmp", "/run")  # noqa: S108
"""Private inside. Sockets in them lead to outside programs: tmux, ssh agents, containers."""

SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/sys"),
    *("/nix", "/gnu", "/var/lib/ca-certificates"),
)
"""Directories of the system. They are read-only inside, and nothing else is there by itself."""

_HOMES = ("/home", "/root")
_READABLE_BY_ROOT = ("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers")

_KERNEL = ("/proc/sys", "/proc/irq", "/proc/bus", "/proc/fs", "/proc/sysrq-trigger")
"""Parts of /proc through which root changes the kernel of the machine."""

_KERNEL_MEMORY = ("/proc/kcore", "/proc/kmsg", "/proc/keys", "/proc/timer_list")

_TOOLCHAINS = (".rustup", ".local/share/uv", ".local/share/pipx", ".local/share/mise")
"""Directories below a home that contain only programs, or what programs on the PATH need."""

_PROGRAM_FOLDERS = ("bin", ".bin", "sbin", "shims")
_NEVER_WHOLE = frozenset(
    (".local", ".config", ".cache", ".docker", ".claude", ".bullpen", ".aws", ".ssh", ".gnupg")
)
"""Directories below a home with secrets: only the exact PATH entry of these is visible."""
_KEY_FILES = ("credentials", "credentials.toml")

_PACKAGES = "node_modules"


def system_mounts() -> Iterator[Mount]:
    """The system directories, read-only, and a /dev and /proc of the sandbox's own."""
    for path in SYSTEM:
        if os.path.isdir(path):
            yield mount(path, 0, "--ro-bind", path, path)
    yield mount("/dev", 0, "--dev", "/dev")
    yield mount("/proc", 0, "--proc", "/proc")
    for path in _KERNEL:
        if os.path.exists(path):
            yield mount(path, 1, "--ro-bind", path, path)
    if os.path.isdir("/sys/firmware"):
        yield mount("/sys/firmware", 1, "--tmpfs", "/sys/firmware")
    yield from masks((*_READABLE_BY_ROOT, *_KERNEL_MEMORY))


def homes_of(env: Mapping[str, str]) -> list[str]:
    """The home directories of this user."""
    named = [env.get("HOME", "")]
    with suppress(KeyError):
        named.append(pwd.getpwuid(os.getuid()).pw_dir)
    real = (os.path.realpath(path) for path in named if path)
    return [path for path in dict.fromkeys(real) if path != "/"]


def private_places(homes: Sequence[str], hidden: Sequence[str]) -> list[str]:
    """The directories that are empty and private inside."""
    found = dict.fromkeys((*SCRATCH, *_HOMES, *homes, *hidden))
    return [path for path in found if os.path.isdir(path)]


def tool_mounts(
    env: Mapping[str, str], homes: Sequence[str], covers: Sequence[str], writable: Sequence[str]
) -> Iterator[Mount]:
    """Show the entries of the PATH, so that programs outside the system directories can run.

    Entries in a writable directory are made read-only: programs outside look there too.
    """
    trees = [os.path.join(home, name) for home in homes for name in _TOOLCHAINS]
    for entry in map(os.path.normpath, filter(os.path.isabs, _entries(env))):
        if any(is_inside(entry, root) for root in writable):
            # A link could have been made inside, to show what it leads to.
            if os.path.realpath(entry) == entry and os.path.isdir(entry) and entry not in writable:
                yield mount(entry, 4, "--ro-bind", entry, entry)
        elif not _is_there(entry, covers):
            tree = _tree(entry, _nearest(entry, covers))
            trees += [tree, *_base_of_venv(tree)]
    for tree in dict.fromkeys(trees):
        if os.path.isdir(tree):
            yield mount(tree, 0, "--ro-bind", tree, tree)
            yield from masks(os.path.join(tree, name) for name in _KEY_FILES)


def program_directories(path: str) -> list[str]:
    """The directories that a program needs which is started by this path."""
    real = os.path.realpath(path)
    parts = Path(real).parts
    if _PACKAGES in parts:
        return [str(Path(*parts[: parts.index(_PACKAGES) + 1]))]
    return [os.path.dirname(real)]


def own_directories() -> list[str]:
    """Where Bullpen itself and its Python are installed."""
    package = os.path.dirname(os.path.realpath(errors.__file__))
    real = map(os.path.realpath, (sys.prefix, sys.base_prefix, sys.exec_prefix))
    found = [path for path in dict.fromkeys([*real, package]) if path not in ("/", "/usr")]
    return [path for path in found if os.access(path, os.R_OK | os.X_OK)]


def own_guards(writable: Sequence[str]) -> Iterator[Mount]:
    """Keep Bullpen's own installation read-only if it is in a writable directory."""
    for path in own_directories():
        if any(is_inside(path, root) and path != root for root in writable):
            yield mount(path, 4, "--ro-bind", path, path)


def read_only(paths: Iterable[str], covers: Sequence[str], rank: int = 2) -> Iterator[Mount]:
    """Show files and directories that are not visible otherwise. Those that are missing do not
    count."""
    for path in dict.fromkeys(paths):
        if not _is_there(path, covers):
            yield mount(path, rank, "--ro-bind-try", path, path)


def masks(paths: Iterable[str]) -> Iterator[Mount]:
    """Put an empty file over files."""
    for path in paths:
        if os.path.isfile(path) and os.access(path, os.R_OK):
            yield mount(path, 4, "--ro-bind", os.devnull, path)


def _entries(env: Mapping[str, str]) -> list[str]:
    return env.get("PATH", "").split(os.pathsep)


def _is_there(path: str, covers: Sequence[str]) -> bool:
    """Whether a path is visible by the system directories alone."""
    return any(is_inside(path, each) for each in SYSTEM) and not any(
        is_inside(path, cover) for cover in covers
    )


def _nearest(entry: str, covers: Sequence[str]) -> str:
    """The hidden directory around a PATH entry: a private place, or one at the top."""
    top = "/" + entry.split("/")[1]
    above = [cover for cover in (top, *covers) if is_inside(entry, cover) and entry != cover]
    return max(above, key=len, default="/")


def _tree(entry: str, cover: str) -> str:
    """The directory that the programs in a PATH entry need."""
    first = entry[len(cover) :].strip("/").split("/")[0]
    above, name = os.path.split(entry)
    whole = name in _PROGRAM_FOLDERS and above not in (cover, "/") and first not in _NEVER_WHOLE
    return above if whole else entry


def _base_of_venv(tree: str) -> Iterator[str]:
    """The installation that a virtual environment of Python belongs to."""
    with suppress(OSError, UnicodeDecodeError):
        with open(os.path.join(tree, "pyvenv.cfg"), encoding="utf-8") as file:
            lines = [line.partition("=") for line in file]
        for name, _, value in lines:
            if name.strip() == "home" and os.path.isabs(value.strip()):
                yield os.path.dirname(os.path.realpath(value.strip()))
