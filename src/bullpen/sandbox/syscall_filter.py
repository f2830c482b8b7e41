"""The seccomp filter of a sandbox: system calls that reach past its namespaces are refused.

A namespace does not cover every socket: AF_VSOCK leads to the host of a virtual machine. The keys
of the user's session are inherited. The others are large parts of the kernel that no tool needs.
"""

from __future__ import annotations

import errno
import os
import platform
import struct
from collections.abc import Sequence
from functools import lru_cache

FILTER_FD = 9
"""The file descriptor on which bubblewrap reads the filter."""

_FAMILIES = (1, 2, 10, 16)
"""AF_UNIX, AF_INET, AF_INET6 and AF_NETLINK, which the namespaces cover."""

_TERMINAL_INPUT = (0x5412, 0x541C)
"""TIOCSTI and TIOCLINUX, which type into a terminal."""

_URING = (425, 426, 427)

# Per machine: its audit number, socket, ioctl, and the calls that are refused: keys, bpf,
# perf_event_open, userfaultfd, open_by_handle_at.
_MACHINES = {
    "x86_64": (0xC000003E, 41, 16, (248, 249, 250, 321, 298, 323, 304, *_URING)),
    "aarch64": (0xC00000B7, 198, 29, (217, 218, 219, 280, 241, 282, 265, *_URING)),
}
_OTHER_ABI = 0x40000000

_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_NUMBER, _MACHINE, _FIRST, _SECOND = 0, 4, 16, 24
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000


def filter_path() -> str | None:
    """The path of a filter for this machine, as long as this process runs. None if there is none.

    It has no name on a disk. Whoever opens the path reads it from the start.
    """
    words = syscall_filter(platform.machine())
    return None if words is None else f"/proc/{os.getpid()}/fd/{_memory_file(os.getpid(), words)}"


def syscall_filter(machine: str, families: Sequence[int] = _FAMILIES) -> bytes | None:
    """The filter program for a machine; None if its calls are not known.

    Sockets can be made of these families only.
    """
    if machine not in _MACHINES:
        return None
    audit, socket, ioctl, refused = _MACHINES[machine]
    allow, no_call = _ALLOW, _ERROR | errno.ENOSYS
    words = [
        (_LOAD, 0, 0, _MACHINE),
        (_EQUAL, 1, 0, audit),
        # Programs for another machine, such as 32-bit ones, have other numbers: none may run.
        (_RETURN, 0, 0, no_call),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 0, 1, _OTHER_ABI),
        (_RETURN, 0, 0, no_call),
    ]
    for number in refused:
        words += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, no_call)]
    words += [(_EQUAL, 0, len(families) + 3, socket), (_LOAD, 0, 0, _FIRST)]
    for left, family in zip(range(len(families), 0, -1), families, strict=True):
        words.append((_EQUAL, left, 0, family))
    words += [(_RETURN, 0, 0, _ERROR | errno.EAFNOSUPPORT), (_RETURN, 0, 0, allow)]
    words += [(_EQUAL, 0, len(_TERMINAL_INPUT) * 2 + 1, ioctl), (_LOAD, 0, 0, _SECOND)]
    for command in _TERMINAL_INPUT:
        words += [(_EQUAL, 0, 1, command), (_RETURN, 0, 0, _ERROR | errno.EPERM)]
    words.append((_RETURN, 0, 0, allow))
    return b"".join(struct.pack("=HBBI", *word) for word in words)


@lru_cache(maxsize=2)
def _memory_file(pid: int, words: bytes) -> int:
    """A file in memory that stays open in this process."""
    file = os.memfd_create("syscall-filter")
    os.write(file, words)
    return file
