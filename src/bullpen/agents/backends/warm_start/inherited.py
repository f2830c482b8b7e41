"""Name a warm parent by all that its children inherit, so that two that differ are never mixed up.

A process inherits from its parent, besides its environment: its user and rights, its limits, its
namespaces and control group. An agent gets them from who starts it, so a warm parent serves only
starters that have the same.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence

AT_START = ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ")
"""Variables that Python or a library may read while it is imported. None is a secret.

TMPDIR is not one of them: nothing that agents import asks for it, each agent with a worktree has
another, and it may be gone before the parent.
"""

_NEVER_WARM = ("PYTHON", "LD_", "MALLOC_", "GLIBC_", "OPENSSL_", "PYDANTIC_")
"""Beginnings of variables that count only when a program starts."""

_NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts")
_STATUS = frozenset(
    (
        *("Umask", "Uid", "Gid", "Groups", "SigBlk", "SigIgn", "NoNewPrivs", "Seccomp"),
        *("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "Seccomp_filters"),
        *("Cpus_allowed", "Mems_allowed"),
    )
)
_PROTOCOL = "1"


def environment_at_start(env: Mapping[str, str]) -> dict[str, str]:
    """What a warm parent gets of the environment of an agent."""
    return {name: env[name] for name in AT_START if name in env}


def needs_own_start(env: Mapping[str, str]) -> str | None:
    """The variable that makes an agent need an interpreter that starts with it, if there is one."""
    return next((name for name in env if name.startswith(_NEVER_WARM)), None)


def key(module: str, modules: Sequence[str], env: Mapping[str, str]) -> str:
    """The name of the warm parent for an agent with these modules and this environment."""
    facts = [
        *(_PROTOCOL, sys.executable, sys.version, sys.prefix, os.path.abspath(__file__)),
        *(module, *modules, "", *map(repr, sorted(environment_at_start(env).items()))),
        *_of_this_process(),
    ]
    return hashlib.sha256("\0".join(facts).encode("utf-8", "surrogateescape")).hexdigest()[:24]


def namespaces(pid: int | str) -> list[str]:
    """The namespaces of a process. Raises OSError if this user may not see them."""
    there = (f"/proc/{pid}/ns/{name}" for name in _NAMESPACES)
    return [os.readlink(path) for path in there if os.path.lexists(path)]


def _of_this_process() -> Iterator[str]:
    for line in _lines("/proc/thread-self/status"):
        if line.partition(":")[0] in _STATUS:
            yield line
    for line in _lines("/proc/self/limits"):
        # Every agent forbids core dumps itself.
        if not line.startswith("Max core file size"):
            yield line
    for name in ("cgroup", "oom_score_adj", "attr/current"):
        yield from (name, *_lines(f"/proc/self/{name}"))
    yield from namespaces("self")
    yield str(os.getpriority(os.PRIO_PROCESS, 0))


def _lines(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read().splitlines()
    except OSError:
        # Kernels are built without some of these.
        return []
